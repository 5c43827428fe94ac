//! `vramfit serve`: metrics, a page and JSON over HTTP. There is nothing to write to.

mod connection;
mod request;
mod routes;
mod state;
mod token;

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use vramfit_monitor::sampler::Cpu;

use self::routes::Site;
use self::state::State;
use self::token::Token;
use crate::Verdict;
use crate::arguments::monitor::Serve;
use crate::failure::Failure;
use crate::feed::{Samples, interval};
use crate::interrupt::Interrupt;

/// Listens until it is told to stop.
pub fn run(options: &Serve) -> Result<Verdict, Failure> {
    let token = token::find(options.token_file.as_deref())?;
    refuse_open_address(options.listen, token.as_ref(), options.insecure)?;
    let pause = interval(options.interval)?;
    let samples = Samples::open(&options.machine, Cpu::SinceLastSample)?;
    let address = SocketAddr::new(options.listen, options.port);
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::new(format!("{address}: {error}")).with_hint(Some("--port chooses another port; 0 takes a free one"))
    })?;
    let address = listener.local_addr().unwrap_or(address);
    let interrupt = Interrupt::install()?;
    let state = Arc::new(State::default());
    state::keep_sampling(samples, pause, &state);
    let site = Arc::new(Site {
        state,
        token,
        checks_host: options.listen.is_loopback(),
        per_process: options.per_process,
        interval: pause,
    });
    // A closed standard error is no reason not to serve.
    let _ = writeln!(
        anstream::stderr(),
        "listening on http://{address}/ (metrics: /metrics, JSON: /api/gpus); Ctrl-C stops"
    );
    let open = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || connection::accept(&listener, &site, &open));
    while !interrupt.wait(std::time::Duration::from_secs(3600)) {}
    Ok(Verdict::Good)
}

/// Users and commands are nobody's business by default.
fn refuse_open_address(address: IpAddr, token: Option<&Token>, insecure: bool) -> Result<(), Failure> {
    if address.is_loopback() || token.is_some() || insecure {
        return Ok(());
    }
    Err(Failure::new(format!("--listen {address}: others could read users and commands; a token is needed")).with_hint(
        Some("give --token-file FILE (or VRAMFIT_TOKEN) and let clients send it as a bearer token, or say --insecure"),
    ))
}
