//! A plain model that is changed runs as a captured module of peft and bitsandbytes does, request by request.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use vramfit_adapters::{FineTuning, Lora, Quantize, Refusal, TURNED, Targets, fine_tuned};
use vramfit_eager::machine::H200;
use vramfit_eager::memory::Entry;
use vramfit_graph::bind::bind;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::Loop;
use vramfit_training::answer::Scenarios;

fn capture(name: &str) -> Model {
    read_file(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/captures").join(format!("{name}.vramfit")))
        .unwrap()
}

fn lora(rank: u32, targets: Targets, dropout: u32) -> Option<Lora> {
    Some(Lora { rank, targets, dropout })
}

/// What a training requests, in order: allocations with their bytes, frees with none.
fn requests(model: &Model, flags: VariantFlags) -> Vec<(u32, Option<u64>)> {
    let sizes = SizeFlags { batch: Some(3), sequence: Some(500), sizes: Vec::new() };
    let sizes = Sizes::select(model, &sizes).unwrap();
    let bound = bind(model, select_variant(model, flags).unwrap(), &sizes).unwrap();
    let scenarios = Scenarios::record(&bound, &Loop::default(), H200).unwrap();
    let request = |entry: &Entry| match *entry {
        Entry::Allocate { id, bytes, .. } => (id, Some(bytes)),
        Entry::Free { id } => (id, None),
    };
    let mut all: Vec<(u32, Option<u64>)> = scenarios.expected().journal().iter().map(request).collect();
    // Python's order of frees between two allocations does not matter to the allocator.
    all.chunk_by_mut(|before, after| before.1.is_none() && after.1.is_none()).for_each(|frees| frees.sort_unstable());
    all
}

/// The first difference between a changed model and a captured one.
fn assert_same(plain: &str, how: &FineTuning, adapted: &str, flags: VariantFlags, built: VariantFlags) {
    let changed = fine_tuned(&capture(plain), how).unwrap();
    let (made, recorded) = (requests(&changed, flags), requests(&capture(adapted), built));
    let first = made.iter().zip(&recorded).position(|(made, recorded)| made != recorded);
    if let Some(at) = first {
        panic!("{adapted}: request {at}: {:?} instead of {:?}", made[at], recorded[at]);
    }
    assert_eq!(made.len(), recorded.len(), "{adapted}");
}

fn cast(dtype: Dtype) -> VariantFlags {
    VariantFlags { dtype: Some(dtype), ..VariantFlags::default() }
}

#[test]
fn adapters_request_what_peft_does() {
    let fp32 = cast(Dtype::Float32);
    let default = FineTuning { lora: lora(8, Targets::Default, 0), quantize: None };
    assert_same("llama-base", &default, "llama-peft", fp32, fp32);
    assert_same("gpt2-no-cache", &default, "gpt2-peft", fp32, fp32);
    let all = FineTuning { lora: lora(16, Targets::AllLinear, 50_000), quantize: None };
    assert_same("llama-base", &all, "llama-peft-all", fp32, fp32);
}

#[test]
fn adapters_under_autocast_request_what_peft_does() {
    let amp = VariantFlags { amp: Some(Dtype::Bfloat16), ..VariantFlags::default() };
    let all = FineTuning { lora: lora(16, Targets::AllLinear, 50_000), quantize: None };
    assert_same("llama-base", &all, "llama-peft-all", amp, amp);
}

#[test]
fn quantised_layers_request_what_bitsandbytes_does() {
    let quantize = Some(Quantize::Nf4 { compute: Dtype::Bfloat16 });
    let fp32 = cast(Dtype::Float32);
    let default = FineTuning { lora: lora(8, Targets::Default, 0), quantize };
    assert_same("llama-base", &default, "llama-nf4", fp32, fp32);
}

#[test]
fn what_cannot_be_fine_tuned_is_named() {
    let refusal = |model: &str, how: FineTuning| fine_tuned(&capture(model), &how).unwrap_err();
    let only = |lora: Option<Lora>| FineTuning { lora, quantize: None };
    assert_eq!(refusal("llama-base", only(lora(0, Targets::Default, 0))), Refusal::NoRank);
    let named = Targets::Named(vec!["q_proj".to_owned(), "qproj".to_owned()]);
    let error = refusal("llama-base", only(lora(8, named, 0))).to_string();
    assert!(error.contains("qproj") && error.contains("q_proj, k_proj"), "{error}");
    assert!(matches!(refusal("unet", only(lora(8, Targets::Default, 0))), Refusal::NoLinearLayers { .. }));
    assert!(matches!(refusal("mlp-relu", only(lora(8, Targets::Default, 0))), Refusal::NoDefaultTargets { .. }));
    assert!(matches!(refusal("llama-peft", only(lora(8, Targets::Default, 0))), Refusal::Already { .. }));
    let quantize = Some(Quantize::Int8);
    assert!(matches!(refusal("llama-nf4", FineTuning { lora: None, quantize }), Refusal::Already { .. }));
    assert!(matches!(refusal("unet", FineTuning { lora: None, quantize }), Refusal::NoLinearLayers { .. }));
}

/// The modules with adapters.
fn adapted(model: &Model) -> Vec<String> {
    let names = model.parameters.iter().filter_map(|weight| weight.names.first()?.split_once(".lora_A."));
    names.map(|(path, _)| path.to_owned()).collect()
}

#[test]
fn all_linear_leaves_out_output_embeddings_alone() {
    let how = FineTuning { lora: lora(8, Targets::AllLinear, 0), quantize: None };
    let adapted_in = |name: &str| adapted(&fine_tuned(&capture(name), &how).unwrap());
    assert_eq!(adapted_in("resnet18"), ["fc"]);
    assert!(adapted_in("bert-small").contains(&"classifier".to_owned()));
    let llama = adapted_in("llama-no-cache");
    assert!(!llama.is_empty() && !llama.contains(&"lm_head".to_owned()));
    let mut bare = capture("gpt2-no-cache");
    bare.modules.iter_mut().filter(|module| module.class == TURNED).for_each(|module| module.class.clear());
    let refused = fine_tuned(&bare, &how).unwrap_err();
    assert!(matches!(refused, Refusal::OnlyOutput { ref output, .. } if output == "lm_head"), "{refused}");
}

#[test]
fn layers_of_gpt2_are_quantised_as_linear_ones() {
    let plain = capture("gpt2-no-cache");
    let turned = plain.modules.iter().filter(|module| module.class == TURNED).count();
    for quantize in [Quantize::Nf4 { compute: Dtype::Bfloat16 }, Quantize::Int8] {
        let how = FineTuning { lora: lora(8, Targets::Default, 0), quantize: Some(quantize) };
        let changed = fine_tuned(&plain, &how).unwrap();
        let quantized: Vec<_> = changed.parameters.iter().filter_map(|weight| weight.quantization.as_deref()).collect();
        assert_eq!(quantized.len(), turned);
        assert!(
            quantized.iter().any(|weight| weight.shape[0] == 3 * weight.shape[1]),
            "c_attn returns three times its input"
        );
        assert!(
            requests(&changed, VariantFlags::default()).len() > requests(&plain, VariantFlags::default()).len() / 2
        );
    }
}
