//! Tricks on the model, its precision and its sizes: where each applies, why it does not elsewhere, what it saves.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, capped, effect, gpu, model, saving, setup, trick};
use vramfit_adapters::{FineTuning, Lora, Quantize, Targets, fine_tuned};
use vramfit_eager::forward::Choice;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Step};
use vramfit_graph::select::Sizes;
use vramfit_plan::selective::CheckpointSubsets;
use vramfit_plan::tricks::{TRICKS, in_place};
use vramfit_plan::{Control, OtherForms, Setup, TrainingEffect, Workbench, written};
use vramfit_readers::read_bytes;

#[test]
fn activations_are_in_place_only_where_nothing_else_needs_their_input() {
    let perceptron = model("mlp-relu");
    assert_eq!(in_place::candidates(&perceptron).len(), 2);
    // A slope below 0 loses the input's sign, so PyTorch cannot compute the gradient in place.
    let mut leaky = model("mlp-activations");
    let before = in_place::candidates(&leaky).len();
    let operator = leaky.operators.iter().position(|known| known.name == "aten.leaky_relu.default").unwrap();
    for step in leaky.steps.iter_mut().flatten() {
        if let Step::Call(call) = step
            && call.operator as usize == operator
        {
            call.arguments[1] = Argument::Float(-0.2);
        }
    }
    assert_eq!(in_place::candidates(&leaky).len(), before - 1);
    // The gradient needs the input (GELU, Softplus), or the module has no `inplace` (Tanh).
    assert!(in_place::candidates(&model("mlp-odd")).is_empty());
    // torchvision builds it in place.
    let (resnet, gpu) = (model("resnet18"), gpu("H200"));
    assert!(in_place::rewrite(&resnet).is_none());
    let bench = Workbench::new(&resnet, None, capped(&gpu, GIB));
    let reason = trick("in-place activations").alternatives(&bench, &setup(&resnet, 8, None)).unwrap_err();
    assert!(reason.contains("none of"), "{reason}");
}

#[test]
fn in_place_activations_allocate_less_often_and_reserve_no_more() {
    let (model, gpu) = (model("mlp-relu"), gpu("H200"));
    let rewritten = in_place::rewrite(&model).unwrap();
    let bench = Workbench::new(&model, Some(&rewritten), capped(&gpu, GIB));
    let start = setup(&model, 8192, None);
    let changed = trick("in-place activations").alternatives(&bench, &start).unwrap().remove(0);
    let requests = |setup: &Setup| bench.scenarios(setup).unwrap().expected().allocation_count();
    assert_eq!(requests(&start) - requests(&changed), 3 * 2);
    assert!(saving(&bench, &start, &changed) >= 0);
    assert_eq!(effect(&bench, &start, &changed), TrainingEffect::None);
}

#[test]
fn a_block_that_fills_a_cache_is_only_checkpointed_together_with_all_others() {
    let (with_cache, without, gpu) = (model("gpt2-small"), model("gpt2-no-cache"), gpu("H200"));
    let bench = Workbench::new(&with_cache, None, capped(&gpu, GIB));
    let start = setup(&with_cache, 4, Some(64));
    let found = trick("activation checkpointing").alternatives(&bench, &start).unwrap();
    assert_eq!(found.iter().map(|setup| setup.training.checkpoint.clone()).collect::<Vec<_>>(), [Choice::Blocks]);
    let subsets = CheckpointSubsets::of(&bench, &start, &Control::default()).select(24);
    let mut parts = subsets.iter().flat_map(|subset| &subset.names);
    assert!(parts.all(|name| name.split('.').count() != 3), "a whole block is in a subset");
    let bench = Workbench::new(&without, None, capped(&gpu, GIB));
    let found = trick("activation checkpointing").alternatives(&bench, &setup(&without, 4, Some(64))).unwrap();
    assert_eq!(found.iter().map(blocks_of).collect::<Vec<_>>(), [4, 2, 2]);
}

#[test]
fn blocks_with_batch_norm_are_checkpointed_with_a_warning() {
    let (model, gpu) = (model("resnet18"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 32, None);
    let found = trick("activation checkpointing").alternatives(&bench, &start).unwrap();
    assert_eq!(blocks_of(&found[0]), 8);
    assert!(saving(&bench, &start, &found[0]) > 0);
    assert!(trick("activation checkpointing").warning(&bench, &found[0]).unwrap().contains("twice per step"));
    assert!(trick("activation checkpointing").findings(&bench, &start, &Control::default()).is_empty());
}

#[test]
fn half_of_two_sequences_is_half_of_the_work() {
    let model = read_bytes(br#"{"model_type": "t5", "decoder_start_token_id": 0}"#).unwrap();
    let gpu = gpu("H200");
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let mut start = setup(&model, 64, None);
    start.sizes = Sizes::with(&model, &[("batch", 64), ("seq", 512), ("seq_labels", 128)]).unwrap();
    let found = trick("shorter sequences or smaller images").alternatives(&bench, &start).unwrap();
    let slowdown = bench.slowdown(&start, &found[1]).unwrap();
    assert!((0.5..1.3).contains(&slowdown), "{slowdown}");
}

#[test]
fn mixed_precision_needs_a_gpu_that_supports_the_type() {
    let (model, new, old) = (model("bert-small"), gpu("H200"), gpu("GTX 1080"));
    let types = |bench: &Workbench<'_>| -> Vec<Option<Dtype>> {
        let found = trick("mixed precision").alternatives(bench, &setup(&model, 4, Some(64))).unwrap();
        found.iter().map(|setup| setup.variant.amp).collect()
    };
    assert_eq!(types(&Workbench::new(&model, None, capped(&new, GIB))), [Some(Dtype::Bfloat16), Some(Dtype::Float16)]);
    assert_eq!(types(&Workbench::new(&model, None, capped(&old, GIB))), [Some(Dtype::Float16)]);
}

#[test]
fn a_smaller_dtype_halves_weights_and_warns_of_pure_fp16() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 16, Some(128));
    let found = trick("smaller dtype").alternatives(&bench, &start).unwrap();
    assert_eq!(effect(&bench, &start, &found[1]), TrainingEffect::Rounding);
    assert!(trick("smaller dtype").warning(&bench, &found[1]).unwrap().contains("65,504"));
    let weights = model.parameter_count().unwrap() as i64 * 4;
    assert!(saving(&bench, &start, &found[0]) > weights);
    // Autocast needs single-precision weights.
    let mut mixed = start;
    mixed.variant.amp = Some(Dtype::Bfloat16);
    assert!(trick("smaller dtype").alternatives(&bench, &mixed).is_err());
}

#[test]
fn sizes_shrink_only_if_the_model_has_any() {
    let (bert, resnet, gpu) = (model("bert-small"), model("resnet18"), gpu("H200"));
    let bench = Workbench::new(&bert, None, capped(&gpu, GIB));
    let found = trick("shorter sequences or smaller images").alternatives(&bench, &setup(&bert, 4, Some(128))).unwrap();
    let lengths: Vec<String> =
        found.iter().map(|setup| trick("shorter sequences or smaller images").describe(&bench, setup)).collect();
    assert_eq!(lengths, ["seq 96", "seq 64", "seq 32"]);
    let bench = Workbench::new(&resnet, None, capped(&gpu, GIB));
    let reason =
        trick("shorter sequences or smaller images").alternatives(&bench, &setup(&resnet, 4, None)).unwrap_err();
    assert!(reason.contains("no size to choose"), "{reason}");
    let halves = trick("smaller batch").alternatives(&bench, &setup(&resnet, 9, None)).unwrap();
    assert_eq!(halves.iter().map(|setup| bench.batch_of(setup).unwrap()).collect::<Vec<_>>(), [4, 2, 1]);
    assert!(trick("smaller batch").alternatives(&bench, &setup(&resnet, 1, None)).is_err());
}

#[test]
fn evaluation_may_take_a_larger_batch_than_training() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let (start, control) = (setup(&model, 16, Some(128)), Control::default());
    let found = trick("evaluation").findings(&bench, &start, &control);
    let batch: i64 = found[0].what.split(' ').nth(3).unwrap().parse().unwrap();
    assert!(batch >= 32 && batch % 16 == 0, "{}", found[0].what);
    // Evaluation reuses the workspaces that libraries hold between training steps.
    let recurrent = self::model("lstm");
    let bench = Workbench::new(&recurrent, None, capped(&gpu, GIB));
    let found = trick("evaluation").findings(&bench, &setup(&recurrent, 20, None), &control);
    assert!(found[0].what.starts_with("up to batch"), "{}", found[0].what);
}

#[test]
fn removing_a_block_saves_its_weights_and_activations() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let (start, control) = (setup(&model, 16, Some(128)), Control::default());
    let found = trick("slimmer model").findings(&bench, &start, &control);
    assert!(found[0].what.starts_with("without 1 of 12 blocks (from bert.encoder.layer.11 on)"), "{found:?}");
    let (one, half) = (found[0].bytes.unwrap(), found[1].bytes.unwrap());
    // A layer of BERT has 7,087,872 weights, with gradients and two moments.
    assert!(one > 7_087_872 * 16 && one < 7_087_872 * 16 * 3, "{one}");
    assert!(half > 5 * one && half < 7 * one, "{half} of {one}");
    assert!(found.iter().any(|finding| finding.what.contains("half as wide")));
}

#[test]
fn removing_a_block_removes_its_quantised_weights() {
    let (plain, gpu) = (model("bert-base"), gpu("H200"));
    let quantize = Some(Quantize::Nf4 { compute: Dtype::Bfloat16 });
    let lora = Some(Lora { rank: 8, targets: Targets::Default, dropout: 0 });
    let model = fine_tuned(&plain, &FineTuning { lora, quantize }).unwrap();
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let found = trick("slimmer model").findings(&bench, &setup(&model, 4, Some(128)), &Control::default());
    assert!(found[0].what.starts_with("without 1 of 12 blocks"), "{found:?}");
    assert!(found[0].bytes.unwrap() > 0, "{found:?}");
}

#[test]
fn adapters_are_not_proposed_where_only_the_output_would_have_one() {
    let gpu = gpu("H200");
    for (name, batch, sequence) in [("resnet50", 8, None), ("llama-no-cache", 4, Some(128))] {
        let model = model(name);
        let forms = OtherForms::of(&model, &model, None, true);
        let bench = Workbench::new(&model, None, capped(&gpu, GIB)).with_forms(&forms);
        let found = trick("adapters").alternatives(&bench, &setup(&model, batch, sequence));
        match name {
            "resnet50" => assert!(found.unwrap_err().contains("`fc`, which makes the output")),
            _ => assert_eq!(found.unwrap().len(), 2),
        }
    }
}

#[test]
fn models_that_fill_a_cache_checkpoint_every_block_as_transformers_does() {
    let (gpu, control) = (gpu("H200"), Control::default());
    let models = ["gpt2-small", "gpt2-no-cache"].map(model);
    let [cached, plain] = models.each_ref().map(|model| {
        let bench = Workbench::new(model, None, capped(&gpu, GIB));
        let mut setup = setup(model, 4, Some(256));
        setup.training.checkpoint = Choice::Blocks;
        bench.peaks(&setup, &control).unwrap()
    });
    // Without what the cache would keep; the copies into it are still made.
    assert!(cached.allocated.abs_diff(plain.allocated) < plain.allocated / 100, "{cached:?} {plain:?}");
    let bench = Workbench::new(&models[0], None, capped(&gpu, GIB));
    let start = setup(&models[0], 4, Some(256));
    let found = trick("activation checkpointing").alternatives(&bench, &start).unwrap();
    let [blocks] = found.as_slice() else { panic!("{}", found.len()) };
    assert_eq!(blocks.training.checkpoint, Choice::Blocks);
    let printed = written(&bench, TRICKS, blocks).unwrap();
    assert!(printed.code.contains("model.gradient_checkpointing_enable("), "{}", printed.code);
    assert!(printed.parts.is_every_block);
}

#[test]
fn autocast_is_priced_plausibly_on_gpus_that_were_not_timed() {
    for (name, batch, sequence) in [("resnet18", 64, None), ("gpt2-small", 8, Some(512))] {
        let model = model(name);
        let slowdown = |name: &str, amp: Dtype| {
            let gpu = gpu(name);
            let bench = Workbench::new(&model, None, capped(&gpu, GIB));
            let start = setup(&model, batch, sequence);
            let mut setup = start.clone();
            setup.variant.amp = Some(amp);
            bench.slowdown(&start, &setup).unwrap()
        };
        // Without tensor cores products are computed in single precision, from half the bytes.
        let pascal = slowdown("GTX 1080 Ti", Dtype::Float16);
        assert!((0.5..1.1).contains(&pascal), "{name}: {pascal}");
        for ampere in ["RTX 3090", "A100 SXM4 80GB"] {
            let slowdown = slowdown(ampere, Dtype::Bfloat16);
            assert!((0.2..1.0).contains(&slowdown), "{name} on {ampere}: {slowdown}");
        }
    }
}

#[test]
fn selective_checkpoints_keep_more_than_plain_ones_and_compute_less_again() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 16 * GIB));
    let start = setup(&model, 32, Some(256));
    let plain = trick("activation checkpointing").alternatives(&bench, &start).unwrap().remove(0);
    let selective = trick("selective checkpointing").alternatives(&bench, &start).unwrap();
    assert_eq!(selective.len(), 2);
    for setup in selective {
        assert_eq!(setup.training.checkpoint, plain.training.checkpoint);
        let saved = saving(&bench, &start, &setup);
        assert!(0 < saved && saved < saving(&bench, &start, &plain), "{saved}");
        let seconds = |setup: &Setup| bench.seconds(&bench.with_batch(setup, 1024).unwrap()).unwrap();
        assert!(seconds(&setup) < seconds(&plain));
        let code = written(&bench, TRICKS, &setup).unwrap().code;
        assert!(code.contains("create_selective_checkpoint_contexts"), "{code}");
        assert_eq!(effect(&bench, &start, &setup), TrainingEffect::None);
    }
}

#[test]
fn results_that_are_overwritten_in_place_are_not_kept() {
    let (model, gpu) = (model("mlp-inplace"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let mut start = setup(&model, 64, None);
    start.training.checkpoint = Choice::Sequential(2);
    assert!(trick("selective checkpointing").alternatives(&bench, &start).is_err());
}

#[test]
fn a_loss_in_chunks_saves_logits_and_is_only_for_causal_language_models() {
    let gpu = gpu("H200");
    let language = model("gpt2-small");
    let bench = Workbench::new(&language, None, capped(&gpu, 16 * GIB));
    let start = setup(&language, 8, Some(512));
    let found = trick("loss without whole logits").alternatives(&bench, &start).unwrap();
    assert_eq!(found.len(), 2);
    for setup in &found {
        // The logits of 8 × 512 tokens in single precision are 785 MiB.
        assert!(saving(&bench, &start, setup) > 785 * (1 << 20));
        assert!(written(&bench, TRICKS, setup).unwrap().code.contains("model.loss_function = "));
    }
    assert!(bench.seconds(&found[0]).unwrap() > bench.seconds(&start).unwrap());
    let other = model("bert-small");
    let bench = Workbench::new(&other, None, capped(&gpu, 16 * GIB));
    let reason = trick("loss without whole logits").alternatives(&bench, &setup(&other, 4, Some(64))).unwrap_err();
    assert!(reason.contains("ForCausalLMLoss"), "{reason}");
}

fn blocks_of(setup: &Setup) -> usize {
    match &setup.training.checkpoint {
        Choice::Modules(names) => names.len(),
        _ => 0,
    }
}
