//! Tricks on the training loop: where each applies, why it does not elsewhere, what it saves.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, allocated_saving, capped, effect, gpu, model, saving, setup, trick};
use vramfit_eager::autograd::HostMemory;
use vramfit_graph::dtype::Dtype;
use vramfit_plan::tricks::TRICKS;
use vramfit_plan::{AllocConf, Control, Setup, TrainingEffect, Workbench, written};
use vramfit_training::ZeroGrad;
use vramfit_training::optimizer::Kind;

#[test]
fn early_zero_grad_applies_if_gradients_exist_during_the_forward_pass() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 64, Some(128));
    assert!(trick("zero_grad").alternatives(&bench, &start).unwrap_err().contains("already"));
    let mut late = start.clone();
    late.training.zero_grad = ZeroGrad::BeforeBackward;
    late.training.sets_to_none = false;
    let found = trick("zero_grad").alternatives(&bench, &late).unwrap();
    assert_eq!(found, std::slice::from_ref(&start));
    let allocated = |setup: &Setup| bench.peaks(setup, &Control::default()).unwrap().allocated;
    let gradients = model.parameter_count().unwrap() * 4;
    assert!(allocated(&late) - allocated(&start) > gradients / 2);
}

#[test]
fn releasing_outputs_saves_the_logits_of_a_language_model() {
    let (model, gpu) = (model("gpt2-no-cache"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 8, Some(256));
    let found = trick("releasing outputs").alternatives(&bench, &start).unwrap();
    // At least half a copy of the logits: 8 × 256 × 50257 elements.
    assert!(saving(&bench, &start, &found[0]) >= 8 * 256 * 50257 * 4 / 2, "{}", saving(&bench, &start, &found[0]));
}

#[test]
fn a_kept_graph_costs_the_memory_that_a_forward_pass_adds() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let (start, control) = (setup(&model, 16, Some(128)), Control::default());
    let found = trick("loss.item()").findings(&bench, &start, &control);
    assert_eq!(found.len(), 4);
    assert_eq!(found[0].bytes, Some(512_000));
    let graph = found[2].bytes.unwrap() as u64;
    assert_eq!(found[3].bytes.unwrap() as u64, graph * 1000);
    let peak = bench.peaks(&start, &control).unwrap().allocated;
    assert!(graph > peak / 4 && graph < peak, "{graph} of {peak}");
    // A forward pass that saves less than the gradients it frees.
    let small = trick("loss.item()").findings(&bench, &setup(&model, 1, Some(8)), &control);
    assert!((1..graph as i64).contains(&small[2].bytes.unwrap()), "{small:?}");
}

#[test]
fn a_fused_optimizer_saves_the_lists_of_foreach() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 1, Some(16));
    let found = trick("optimizer implementation").alternatives(&bench, &start).unwrap();
    assert_eq!(found.len(), 2);
    // foreach peaks by the size of the weights above the end of the step.
    let weights = model.parameter_count().unwrap() as i64 * 4;
    let saved = saving(&bench, &start, &found[0]);
    assert!(saved > weights * 8 / 10 && saved < weights * 12 / 10, "{saved} of {weights}");
    let mut none = start;
    none.training.optimizer.kind = Kind::None;
    assert!(trick("optimizer implementation").alternatives(&bench, &none).is_err());
}

#[test]
fn allocator_settings_are_appended_to_the_given_ones() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let mut start = setup(&model, 16, Some(128));
    start.alloc_conf = AllocConf::parse("max_split_size_mb:64").unwrap();
    let found = trick("allocator settings").alternatives(&bench, &start).unwrap();
    assert_eq!(found[0].alloc_conf.text(), "max_split_size_mb:64,expandable_segments:True");
    assert!(found.iter().all(|setup| setup.alloc_conf.text().starts_with("max_split_size_mb:64,")));
    assert!(found.iter().all(|setup| bench.settings(setup).max_split_size == 64 << 20));
}

#[test]
fn accumulation_keeps_the_effective_batch_and_warns_of_batch_norm() {
    let (bert, resnet, gpu) = (model("bert-small"), model("resnet18"), gpu("H200"));
    let bench = Workbench::new(&bert, None, capped(&gpu, GIB));
    let start = setup(&bert, 12, Some(64));
    let found = trick("gradient accumulation").alternatives(&bench, &start).unwrap();
    let micro: Vec<i64> = found.iter().map(|setup| bench.batch_of(setup).unwrap()).collect();
    assert_eq!(micro, [6, 4, 3, 2, 1]);
    assert!(found.iter().all(|setup| bench.batch_of(setup).unwrap() * i64::from(setup.training.accumulate) == 12));
    assert!(found.iter().all(|setup| effect(&bench, &start, setup) == TrainingEffect::None));
    assert!(trick("gradient accumulation").warning(&bench, &found[0]).is_none());
    let bench = Workbench::new(&resnet, None, capped(&gpu, GIB));
    let found = trick("gradient accumulation").alternatives(&bench, &setup(&resnet, 8, None)).unwrap();
    assert!(trick("gradient accumulation").warning(&bench, &found[0]).unwrap().contains("batch norms"));
}

#[test]
fn leaner_optimizers_save_their_state() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 16, Some(128));
    let found = trick("optimizer").alternatives(&bench, &start).unwrap();
    let kinds: Vec<Kind> = found.iter().map(|setup| setup.training.optimizer.kind).collect();
    assert_eq!(kinds, [Kind::AdamW8bit, Kind::PagedAdamW8bit, Kind::Adafactor, Kind::Momentum, Kind::Sgd]);
    let savings: Vec<i64> = found.iter().map(|setup| saving(&bench, &start, setup)).collect();
    assert!(savings[3] > 0 && savings[4] > savings[3], "{savings:?}");
    assert!(trick("optimizer").alternatives(&bench, &found[4]).unwrap_err().contains("keeps no state"));
}

#[test]
fn micro_batches_after_the_fourth_add_nothing_to_the_peak() {
    let gpu = gpu("H200");
    for (name, batch, sequence) in [("bert-small", 2, Some(64)), ("gpt2-no-cache", 1, Some(128)), ("resnet18", 4, None)]
    {
        let model = model(name);
        let bench = Workbench::new(&model, None, capped(&gpu, 100 * GIB));
        let mut few = setup(&model, batch, sequence);
        few.training.accumulate = 4;
        let mut many = few.clone();
        many.training.accumulate = 16;
        let control = Control::default();
        let reserved = |setup: &Setup| bench.answer(setup, &control).unwrap().expected.peak_reserved;
        assert_eq!(reserved(&few), reserved(&many), "{name}");
    }
}

#[test]
fn saved_tensors_on_the_host_free_the_gpu() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 16 * GIB));
    let start = setup(&model, 32, Some(256));
    let mut setup = start.clone();
    setup.training.offload = Some(HostMemory::Pinned);
    assert!(saving(&bench, &start, &setup) > 0);
    assert!(written(&bench, TRICKS, &setup).unwrap().code.contains("save_on_cpu(pin_memory=True)"));
}

#[test]
fn adam_in_8_bits_comes_before_adafactor_and_only_where_bitsandbytes_runs() {
    let (model, gpu) = (model("gpt2-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 1, Some(16));
    let kinds = |start: &Setup| -> Vec<Kind> {
        trick("optimizer")
            .alternatives(&bench, start)
            .unwrap()
            .iter()
            .map(|setup| setup.training.optimizer.kind)
            .collect()
    };
    assert_eq!(kinds(&start)[..3], [Kind::AdamW8bit, Kind::PagedAdamW8bit, Kind::Adafactor]);
    let mut double = start.clone();
    double.variant.dtype = Some(Dtype::Float64);
    assert_eq!(kinds(&double)[0], Kind::Adafactor);
    let found = trick("optimizer").alternatives(&bench, &start).unwrap();
    let numbers = model.parameter_count().unwrap() as i64;
    let saved = [allocated_saving(&bench, &start, &found[0]), allocated_saving(&bench, &found[0], &found[1])];
    // Of Adam's eight bytes for each number a little more than two are left, and of those most are in managed memory.
    assert!(saved[0] > 5 * numbers && (numbers..=2 * numbers).contains(&saved[1]), "{saved:?} for {numbers} numbers");
    assert!(written(&bench, TRICKS, &found[0]).unwrap().code.contains("optimizer = bitsandbytes.optim.AdamW8bit("));
}

#[test]
fn updates_in_the_backward_pass_save_gradients_and_exclude_what_needs_them_all() {
    let (model, gpu) = (model("gpt2-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 1, Some(16));
    let step = trick("step in backward");
    let found = step.alternatives(&bench, &start).unwrap();
    assert_eq!(effect(&bench, &start, &found[0]), TrainingEffect::None);
    let numbers = model.parameter_count().unwrap() as i64;
    assert!(allocated_saving(&bench, &start, &found[0]) > numbers);
    let code = written(&bench, TRICKS, &found[0]).unwrap().code;
    assert!(
        code.contains("weight.register_post_accumulate_grad_hook(update)") && !code.contains("optimizer.step()"),
        "{code}"
    );
    let mut accumulating = start.clone();
    accumulating.training.accumulate = 2;
    let mut clipping = start.clone();
    clipping.training.clips_gradients = true;
    let mut scaled = start.clone();
    scaled.variant.amp = Some(Dtype::Float16);
    for (setup, reason) in [(accumulating, "micro-batches"), (clipping, "clipping"), (scaled, "GradScaler")] {
        assert!(step.alternatives(&bench, &setup).unwrap_err().contains(reason));
        let mut adopted = setup.clone();
        step.adopt(&bench, &mut adopted, &found[0]);
        assert_eq!(adopted, setup);
    }
}

#[test]
fn an_optimizer_on_the_cpu_saves_its_state_and_takes_longer() {
    let (model, gpu) = (model("gpt2-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let start = setup(&model, 1, Some(16));
    let found = trick("optimizer on the CPU").alternatives(&bench, &start).unwrap();
    let numbers = model.parameter_count().unwrap() as i64;
    assert!(allocated_saving(&bench, &start, &found[0]) > 7 * numbers);
    assert!(bench.slowdown(&start, &found[0]).unwrap() > 1.0);
    let code = written(&bench, TRICKS, &found[0]).unwrap().code;
    assert!(code.contains("update_on_cpu()") && code.contains("torch.optim.AdamW(list(copies.values()))"), "{code}");
    let mut other = start.clone();
    other.training.optimizer.kind = Kind::Lion;
    assert!(trick("optimizer on the CPU").alternatives(&bench, &other).unwrap_err().contains("torch.optim"));
}
