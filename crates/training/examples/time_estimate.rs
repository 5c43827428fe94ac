//! Times estimates of a capture from its loaded graph: `time_estimate FILE BATCH SEQUENCE REPETITIONS` prints each one's
//! seconds, then the peak in bytes. A sequence of 0 is none.

use std::error::Error;
use std::time::Instant;

use vramfit_allocator::Settings;
use vramfit_eager::machine::H200;
use vramfit_graph::bind::bind;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{Loop, train};

/// As in the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, batch, sequence, repetitions] = arguments.as_slice() else {
        return Err("needed FILE BATCH SEQUENCE REPETITIONS".into());
    };
    let sequence = Some(sequence.parse()?).filter(|length| *length > 0);
    let flags = SizeFlags { batch: Some(batch.parse()?), sequence, sizes: Vec::new() };
    let model = read_file(path)?;
    let options = Loop { optimizer: Recipe::new(Kind::Adam, Implementation::Default), ..Loop::default() };
    let mut peak = 0;
    for _ in 0..repetitions.parse::<u32>()? {
        let begun = Instant::now();
        let sizes = Sizes::select(&model, &flags)?;
        let bound = bind(&model, select_variant(&model, VariantFlags::default())?, &sizes)?;
        let run = train(&bound, &options, Settings::default(), H200, false)?;
        println!("seconds {}", begun.elapsed().as_secs_f64());
        peak = run.peak().map_or(0, |phase| phase.peak.allocated);
    }
    println!("peak {peak}");
    Ok(())
}
