//! `vramfit serve`: metrics, a page and JSON over HTTP, read-only.

mod routes;
mod state;

use std::io::Write;
use std::sync::Arc;

use vramfit_monitor::sampler::Cpu;
use vramfit_web::server::accept;

use self::routes::GpuSite;
use self::state::State;
use crate::arguments::monitor::Serve;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::feed::{Samples, interval};
use crate::interrupt::{ControlSignal, Interrupt};
use crate::network::Network;

const DEFAULT_PORT: u16 = 9837;

/// Serves until it is stopped.
pub fn run(options: &Serve) -> Result<ExitStatus, Failure> {
    let Network { listener, address, token, hosts } =
        Network::open(&options.at, options.port, DEFAULT_PORT, "read users and commands")?;
    let pause = interval(options.interval)?;
    let mut samples = Samples::open(&options.machine, Cpu::SinceLastSample)?;
    // The first sample shows whether the chosen GPUs exist.
    let first = samples.next()?;
    let interrupt = Interrupt::install()?;
    let state = Arc::new(State::default());
    state::keep_sampling(first, samples, pause, &state);
    let site = GpuSite { state, token, hosts, per_process: options.per_process, interval: pause };
    // Serve even if standard error is closed.
    let _ = writeln!(
        anstream::stderr(),
        "listening on http://{address}/ (metrics: /metrics, JSON: /api/gpus); Ctrl-C stops"
    );
    std::thread::spawn(move || accept(&listener, site));
    while interrupt.wait(std::time::Duration::from_secs(3600)) != Some(ControlSignal::End) {}
    Ok(ExitStatus::Good)
}
