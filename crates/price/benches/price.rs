//! How long it takes to price a BERT-base step.

use std::path::Path;

use divan::{Bencher, black_box};
use vramfit_catalogue::Catalogue;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_price::CostModel;
use vramfit_readers::read_file;
use vramfit_training::Loop;

/// The allocator of the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn bert_base() -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures/bert-base.vramfit");
    read_file(path).expect("the capture is valid")
}

fn bound(model: &Model) -> Bound<'_> {
    let flags = SizeFlags { batch: Some(32), sequence: Some(128), ..SizeFlags::default() };
    let sizes = Sizes::select(model, &flags).expect("the model has these sizes");
    let variant = select_variant(model, VariantFlags::default()).expect("the model has this variant");
    bind(model, variant, &sizes).expect("the model can be bound")
}

fn cost_model() -> CostModel {
    let catalogue = Catalogue::built_in().expect("the built-in table is valid");
    CostModel::new(catalogue.find("H200").expect("the H200 is in the table"))
}

#[divan::bench]
fn price_graph(bencher: Bencher) {
    let (model, cost_model) = (bert_base(), cost_model());
    let bound = bound(&model);
    bencher.bench(|| cost_model.price(black_box(&bound)));
}

#[divan::bench]
fn step_time_of_priced_graph(bencher: Bencher) {
    let (model, cost_model) = (bert_base(), cost_model());
    let bound = bound(&model);
    let priced = cost_model.price(&bound);
    bencher.bench(|| priced.step_time_with(&[], black_box(&Loop::default())));
}

#[divan::bench]
fn step_time_with_checkpointed_blocks(bencher: Bencher) {
    let (model, cost_model) = (bert_base(), cost_model());
    let bound = bound(&model);
    let priced = cost_model.price(&bound);
    let options = Loop { checkpoint: Choice::Blocks, ..Loop::default() };
    bencher.bench(|| priced.step_time(black_box(&bound), &options));
}
