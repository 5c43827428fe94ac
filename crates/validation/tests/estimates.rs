//! Simulated training steps against measured ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_validation::difference::{agreement, agreement_up_to_workspaces};
use vramfit_validation::measured::{measured, trace};
use vramfit_validation::simulation::simulate;

/// Cases whose requests are known to differ: under its own checkpointing T5 makes a mask of zeros require a gradient, which
/// a capture without it does not show; BLOOM's GELU is a function with a backward of its own, which a capture does not have;
/// DeBERTa moves a number to the GPU within a scripted function, where a capture does not see what is moved.
const DIFFERENT: [&str; 3] = ["t5-checkpoint", "bloom-amp-fp16", "deberta-v2-amp"];

/// Cases of images and recurrent layers that make the recorded requests, workspaces that are guessed left out.
const ALIKE: [&str; 31] = [
    "adversary",
    "beit",
    "convnextv2-fused",
    "deeplab-mobile",
    "deit-amp",
    "denoiser-amp",
    "gru-ema",
    "inception-v3",
    "lstm-hook",
    "maxvit-t",
    "mc3-18-adam",
    "mixer-adafactor",
    "mobilevit-amp-fp16",
    "r2plus1d-18-amp",
    "regnet-x-amp",
    "resnet18-adamw8bit",
    "resnet18-ema",
    "resnet18-freeze",
    "resnet18-hook",
    "resnet18-muon",
    "resnet18-offload",
    "resnet34-accumulate-amp",
    "resnet50-save",
    "segformer",
    "swin-t",
    "swin-t-amp",
    "tagger-nesterov",
    "temporal-clip",
    "translator",
    "vae",
    "wide-resnet50",
];

#[test]
fn every_simulated_step_makes_the_recorded_requests_in_the_recorded_order() {
    let measured = measured().unwrap();
    let mut compared = 0;
    for (name, case) in measured.cases.iter().filter(|(_, case)| case.part == 1) {
        let Ok(recorded) = trace(name) else { continue };
        let (same, all) = simulate(case, |_, run| agreement(&recorded, run)).unwrap();
        if !DIFFERENT.contains(&name.as_str()) {
            assert_eq!(same, all, "{name}: `vramfit-validate trace {name}` shows the first difference");
            compared += 1;
        }
    }
    assert!(compared >= 135, "only {compared} cases were compared");
}

/// The first forward casts biases for good. A function holds what a checkpointed region leaves. PyTorch adds gradients in place that
/// functions of Python return; the simulation adds some of them into new memory.
const DIFFERENT_ADAPTED: &[&str] = &[
    "bert-nf4-amp",
    "llama-int8-mixed-checkpoint",
    "llama-int8-outliers-checkpoint-bf16",
    "llama-nf4-bf16",
    "llama-nf4-checkpoint-bf16",
    "llama-nf4-few",
    "llama-nf4-prepared-checkpoint",
];

#[test]
fn steps_with_adapters_and_quantised_weights_make_the_recorded_requests() {
    let measured = measured().unwrap();
    let adapted =
        measured.cases.iter().filter(|(name, case)| case.part == 3 && !DIFFERENT_ADAPTED.contains(&name.as_str()));
    let mut compared = 0;
    for (name, case) in adapted {
        let recorded = trace(name).unwrap();
        let (same, all) = simulate(case, |_, run| agreement(&recorded, run)).unwrap();
        assert_eq!(same, all, "{name}: `vramfit-validate trace {name}` shows the first difference");
        compared += 1;
    }
    assert!(compared >= 27, "only {compared} cases were compared");
}

#[test]
fn no_peak_is_off_by_more_than_one_percent() {
    let measured = measured().unwrap();
    // Gradients overflow there, and DeepSpeed skips the updates.
    let is_skipped = |name: &str| matches!(name, "drawn-ds-13" | "drawn-ds-25");
    for (name, case) in measured.cases.iter().filter(|(name, case)| case.part != 2 && !is_skipped(name)) {
        let peak = simulate(case, |_, run| run.peak().map_or(0, |phase| phase.peak.allocated)).unwrap();
        let error = peak as f64 / case.peak_allocated as f64 - 1.0;
        assert!(error.abs() < 0.01, "{name}: {error:+.4}");
    }
}

#[test]
fn steps_of_models_nothing_was_written_from_make_the_recorded_requests() {
    let measured = measured().unwrap();
    for name in ALIKE {
        let recorded = trace(name).unwrap();
        let (same, all) = simulate(&measured.cases[name], |_, run| agreement_up_to_workspaces(&recorded, run)).unwrap();
        assert_eq!(same, all, "{name}: `vramfit-validate trace {name}` shows the first difference");
    }
}

/// What comes next there is an activation in place on a view, whose gradient autograd copies.
#[test]
fn the_gradient_of_a_norm_under_autocast_is_in_single_precision() {
    let recorded = trace("swin-v2-t-amp").unwrap();
    let (same, _) = simulate(&measured().unwrap().cases["swin-v2-t-amp"], |_, run| agreement(&recorded, run)).unwrap();
    assert!(same > 1_700, "{same} events agree");
}
