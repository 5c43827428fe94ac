//! How long the price of a BERT-base step takes to find.

use std::path::Path;

use divan::{Bencher, black_box};
use vramfit_catalogue::Catalogue;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_price::Clock;
use vramfit_readers::read_file;
use vramfit_training::Loop;

/// As in the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn bert_base() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures/bert-base.vramfit");
    read_file(path).expect("the capture is good")
}

fn bound(model: &Model) -> Bound<'_> {
    let flags = SizeFlags { batch: Some(32), sequence: Some(128), ..SizeFlags::default() };
    let sizes = Sizes::select(model, &flags).expect("the sizes are there");
    let variant = select_variant(model, VariantFlags::default()).expect("the variant is there");
    bind(model, variant, &sizes).expect("it can be bound")
}

fn clock() -> Clock {
    Clock::new(Catalogue::built_in().expect("the table can be read").find("H200").expect("it is in the table"))
}

#[divan::bench]
fn timetable(bencher: Bencher) {
    let (model, clock) = (bert_base(), clock());
    let bound = bound(&model);
    bencher.bench(|| clock.timetable(black_box(&bound)));
}

#[divan::bench]
fn step_from_timetable(bencher: Bencher) {
    let (model, clock) = (bert_base(), clock());
    let bound = bound(&model);
    let timetable = clock.timetable(&bound);
    bencher.bench(|| timetable.step_time_with(&[], black_box(&Loop::default())));
}

#[divan::bench]
fn step_with_blocks_checkpointed(bencher: Bencher) {
    let (model, clock) = (bert_base(), clock());
    let bound = bound(&model);
    let timetable = clock.timetable(&bound);
    let options = Loop { checkpoint: Choice::Blocks, ..Loop::default() };
    bencher.bench(|| timetable.step_time(black_box(&bound), &options));
}
