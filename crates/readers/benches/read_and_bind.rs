//! How long BERT-base takes to read and to bind.

use divan::{Bencher, black_box};
use vramfit_graph::bind::bind;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_bytes;

const BERT_BASE: &[u8] = include_bytes!("../tests/captures/bert-base.vramfit");

fn main() {
    divan::main();
}

fn bert_base() -> Model {
    read_bytes(BERT_BASE).expect("the capture is good")
}

#[divan::bench]
fn read_bert_base() -> Model {
    read_bytes(black_box(BERT_BASE)).expect("the capture is good")
}

/// A capture that is not in the repository: `VRAMFIT_CAPTURE=llama-7b.vramfit cargo bench`.
#[divan::bench]
fn read_another(bencher: Bencher) {
    if let Some(path) = std::env::var_os("VRAMFIT_CAPTURE") {
        bencher.bench(|| vramfit_readers::read_file(&path).expect("the capture is good"));
    }
}

#[divan::bench]
fn bind_bert_base(bencher: Bencher) {
    let model = bert_base();
    let variant = select_variant(&model, VariantFlags::default()).expect("the capture has it");
    let flags = SizeFlags { batch: Some(32), ..SizeFlags::default() };
    let sizes = Sizes::select(&model, &flags).expect("the capture has it");
    bencher.bench(|| bind(black_box(&model), variant, &sizes).expect("it can be bound"));
}

#[divan::bench]
fn evaluate_a_thousand_expressions(bencher: Bencher) {
    let model = bert_base();
    let sizes = Sizes::example(&model).expect("all sizes have examples");
    bencher.bench(|| {
        let expressions = model.expressions.iter().cycle().take(1000);
        expressions.filter_map(|expression| expression.evaluate(black_box(sizes.as_slice())).ok()).sum::<i64>()
    });
}
