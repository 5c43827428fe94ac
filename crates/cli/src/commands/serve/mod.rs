//! `vramfit serve`: metrics, a page and JSON over HTTP, read-only.

mod routes;
mod state;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use vramfit_monitor::sampler::Cpu;

use self::routes::Site;
use self::state::State;
use crate::arguments::monitor::Serve;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::feed::{Samples, interval};
use crate::interrupt::{ControlSignal, Interrupt};
use crate::web_server::{self, KnownHosts, Token};

/// Serves until it is stopped.
pub fn run(options: &Serve) -> Result<ExitStatus, Failure> {
    let token = Token::find(options.token_file.as_deref())?;
    let addresses = options.listen.addresses(options.port)?;
    refuse_open_address(&addresses, token.as_ref(), options.insecure)?;
    let pause = interval(options.interval)?;
    let mut samples = Samples::open(&options.machine, Cpu::SinceLastSample)?;
    let listener = TcpListener::bind(addresses.as_slice()).map_err(|error| {
        let asked: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        Failure::new(format!("{}: {error}", asked.join(", ")))
            .with_hint(Some("--port chooses another port; 0 takes a free one"))
    })?;
    let address = listener.local_addr().map_err(|error| Failure::new(format!("the address: {error}")))?;
    // The first sample shows whether the chosen GPUs exist.
    let first = samples.next()?;
    let interrupt = Interrupt::install()?;
    let state = Arc::new(State::default());
    state::keep_sampling(first, samples, pause, &state);
    let is_loopback = address.ip().to_canonical().is_loopback();
    let site = Site {
        state,
        token,
        hosts: is_loopback.then(|| KnownHosts { listen_name: options.listen.name().map(str::to_owned) }),
        per_process: options.per_process,
        interval: pause,
    };
    // Serve even if standard error is closed.
    let _ = writeln!(
        anstream::stderr(),
        "listening on http://{address}/ (metrics: /metrics, JSON: /api/gpus); Ctrl-C stops"
    );
    std::thread::spawn(move || web_server::accept(&listener, move |request| site.answer(request)));
    while interrupt.wait(std::time::Duration::from_secs(3600)) != Some(ControlSignal::End) {}
    Ok(ExitStatus::Good)
}

/// Users and command lines are private by default.
fn refuse_open_address(addresses: &[SocketAddr], token: Option<&Token>, insecure: bool) -> Result<(), Failure> {
    let open = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    let Some(open) = open.filter(|_| token.is_none() && !insecure) else { return Ok(()) };
    let address = open.ip();
    Err(Failure::new(format!("--listen {address}: others could read users and commands; a token is needed")).with_hint(
        Some("give --token-file FILE (or VRAMFIT_TOKEN) and let clients send it as a bearer token, or say --insecure"),
    ))
}
