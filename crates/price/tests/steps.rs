//! What a step's price must depend on, and how.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use vramfit_catalogue::Catalogue;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_price::{Clock, StepTime};
use vramfit_readers::read_file;
use vramfit_training::Loop;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};

fn model(name: &str) -> Model {
    read_file(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../validation/captures/{name}.vramfit"))).unwrap()
}

fn bound(model: &Model, batch: i64, amp: Option<Dtype>) -> Bound<'_> {
    let sizes = Sizes::select(model, &SizeFlags { batch: Some(batch), ..SizeFlags::default() }).unwrap();
    let variant = select_variant(model, VariantFlags { amp, ..VariantFlags::default() }).unwrap();
    bind(model, variant, &sizes).unwrap()
}

fn clock(gpu: &str) -> Clock {
    Clock::new(Catalogue::built_in().unwrap().find(gpu).unwrap())
}

fn time(bound: &Bound<'_>, options: &Loop) -> StepTime {
    clock("H200").step_time(bound, options).unwrap()
}

#[test]
fn phases_sum_to_the_step_and_neither_side_works_longer_than_it_lasts() {
    let model = model("bert-base");
    for options in [Loop::default(), Loop { accumulate: 7, ..Loop::default() }] {
        let time = time(&bound(&model, 32, None), &options);
        assert!((time.forward + time.backward + time.step - time.seconds).abs() < 1e-9);
        assert!(time.gpu <= time.seconds * 1.001 && time.cpu <= time.seconds * 1.001, "{time:?}");
        assert!(time.gpu > 0.0 && time.cpu > 0.0);
    }
}

#[test]
fn checkpointing_costs_less_than_a_second_forward_pass_on_the_gpu() {
    let model = model("gpt2-medium");
    let bound = bound(&model, 8, None);
    let plain = time(&bound, &Loop::default());
    let again = time(&bound, &Loop { checkpoint: Choice::Blocks, ..Loop::default() });
    assert!(again.gpu > plain.gpu * 1.1);
    assert!(again.gpu < plain.gpu + plain.forward);
}

#[test]
fn the_same_batch_in_four_parts_takes_longer() {
    let model = model("bert-base");
    let whole = time(&bound(&model, 32, None), &Loop::default());
    let parts = time(&bound(&model, 8, None), &Loop { accumulate: 4, ..Loop::default() });
    assert!(parts.seconds > whole.seconds);
}

#[test]
fn more_micro_batches_cost_as_much_each() {
    let model = model("bert-base");
    let bound = bound(&model, 8, None);
    let of = |accumulate| time(&bound, &Loop { accumulate, ..Loop::default() }).seconds;
    let each = of(5) - of(4);
    assert!(((of(20) - of(5)) / 15.0 - each).abs() < 0.01 * each);
}

#[test]
fn autocast_is_faster_where_the_gpu_decides() {
    let model = model("bert-base");
    let (single, half) = (bound(&model, 64, None), bound(&model, 64, Some(Dtype::Bfloat16)));
    assert!(time(&half, &Loop::default()).gpu < 0.6 * time(&single, &Loop::default()).gpu);
}

#[test]
fn an_optimizer_that_goes_weight_by_weight_costs_the_cpu_more_and_a_fused_one_less() {
    let model = model("bert-base");
    let bound = bound(&model, 8, None);
    let of =
        |implementation| time(&bound, &Loop { optimizer: Recipe::new(Kind::AdamW, implementation), ..Loop::default() });
    let (lists, fused, one_by_one) =
        (of(Implementation::Foreach), of(Implementation::Fused), of(Implementation::ForLoop));
    assert!(fused.cpu < lists.cpu && lists.cpu < one_by_one.cpu);
    assert!(fused.gpu < lists.gpu);
}

#[test]
fn a_smaller_gpu_takes_longer() {
    let model = model("resnet50");
    let bound = bound(&model, 16, None);
    let on = |gpu: &str| clock(gpu).step_time(&bound, &Loop::default()).unwrap().seconds;
    assert!(on("RTX 3060") > 2.0 * on("A100 SXM4 80GB") && on("A100 SXM4 80GB") > on("H200"));
}

#[test]
fn a_module_that_is_not_there_is_an_error() {
    let model = model("bert-base");
    let options = Loop { checkpoint: Choice::modules(vec!["nothing.of.the.kind".to_owned()]), ..Loop::default() };
    assert!(clock("H200").step_time(&bound(&model, 2, None), &options).is_err());
}

#[test]
fn evaluation_is_a_forward_pass() {
    let model = model("bert-base");
    let sizes = Sizes::select(&model, &SizeFlags::default()).unwrap();
    let flags = VariantFlags { is_eval: true, ..VariantFlags::default() };
    let bound = bind(&model, select_variant(&model, flags).unwrap(), &sizes).unwrap();
    let time = time(&bound, &Loop::default());
    assert!(time.backward == 0.0 && time.step == 0.0 && time.forward == time.seconds);
}
