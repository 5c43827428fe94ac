//! `--deepspeed-config` from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::PathBuf;

use common::{capture, json, refusal};
use serde_json::{Value, json};

/// A file with this configuration.
fn file(folder: &tempfile::TempDir, configuration: &Value) -> String {
    let path: PathBuf = folder.path().join("ds_config.json");
    std::fs::write(&path, configuration.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

fn gpt2(more: &[&str]) -> Value {
    let model = capture("gpt2-small");
    json(&[&["estimate", model.as_str(), "--seq", "256", "--world", "4"], more].concat()).1
}

fn with(configuration: &Value, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    gpt2(&[&["--deepspeed-config", &file(&folder, configuration)], more].concat())
}

fn refused(configuration: &Value, more: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let model = capture("gpt2-small");
    let path = file(&folder, configuration);
    let start = ["estimate", model.as_str(), "--seq", "256", "--world", "4", "--deepspeed-config", &path];
    refusal(&[&start[..], more].concat())
}

/// Settings and peak are those of flags.
fn is_same(found: &Value, flags: &[&str]) {
    let expected = gpt2(flags);
    assert_eq!(found["settings"], expected["settings"], "{flags:?}");
    assert_eq!(found["peak_allocated"], expected["peak_allocated"], "{flags:?}");
    assert_eq!(found["peak_reserved"], expected["peak_reserved"], "{flags:?}");
}

#[test]
fn a_file_says_what_flags_say() {
    let two = json!({
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": true},
        "zero_optimization": {
            "stage": 2, "reduce_bucket_size": 5e6, "overlap_comm": true, "contiguous_gradients": true,
            "allgather_bucket_size": 2e8, "offload_optimizer": {"device": "cpu", "pin_memory": true},
        },
        "steps_per_print": 10,
    });
    let found = with(&two, &[]);
    is_same(
        &found,
        &[
            "--batch",
            "4",
            "--accumulate",
            "2",
            "--dtype",
            "bf16",
            "--parallel",
            "deepspeed:2",
            "--reduce-bucket-size",
            "5e6",
            "--overlap-comm",
            "true",
            "--optimizer-state",
            "cpu",
            "--gradient-clipping",
            "true",
        ],
    );
    let notes = found["notes"].to_string();
    assert!(notes.contains("steps_per_print") && notes.contains("allgather_bucket_size"), "{notes}");
    assert!(!notes.contains("contiguous_gradients"), "{notes}");
    let three = json!({
        "train_batch_size": 32,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 0,
        "fp16": {"enabled": true, "initial_scale_power": 12},
        "zero_optimization": {
            "stage": 3, "reduce_bucket_size": 1e7, "stage3_prefetch_bucket_size": 1e6, "stage3_max_live_parameters": 2e7,
            "stage3_max_reuse_distance": 3e7, "stage3_param_persistence_threshold": 1e4,
        },
    });
    is_same(
        &with(&three, &[]),
        &[
            "--batch",
            "4",
            "--accumulate",
            "2",
            "--dtype",
            "fp16",
            "--parallel",
            "deepspeed:3",
            "--reduce-bucket-size",
            "1e7",
            "--gradient-clipping",
            "false",
            "--stage3-prefetch-bucket-size",
            "1e6",
            "--stage3-max-live-parameters",
            "2e7",
            "--stage3-max-reuse-distance",
            "3e7",
            "--stage3-param-persistence-threshold",
            "1e4",
        ],
    );
}

#[test]
fn gathering_less_ahead_and_keeping_less_takes_less() {
    let peak = |more: &[&str]| {
        let start = ["--batch", "1", "--dtype", "bf16", "--parallel", "deepspeed:3", "--reduce-bucket-size", "1e6"];
        gpt2(&[&start[..], more].concat())["peak_allocated"].as_u64().unwrap()
    };
    let least = ["--stage3-max-reuse-distance", "0", "--stage3-prefetch-bucket-size", "0"];
    assert!(peak(&least) < peak(&[]), "GPT-2 small is whole on every GPU by default");
    let persistent = ["--stage3-max-reuse-distance", "0", "--stage3-param-persistence-threshold", "1e9"];
    assert!(peak(&persistent) > peak(&least), "all weights stay gathered");
}

#[test]
fn auto_is_what_flags_say() {
    let automatic = json!({
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "zero_optimization": {
            "stage": 3, "overlap_comm": true, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto", "sub_group_size": 1e9,
            "stage3_gather_16bit_weights_on_model_save": true,
        },
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
        "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto"}},
    });
    let flags = ["--batch", "2", "--accumulate", "3", "--dtype", "bf16", "--reduce-bucket-size", "1e7"];
    let found = with(&automatic, &flags);
    is_same(&found, &[&flags[..], &["--parallel", "deepspeed:3", "--optimizer-impl", "fused"]].concat());
    let notes = found["notes"].to_string();
    assert!(notes.contains("hidden_size") && notes.contains("FusedAdam") && notes.contains("scheduler"), "{notes}");
}

#[test]
fn a_stage_is_not_filled_in() {
    let message = refused(&json!({"zero_optimization": {"stage": "auto"}}), &[]);
    assert!(message.contains("found \"auto\", which nothing fills in, needed 1, 2 or 3"), "{message}");
}

#[test]
fn flags_that_contradict_the_file_are_named_with_the_key() {
    let file = json!({
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": true},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e6},
    });
    for (more, words) in [
        (&["--parallel", "fsdp2"][..], ["--parallel fsdp2", "zero_optimization.stage", "deepspeed:2"]),
        (&["--accumulate", "1"], ["--accumulate 1", "gradient_accumulation_steps", "4"]),
        (&["--dtype", "fp32"], ["--dtype fp32", "bf16.enabled", "bf16"]),
        (&["--reduce-bucket-size", "1e6"], ["--reduce-bucket-size 1000000", "reduce_bucket_size", "5000000"]),
    ] {
        let message = refused(&file, more);
        assert!(words.iter().all(|word| message.contains(word)) && message.contains("ds_config.json"), "{message}");
    }
    let agreeing = with(&file, &["--parallel", "deepspeed:2", "--accumulate", "4", "--dtype", "bf16"]);
    assert_eq!(agreeing["settings"]["parallel"], "deepspeed:2");
}

#[test]
fn what_changes_memory_and_is_not_simulated_is_refused_by_its_key() {
    let zero = |more: Value| {
        let mut zero = json!({"stage": 2});
        zero.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"zero_optimization": zero})
    };
    for (configuration, words) in [
        (zero(json!({"contiguous_gradients": false})), "zero_optimization.contiguous_gradients: found false"),
        (zero(json!({"offload_param": {"device": "nvme"}})), "zero_optimization.offload_param.device: found nvme"),
        (zero(json!({"offload_optimizer": {"device": "nvme"}})), "found nvme"),
        (zero(json!({"stage": 0})), "zero_optimization.stage: found 0, needed 1, 2 or 3"),
        (zero(json!({"reduce_bucket_size": "large"})), "needed a whole number"),
        (zero(json!({"reduce_bucket_size": 0})), "found 0, needed 1 to 1e12"),
        (zero(json!({"bucket": 1})), "zero_optimization.bucket: found a key that DeepSpeed 0.19 does not have"),
        (json!({"bf16": {"enabled": true}}), "zero_optimization.stage: found none"),
        (json!({"zero_optimization": {"stage": 1}, "torch_autocast": {"enabled": true}}), "torch_autocast"),
        (
            json!({"zero_optimization": {"stage": 1}, "optimizer": {"type": "OneBitAdam"}}),
            "optimizer.type: found OneBitAdam",
        ),
        (
            json!({"zero_optimization": {"stage": 1}, "bf16": {"enabled": true}, "fp16": {"enabled": true}}),
            "needed one of them",
        ),
        (
            json!({"zero_optimization": {"stage": 1}, "train_batch_size": 9}),
            "train_batch_size: found 9, needed a multiple",
        ),
        (
            json!({"zero_optimization": {"stage": 1}, "train_batch_size": 9, "train_micro_batch_size_per_gpu": 2,
                   "gradient_accumulation_steps": 1}),
            "on 4 GPUs are 8",
        ),
        (json!([1]), "found no object"),
    ] {
        let message = refused(&configuration, &[]);
        assert!(message.contains(words), "{message}");
    }
    let missing = refusal(&["estimate", "gpt2", "--world", "2", "--deepspeed-config", "nowhere.json"]);
    assert!(missing.contains("nowhere.json"), "{missing}");
}

#[test]
fn weights_on_the_cpu_are_a_key_of_stage_3() {
    let file = |stage: u32, device: &str| {
        json!({"bf16": {"enabled": true}, "zero_optimization": {
            "stage": stage, "reduce_bucket_size": 1e6, "offload_param": {"device": device, "pin_memory": true}}})
    };
    let (on_gpu, on_cpu) = (with(&file(3, "none"), &["--batch", "1"]), with(&file(3, "cpu"), &["--batch", "1"]));
    assert_eq!(
        (&on_gpu["settings"]["offload_param"], &on_cpu["settings"]["offload_param"]),
        (&json!(false), &json!(true))
    );
    let peak = |answer: &Value| answer["peak_allocated"].as_u64().unwrap();
    assert!(peak(&on_cpu) < peak(&on_gpu), "{} and {}", peak(&on_cpu), peak(&on_gpu));
    let model = capture("gpt2-small");
    let zero = [
        "--gpus",
        "4",
        "--parallel",
        "deepspeed:3",
        "--offload-param",
        "--world",
        "4",
        "--dtype",
        "bf16",
        "--batch",
        "1",
    ];
    let (_, plan) =
        json(&[&["plan", model.as_str(), "--gpu", "H200", "--seq", "256", "--vram", "1GiB"], &zero[..]].concat());
    let printed: Value = serde_json::from_str(plan["plans"][0]["deepspeed"].as_str().unwrap()).unwrap();
    assert_eq!(printed["zero_optimization"]["offload_param"], json!({"device": "cpu", "pin_memory": true}));
    assert!(plan["plans"][0]["changes"].to_string().contains("copies of weights from the CPU are not counted"));
    let passed_over = with(&file(2, "cpu"), &["--batch", "1"]);
    assert_eq!(passed_over["settings"]["offload_param"], false);
    assert!(passed_over["notes"].to_string().contains("zero_optimization.offload_param.device"));
    let message = refused(&file(3, "none"), &["--offload-param"]);
    assert!(message.contains("--offload-param true") && message.contains("offload_param.device"), "{message}");
}

#[test]
fn a_printed_configuration_is_read_back_as_the_plan_that_it_is_of() {
    let model = capture("gpt2-small");
    let start = ["plan", model.as_str(), "--gpus", "4", "--gpu", "RTX 3060", "--seq", "256"];
    let (_, answer) = json(
        &[
            &start[..],
            &["--parallel", "deepspeed:2", "--world", "4", "--dtype", "bf16", "--batch", "4", "--vram", "1GiB"],
        ]
        .concat(),
    );
    let folder = tempfile::tempdir().unwrap();
    let plan = &answer["plans"][0];
    let path = file(&folder, &serde_json::from_str(plan["deepspeed"].as_str().unwrap()).unwrap());
    let read =
        ["max-batch", model.as_str(), "--seq", "256", "--world", "4", "--vram", "20GiB", "--deepspeed-config", &path];
    assert!(json(&read).1["max_batch"].as_i64().unwrap() > 4);
    let (_, read) = json(&[&start[..], &["--deepspeed-config", &path, "--keep", "parallel"]].concat());
    let settings = |answer: &Value| answer["settings"].clone();
    for key in ["parallel", "reduce_bucket_size", "overlap_comm", "gradient_clipping", "accumulate", "optimizer_state"]
    {
        assert_eq!(settings(&read["start"])[key], settings(plan)[key], "{key}");
    }
}
