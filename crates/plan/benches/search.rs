//! How many candidates are simulated per second on one core. The model is bound already; a candidate is recorded and run
//! through the allocator with every order of addresses.

use std::path::{Path, PathBuf};

use divan::{Bencher, black_box};
use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags};
use vramfit_plan::{Control, Setup, Workbench, plan};
use vramfit_readers::read_file;
use vramfit_training::Loop;
use vramfit_training::answer::Device;

/// The allocator of the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

struct Input {
    model: Model,
    gpu: Gpu,
    start: Setup,
}

impl Input {
    fn bert_base() -> Input {
        Input::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures/bert-base.vramfit"))
    }

    fn read(path: &Path) -> Input {
        let model = read_file(path).expect("the capture is valid");
        let gpu = Catalogue::built_in()
            .expect("the built-in table is valid")
            .find("H200")
            .expect("the H200 is in the table")
            .clone();
        let flags = SizeFlags { batch: Some(32), sequence: Some(128), sizes: Vec::new() };
        let sizes = Sizes::select(&model, &flags).expect("the model has these sizes");
        let start = Setup::new(sizes, VariantFlags::default(), Loop::default());
        Input { model, gpu, start }
    }

    fn bench(&self, vram: u64) -> Workbench<'_> {
        Workbench::new(&self.model, None, Device { gpu: &self.gpu, is_asked: false, vram: Some(vram), cudnn: None })
    }
}

/// A candidate that fits: all orders of addresses are simulated.
#[divan::bench]
fn candidate_that_fits(bencher: Bencher) {
    let input = Input::bert_base();
    let (bench, control) = (input.bench(100 << 30), Control::default());
    bencher.bench_local(|| candidate(&bench, black_box(&input.start), &control));
}

/// Simulates without the cache that a search uses.
fn candidate(bench: &Workbench<'_>, setup: &Setup, control: &Control) -> bool {
    bench.scenarios(setup).is_ok_and(|scenarios| bench.fitting_run_of(&scenarios, setup, control).is_some())
}

/// A candidate that does not fit: its peak live bytes or the first order of addresses show it.
#[divan::bench]
fn candidate_that_does_not_fit(bencher: Bencher) {
    let input = Input::bert_base();
    let (bench, control) = (input.bench(3 << 30), Control::default());
    bencher.bench_local(|| candidate(&bench, black_box(&input.start), &control));
}

/// One candidate with the expected order of addresses only.
#[divan::bench]
fn candidate_with_one_order(bencher: Bencher) {
    let input = Input::bert_base();
    let (bench, control) = (input.bench(100 << 30), Control::default());
    bencher.bench_local(|| bench.probe_run(black_box(&input.start), &control));
}

/// The step time of a candidate, and those with other implementations of its optimizer.
#[divan::bench]
fn price(bencher: Bencher) {
    let input = Input::bert_base();
    let bench = input.bench(100 << 30);
    bencher.bench_local(|| {
        bench.pricing(black_box(&input.start)).map(|mut pricing| pricing.seconds(&input.start.training))
    });
}

/// A whole search for BERT with 48 layers, on all cores. With 24 GiB it fits unchanged, with 12 GiB a plan fits, with 4 GiB
/// nothing does. `benchmarks/layers/capture.py` makes the capture.
#[divan::bench(args = [24, 12, 4], sample_count = 5, sample_size = 1, ignore = layers().is_none())]
fn answer_for_48_layers(bencher: Bencher, gibibytes: u64) {
    let input = Input::read(&layers().expect("the capture exists"));
    bencher.bench_local(|| {
        let bench = input.bench(gibibytes << 30);
        plan(&bench, black_box(&input.start), &[], &Control::default()).expect("the start can be simulated").simulated
    });
}

fn layers() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("VRAMFIT_LAYERS")?).join("bert-48.vramfit");
    path.exists().then_some(path)
}
