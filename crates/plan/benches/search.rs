//! How many candidates a second are simulated, on one core: a candidate is bound already, recorded, answered by the
//! allocator under every order of addresses, and judged.

use std::path::{Path, PathBuf};

use divan::{Bencher, black_box};
use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags};
use vramfit_plan::{AllocConf, Control, Setup, Workbench, plan};
use vramfit_readers::read_file;
use vramfit_training::Loop;
use vramfit_training::answer::Device;

/// As in the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

struct Given {
    model: Model,
    gpu: Gpu,
    start: Setup,
}

impl Given {
    fn bert_base() -> Given {
        Given::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures/bert-base.vramfit"))
    }

    fn read(path: &Path) -> Given {
        let model = read_file(path).expect("the capture is good");
        let gpu = Catalogue::built_in().expect("it is good").find("H200").expect("it is there").clone();
        let flags = SizeFlags { batch: Some(32), sequence: Some(128), sizes: Vec::new() };
        let start = Setup {
            sizes: Sizes::select(&model, &flags).expect("the sizes are there"),
            variant: VariantFlags::default(),
            training: Loop::default(),
            alloc_conf: AllocConf::default(),
            is_in_place: false,
        };
        Given { model, gpu, start }
    }

    fn bench(&self, vram: u64) -> Workbench<'_> {
        let context = self.gpu.context.expect("it is measured");
        Workbench::new(&self.model, None, Device { gpu: &self.gpu, context, is_asked: false, vram: Some(vram) })
    }
}

/// A candidate that fits: all orders of addresses are answered.
#[divan::bench]
fn candidate_that_fits(bencher: Bencher) {
    let given = Given::bert_base();
    let (bench, control) = (given.bench(100 << 30), Control::default());
    bencher.bench_local(|| candidate(&bench, black_box(&given.start), &control));
}

/// Simulated from scratch, nothing of it kept: what was looked at once is answered from memory in a search.
fn candidate(bench: &Workbench<'_>, setup: &Setup, control: &Control) -> bool {
    bench.scenarios(setup).is_ok_and(|scenarios| bench.fitting_scenarios(&scenarios, setup, control).is_some())
}

/// A candidate that does not: the first order of addresses, or what is held at once, says so.
#[divan::bench]
fn candidate_that_does_not(bencher: Bencher) {
    let given = Given::bert_base();
    let (bench, control) = (given.bench(3 << 30), Control::default());
    bencher.bench_local(|| candidate(&bench, black_box(&given.start), &control));
}

/// One candidate, one run: the step and the allocator under the usual order of addresses.
#[divan::bench]
fn candidate_with_one_order(bencher: Bencher) {
    let given = Given::bert_base();
    let (bench, control) = (given.bench(100 << 30), Control::default());
    bencher.bench_local(|| bench.run_free(black_box(&given.start), &control));
}

/// Its price, and those with other implementations of its optimizer.
#[divan::bench]
fn price(bencher: Bencher) {
    let given = Given::bert_base();
    let bench = given.bench(100 << 30);
    bencher.bench_local(|| {
        bench.pricing(black_box(&given.start)).map(|mut pricing| pricing.seconds(&given.start.training))
    });
}

/// A whole answer for BERT with 48 layers, on all cores: it fits on a GPU of 24 GiB, does not on one of 12, and nothing
/// does on one of 4. `benchmarks/layers/capture.py` makes the capture.
#[divan::bench(args = [24, 12, 4], sample_count = 5, sample_size = 1, ignore = layers().is_none())]
fn answer_for_48_layers(bencher: Bencher, gibibytes: u64) {
    let given = Given::read(&layers().expect("it is there"));
    bencher.bench_local(|| {
        let bench = given.bench(gibibytes << 30);
        plan(&bench, black_box(&given.start), &[], &Control::default()).expect("there is an answer").simulated
    });
}

fn layers() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("VRAMFIT_LAYERS")?).join("bert-48.vramfit");
    path.exists().then_some(path)
}
