//! `--lora` and `--quantize` from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{good_json, json, refusal};
use serde_json::{Value, json};

fn estimate(more: &[&str]) -> Value {
    let arguments = [&["estimate", "gpt2", "--batch", "1", "--seq", "64", "--gpu", "H200"], more].concat();
    json(&arguments).1
}

fn bytes(report: &Value, part: &str) -> u64 {
    report["breakdown"][part].as_u64().unwrap()
}

#[test]
fn adapters_train_less_and_are_named_in_the_settings() {
    let (plain, adapted) = (estimate(&[]), estimate(&["--lora"]));
    assert_eq!(adapted["settings"]["lora"], "8");
    assert_eq!(plain["settings"]["lora"], "none");
    assert!(adapted["exact"].as_bool().unwrap());
    assert!(bytes(&adapted, "optimizer") * 100 < bytes(&plain, "optimizer"));
    let wider = estimate(&["--lora", "16", "--lora-targets", "c_attn,c_proj"]);
    assert_eq!(
        (&wider["settings"]["lora"], &wider["settings"]["lora_targets"]),
        (&json!("16"), &json!("c_attn,c_proj"))
    );
    assert!(wider["peak_allocated"].as_u64() > adapted["peak_allocated"].as_u64());
}

#[test]
fn quantised_weights_take_a_quarter_of_half_precision_ones() {
    let llama = |more: &[&str]| {
        let start =
            ["estimate", "llama-7b", "--batch", "1", "--seq", "16", "--dtype", "bf16", "--lora", "--gpu", "H200"];
        let (_, report) = json(&[&start[..], more].concat());
        bytes(&report, "parameters") as f64
    };
    let share = llama(&["--quantize", "nf4"]) / llama(&[]);
    assert!((0.27..0.31).contains(&share), "{share}");
    let share = llama(&["--quantize", "int8"]) / llama(&[]);
    assert!((0.51..0.54).contains(&share), "{share}");
}

#[test]
fn bad_input_is_named() {
    for (more, words) in [
        (&["--lora", "0"][..], "rank 0"),
        (&["--lora", "many"], "needed a rank such as 16"),
        (&["--lora", "--lora-targets", "nothing"], "no linear layer of the model has this name"),
        (&["--lora-targets", "c_attn"], "has no effect without --lora"),
        (&["--lora-dropout", "0.1"], "has no effect without --lora"),
        (&["--lora", "--lora-dropout", "1.5"], "below 1"),
        (&["--quantize", "nf3"], "nf4"),
        (&["--quantize", "nf4", "--amp", "bf16"], "--quantize with --amp"),
        (&["--quantize-compute", "fp16"], "has no effect without --quantize nf4"),
    ] {
        let text = refusal(&[&["estimate", "gpt2"], more].concat());
        assert!(text.contains(words), "{more:?}: {text}");
    }
    for (more, words) in [
        (&["--freeze", "*"][..], "freeze fewer weights"),
        (&["--quantize", "nf4"], "--lora adds adapters"),
        (&["--quantize", "int8", "--lora", "--gpu", "V100 PCIe 16GB"], "found compute capability 7.0"),
    ] {
        let text = refusal(&[&["estimate", "bert-base"], more].concat());
        assert!(text.contains(words), "{more:?}: {text}");
    }
    for command in ["plan", "max-batch"] {
        let text = refusal(&[command, "bert-base", "--quantize", "nf4", "--vram", "8GiB"]);
        assert!(text.contains("found no weight to train"), "{text}");
    }
    let text = refusal(&["estimate", "unet", "--quantize", "nf4"]);
    assert!(text.contains("no linear layers"), "{text}");
    let text = refusal(&["estimate", "resnet50", "--lora"]);
    assert!(text.contains("no default targets"), "{text}");
}

#[test]
fn ranks_beyond_a_layers_sides_and_emulated_bfloat16_are_told() {
    let notes = |arguments: &[&str]| good_json(arguments)["notes"].to_string();
    let start = ["estimate", "gpt2", "--batch", "1", "--seq", "16", "--lora"];
    assert!(!notes(&[&start[..], &["64"]].concat()).contains("--lora 64"));
    assert!(notes(&[&start[..], &["1024"]].concat()).contains("--lora 1024: an adapter of rank 768"));
    let turing = notes(&[&start[..], &["8", "--quantize", "nf4", "--gpu", "T4"]].concat());
    assert!(turing.contains("compute capability 7.5 has no bfloat16"), "{turing}");
    let half = [&start[..], &["8", "--quantize", "nf4", "--quantize-compute", "fp16", "--gpu", "T4"]].concat();
    assert!(!notes(&half).contains("bfloat16"));
}

#[test]
fn an_evaluation_and_a_pass_without_a_loss_need_no_trained_weight() {
    for more in [&["--quantize", "nf4", "--mode", "eval"][..], &["--freeze", "*", "--mode", "eval"]] {
        good_json(&[&["estimate", "bert-base", "--batch", "1", "--seq", "16"], more].concat());
    }
}
