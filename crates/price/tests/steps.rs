//! How a step's time depends on the model, the loop and the GPU.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use vramfit_catalogue::Catalogue;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_price::{CostModel, StepTime};
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

fn cost_model(gpu: &str) -> CostModel {
    CostModel::new(Catalogue::built_in().unwrap().find(gpu).unwrap())
}

fn time(bound: &Bound<'_>, options: &Loop) -> StepTime {
    cost_model("H200").step_time(bound, options).unwrap()
}

#[test]
fn phases_sum_to_the_step_and_neither_side_is_busy_for_longer() {
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
    let checkpointed = time(&bound, &Loop { checkpoint: Choice::Blocks, ..Loop::default() });
    assert!(checkpointed.gpu > plain.gpu * 1.1);
    assert!(checkpointed.gpu < plain.gpu + plain.forward);
}

#[test]
fn the_same_batch_in_four_micro_batches_takes_longer() {
    let model = model("bert-base");
    let whole = time(&bound(&model, 32, None), &Loop::default());
    let parts = time(&bound(&model, 8, None), &Loop { accumulate: 4, ..Loop::default() });
    assert!(parts.seconds > whole.seconds);
}

#[test]
fn on_no_gpu_do_micro_batches_look_faster_than_the_measurements_on_the_h200_show() {
    let model = model("resnet50");
    for amp in [None, Some(Dtype::Float16)] {
        for whole in [32, 128, 256, 512] {
            for accumulate in [2, 4, 8] {
                let whole_batch = bound(&model, whole, amp);
                let micro_batch = bound(&model, whole / i64::from(accumulate), amp);
                let ratio = |gpu: &str| {
                    let cost_model = cost_model(gpu);
                    let of = |bound, accumulate| {
                        cost_model.step_time(bound, &Loop { accumulate, ..Loop::default() }).unwrap().gpu
                    };
                    of(&micro_batch, accumulate) / of(&whole_batch, 1)
                };
                // Interpolation between scattered measurements is not quite monotonic.
                let least = ratio("H200").min(1.0) - 0.02;
                for gpu in ["RTX 3060", "RTX 3090", "RTX 4060", "RTX 4090", "T4", "V100 SXM2 16GB", "A100 SXM4 80GB"] {
                    let found = ratio(gpu);
                    assert!(found >= least, "{gpu}, {amp:?}, {whole} in {accumulate}: {found} below {least}");
                }
            }
        }
    }
}

#[test]
fn every_further_micro_batch_takes_the_same_time() {
    let model = model("bert-base");
    let bound = bound(&model, 8, None);
    let of = |accumulate| time(&bound, &Loop { accumulate, ..Loop::default() }).seconds;
    let each = of(5) - of(4);
    assert!(((of(20) - of(5)) / 15.0 - each).abs() < 0.01 * each);
}

#[test]
fn autocast_is_faster_if_the_gpu_is_the_bottleneck() {
    let model = model("bert-base");
    let (single, half) = (bound(&model, 64, None), bound(&model, 64, Some(Dtype::Bfloat16)));
    assert!(time(&half, &Loop::default()).gpu < 0.6 * time(&single, &Loop::default()).gpu);
}

#[test]
fn a_for_loop_optimizer_takes_more_cpu_time_and_a_fused_one_less() {
    let model = model("bert-base");
    let bound = bound(&model, 8, None);
    let of =
        |implementation| time(&bound, &Loop { optimizer: Recipe::new(Kind::AdamW, implementation), ..Loop::default() });
    let (foreach, fused, for_loop) =
        (of(Implementation::Foreach), of(Implementation::Fused), of(Implementation::ForLoop));
    assert!(fused.cpu < foreach.cpu && foreach.cpu < for_loop.cpu);
    assert!(fused.gpu < foreach.gpu);
}

#[test]
fn a_smaller_gpu_takes_longer() {
    let model = model("resnet50");
    let bound = bound(&model, 16, None);
    let on = |gpu: &str| cost_model(gpu).step_time(&bound, &Loop::default()).unwrap().seconds;
    assert!(on("RTX 3060") > 2.0 * on("A100 SXM4 80GB") && on("A100 SXM4 80GB") > on("H200"));
}

#[test]
fn checkpointing_an_unknown_module_is_an_error() {
    let model = model("bert-base");
    let options = Loop { checkpoint: Choice::modules(vec!["no.such.module".to_owned()]), ..Loop::default() };
    assert!(cost_model("H200").step_time(&bound(&model, 2, None), &options).is_err());
}

#[test]
fn evaluation_is_a_forward_pass_only() {
    let model = model("bert-base");
    let sizes = Sizes::select(&model, &SizeFlags::default()).unwrap();
    let flags = VariantFlags { is_eval: true, ..VariantFlags::default() };
    let bound = bind(&model, select_variant(&model, flags).unwrap(), &sizes).unwrap();
    let time = time(&bound, &Loop::default());
    assert!(time.backward == 0.0 && time.step == 0.0 && time.forward == time.seconds);
}
