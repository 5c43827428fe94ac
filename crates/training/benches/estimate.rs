//! How long an estimate takes from a loaded graph: three training steps and the allocator.
//!
//! `layers` needs captures of deeper models, which `benchmarks/layers/capture.py` makes.

use std::path::{Path, PathBuf};

use divan::{Bencher, black_box};
use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_eager::machine::H200;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::{Loop, Run, record, train};

/// As in the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn load(path: &Path) -> Model {
    read_file(path).expect("the capture is good")
}

fn captured(name: &str) -> Model {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../validation/captures/{name}.vramfit")))
}

fn bert_base() -> Model {
    captured("bert-base")
}

fn bound(model: &Model) -> Bound<'_> {
    let flags = SizeFlags { batch: Some(32), sequence: Some(128), ..SizeFlags::default() };
    let sizes = Sizes::select(model, &flags).expect("the sizes are there");
    let variant = select_variant(model, VariantFlags::default()).expect("the variant is there");
    bind(model, variant, &sizes).expect("it can be bound")
}

/// One estimate: sizes bound, three steps, the allocator.
fn estimate(model: &Model) -> Run {
    train(&bound(model), &Loop::default(), Settings::default(), H200, false).expect("nothing is checkpointed")
}

#[divan::bench]
fn estimate_bert_base(bencher: Bencher) {
    let model = bert_base();
    bencher.bench(|| estimate(black_box(&model)));
}

fn estimate_at(model: &Model, sizes: &Sizes) -> Run {
    let variant = select_variant(model, VariantFlags::default()).expect("the variant is there");
    let bound = bind(model, variant, sizes).expect("it can be bound");
    train(&bound, &Loop::default(), Settings::default(), H200, false).expect("nothing is checkpointed")
}

/// ResNet-50 at its example's sizes: what is asked is less than a millisecond. From the second time on a thread has looked up
/// cuDNN's plans for these shapes.
#[divan::bench]
fn estimate_resnet50(bencher: Bencher) {
    let model = captured("resnet50");
    let sizes = Sizes::example(&model).expect("all sizes have examples");
    bencher.bench(|| estimate_at(black_box(&model), &sizes));
}

/// The same at another batch each time, so that the plans of all its convolutions are looked up.
#[divan::bench]
fn estimate_resnet50_at_new_batches(bencher: Bencher) {
    let model = captured("resnet50");
    let mut batch = 0;
    bencher
        .with_inputs(|| {
            batch += 1;
            let flags = SizeFlags { batch: Some(batch), ..SizeFlags::default() };
            Sizes::select(&model, &flags).expect("the sizes are there")
        })
        .bench_local_values(|sizes| estimate_at(black_box(&model), &sizes));
}

#[divan::bench]
fn bind_alone(bencher: Bencher) {
    let model = bert_base();
    bencher.bench(|| drop(bound(black_box(&model))));
}

#[divan::bench]
fn program_alone(bencher: Bencher) {
    let model = bert_base();
    let bound = bound(&model);
    bencher.bench(|| record(black_box(&bound), &Loop::default(), H200));
}

#[divan::bench]
fn allocator_alone(bencher: Bencher) {
    let model = bert_base();
    let program = record(&bound(&model), &Loop::default(), H200).expect("nothing is checkpointed");
    bencher.bench(|| black_box(&program).run(Settings::default(), SimulatedDriver::in_process(u64::MAX)));
}

/// BERT with so many layers: the time should grow as they do.
#[divan::bench(args = [12, 48, 192], ignore = std::env::var_os("VRAMFIT_LAYERS").is_none())]
fn layers(bencher: Bencher, count: u32) {
    let folder = std::env::var_os("VRAMFIT_LAYERS").map(PathBuf::from);
    let path = folder.map(|folder| folder.join(format!("bert-{count}.vramfit"))).filter(|path| path.exists());
    if let Some(path) = path {
        let model = load(&path);
        bencher.bench(|| estimate(black_box(&model)));
    }
}
