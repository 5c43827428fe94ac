//! How long reading a model takes, as `estimate` reads it: the least of some runs.
//!
//! `cargo run --release -p vramfit-graph --example time_read -- RUNS FILE…`

use std::error::Error;
use std::time::{Duration, Instant};

use vramfit_graph::select::VariantFlags;
use vramfit_readers::read_file_for;

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let runs: usize = arguments.next().ok_or("needed a number of runs")?.parse()?;
    for file in arguments {
        let mut least = Duration::MAX;
        for _ in 0..runs {
            let begun = Instant::now();
            let model = read_file_for(&file, VariantFlags::default())?;
            least = least.min(begun.elapsed());
            drop(model);
        }
        println!("{:8.2} ms  {file}", least.as_secs_f64() * 1000.0);
    }
    Ok(())
}
