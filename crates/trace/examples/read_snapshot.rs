//! Reads a snapshot file and prints what is in it, and how long that took: `cargo run --release --example read_snapshot FILE`.

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: read_snapshot FILE");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let snapshot = match vramfit_trace::read::read_file(&path, &mut |_done, _total| {}) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            eprintln!("error: {}: {error}", path.display());
            if let Some(hint) = error.hint() {
                eprintln!("\nhint: {hint}");
            }
            return ExitCode::from(2);
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let events: usize = snapshot.devices.iter().map(|device| device.events.len()).sum();
    let segments: usize = snapshot.devices.iter().map(|device| device.segments.len()).sum();
    println!(
        "seconds {seconds:.6} devices {} events {events} segments {segments} stacks {} annotations {}",
        snapshot.devices.len(),
        snapshot.stacks.len(),
        snapshot.annotations.len(),
    );
    ExitCode::SUCCESS
}
