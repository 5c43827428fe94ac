//! `vramfit web`: the calculator in the browser.

mod export;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use vramfit_web::calculator::{CalculatorSite, Limits};
use vramfit_web::server::accept;

use crate::arguments::web::Web;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, warn};
use crate::installed_cudnn::InstalledCudnn;
use crate::interrupt::{ControlSignal, Interrupt};
use crate::known_gpus;
use crate::network::Network;
use crate::platform;
use vramfit_engine::calculator::Engine;

/// Serves the calculator until it is stopped, or writes it into a folder.
pub fn run(options: &Web) -> Result<ExitStatus, Failure> {
    if let Some(folder) = &options.export {
        return export::run(folder, options);
    }
    let cudnn = InstalledCudnn::find(Some(&options.cudnn))?;
    let engine = Engine::new(known_gpus::load()?, Box::new(cudnn))?;
    let Network { listener, address, token, hosts } = Network::open(&options.at, options.port, 0, "use this machine")?;
    let interrupt = Interrupt::install()?;
    let site = CalculatorSite::new(engine, token, hosts, Limits::default());
    let page = format!("http://{}/", reachable(address));
    std::thread::spawn(move || accept(&listener, site));
    // Serve even if standard error is closed.
    let _ = writeln!(anstream::stderr(), "the calculator is at {page} (Ctrl-C stops it)");
    if options.open
        && let Err(error) = platform::open_in_browser(&page)
    {
        warn(&format!("--open: {error}; open {page} yourself"));
    }
    while interrupt.wait(Duration::from_secs(3600)) != Some(ControlSignal::End) {}
    Ok(ExitStatus::Good)
}

/// The address as a browser of this machine takes it.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_unspecified() => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), address.port()),
        _ => address,
    }
}
