//! Counted FLOPs against torch.utils.flop_counter.FlopCounterMode.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde_json::Value;
use vramfit_eager::flops::{Flops, total};
use vramfit_eager::machine::H200;
use vramfit_graph::bind::{BoundStep, bind};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::{Loop, visit};
use vramfit_validation::measured::folder;

/// The FLOPs of a model at the counter's sizes. On the CPU, where the counter ran, attention is not fused.
fn counted(model: &str, expected: &Value, is_attention_fused: bool) -> Flops {
    let model = read_file(folder().join(format!("captures/{model}.vramfit"))).unwrap();
    let flags = SizeFlags { batch: expected["batch"].as_i64(), sequence: expected["seq"].as_i64(), sizes: Vec::new() };
    let sizes = Sizes::select(&model, &flags).unwrap();
    let variant = select_variant(&model, VariantFlags::default()).unwrap();
    let bound = bind(&model, variant, &sizes).unwrap();
    let mut visits = visit(&bound, &Loop::default(), H200).unwrap();
    for (place, step) in bound.steps.iter().enumerate() {
        if matches!(step, BoundStep::Call(_)) && !is_attention_fused {
            visits.note_unfused_attention(place as u32);
        }
    }
    total(&bound, &visits)
}

fn compare(file: &str, is_attention_fused: bool) {
    let text = std::fs::read_to_string(folder().join("flops").join(file)).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let models = expected["models"].as_object().unwrap();
    assert!(models.len() >= 10);
    let mut wrong = Vec::new();
    for (name, expected) in models {
        let found = counted(name, expected, is_attention_fused);
        let wanted =
            Flops { forward: expected["forward"].as_u64().unwrap(), backward: expected["backward"].as_u64().unwrap() };
        if found != wanted {
            wrong.push(format!("{name}: found {found:?}, needed {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn flops_are_those_of_pytorchs_counter_forward_and_backward() {
    compare("expected.json", false);
}

#[test]
fn flops_are_those_of_pytorchs_counter_on_a_gpu_where_attention_is_fused() {
    compare("expected-cuda.json", true);
}
