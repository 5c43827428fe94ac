//! Models, GPUs and setups for the tests.

#![allow(dead_code, reason = "no test uses all of it")]

use std::path::Path;

use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags};
use vramfit_plan::tricks::{TRICKS, Trick, risk};
use vramfit_plan::{Control, Setup, TrainingEffect, Workbench};
use vramfit_readers::read_file;
use vramfit_training::Loop;
use vramfit_training::answer::Device;

pub fn model(name: &str) -> Model {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures");
    read_file(folder.join(format!("{name}.vramfit"))).unwrap()
}

pub fn gpu(name: &str) -> Gpu {
    Catalogue::built_in().unwrap().find(name).unwrap().clone()
}

/// A GPU on which PyTorch may reserve `vram` bytes.
pub fn capped(gpu: &Gpu, vram: u64) -> Device<'_> {
    Device { gpu, is_asked: false, vram: Some(vram), cudnn: None }
}

pub fn setup(model: &Model, batch: i64, sequence: Option<i64>) -> Setup {
    let flags = SizeFlags { batch: Some(batch), sequence, sizes: Vec::new() };
    Setup::new(Sizes::select(model, &flags).unwrap(), VariantFlags::default(), Loop::default())
}

pub const GIB: u64 = 1 << 30;
pub const MIB: u64 = 1 << 20;

pub fn trick(name: &str) -> &'static dyn Trick {
    TRICKS.iter().copied().find(|trick| trick.name() == name).unwrap()
}

/// The effect of all tricks that turn a start into a setup.
pub fn effect(bench: &Workbench<'_>, start: &Setup, setup: &Setup) -> TrainingEffect {
    risk(bench, TRICKS, start, setup).effect()
}

/// Peak allocated bytes that a setup saves.
pub fn allocated_saving(bench: &Workbench<'_>, start: &Setup, setup: &Setup) -> i64 {
    let control = Control::default();
    let allocated = |setup: &Setup| bench.peaks(setup, &control).unwrap().allocated as i64;
    allocated(start) - allocated(setup)
}

/// Peak reserved bytes that a setup saves.
pub fn saving(bench: &Workbench<'_>, start: &Setup, setup: &Setup) -> i64 {
    let control = Control::default();
    let reserved = |setup: &Setup| bench.peaks(setup, &control).unwrap().reserved as i64;
    reserved(start) - reserved(setup)
}
