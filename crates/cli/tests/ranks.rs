//! `--parallel` from the outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{capture, json, refusal, vramfit};
use serde_json::Value;

fn gpt2(more: &[&str]) -> Value {
    let model = capture("gpt2-small");
    let start = ["estimate", model.as_str(), "--batch", "4", "--seq", "256"];
    json(&[&start[..], more].concat()).1
}

#[test]
fn a_rank_has_the_peak_that_was_measured() {
    let ddp = gpt2(&["--parallel", "ddp", "--world", "2"]);
    assert_eq!(ddp["peak_allocated"], 1_523_257_856_u64);
    let mixed = ["--parallel", "fsdp2", "--world", "8", "--param-dtype", "bf16", "--reduce-dtype", "fp32"];
    let sharded = gpt2(&mixed);
    assert_eq!(sharded["peak_allocated"], 972_825_088_u64);
    assert_eq!(sharded["exact"], false, "ranks were measured with a fake process group");
    let zero = ["--dtype", "bf16", "--parallel", "deepspeed:2", "--world", "4", "--reduce-bucket-size", "5e6"];
    assert_eq!(gpt2(&zero)["peak_allocated"], 1_024_471_552_u64);
    let offloaded = gpt2(&[&zero[..], &["--optimizer-state", "cpu"]].concat());
    assert_eq!(offloaded["peak_allocated"], 982_494_208_u64);
    let zero = ["--dtype", "bf16", "--parallel", "deepspeed:3", "--world", "4", "--reduce-bucket-size", "5e6"];
    let partitioned = gpt2(&zero);
    assert_eq!(partitioned["peak_allocated"], 1_059_870_720_u64);
    assert_eq!(partitioned["peak_reserved"], 1_522_532_352_u64);
    assert_eq!(partitioned["settings"]["overlap_comm"], true, "as DeepSpeed does by default");
    assert_eq!((&partitioned["parallel"]["replicas"], &partitioned["parallel"]["shards"]), (&1.into(), &4.into()));
    let offloaded = gpt2(&[&zero[..], &["--optimizer-state", "cpu"]].concat());
    assert_eq!(offloaded["peak_allocated"], 966_686_208_u64);
}

#[test]
fn json_says_how_the_training_is_spread_and_what_is_sent() {
    let report = gpt2(&["--parallel", "hsdp:2x4", "--accumulate", "2"]);
    let parallel = &report["parallel"];
    assert_eq!((&parallel["how"], &parallel["world"]), (&Value::from("hsdp:2x4"), &Value::from(8)));
    assert_eq!((&parallel["replicas"], &parallel["shards"]), (&Value::from(2), &Value::from(4)));
    assert_eq!(parallel["global_batch"], 4 * 8 * 2);
    let settings = &report["settings"];
    assert_eq!((&settings["parallel"], &settings["shard"]), (&Value::from("hsdp:2x4"), &Value::from("blocks")));
    let communication = &report["communication"];
    let streams: Vec<&str> = communication["buffers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|buffers| buffers["stream"].as_str().unwrap())
        .collect();
    assert_eq!(streams, ["compute", "all-gather"]);
    assert!(communication["sent"]["all_gather"].as_u64() > communication["sent"]["all_reduce"].as_u64());
    assert_eq!(communication["nccl"]["communicators"], 2);
    assert!(report["breakdown"]["communication"].as_u64().unwrap() > 0);
    let alone = gpt2(&[]);
    assert!(
        alone["parallel"].is_null()
            && alone["communication"].is_null()
            && alone["breakdown"]["communication"].is_null()
    );
    assert_eq!((&alone["settings"]["parallel"], &alone["settings"]["world"]), (&Value::from("none"), &Value::from(1)));
}

#[test]
fn what_is_sent_is_what_is_trained_updated_or_gathered() {
    let sent = |how: &str, world: &str, more: &[&str], name: &str| {
        let report = gpt2(&[&["--parallel", how, "--world", world], more].concat());
        let bytes = report["communication"]["sent"][name].as_u64().unwrap();
        (bytes, 4 * report["parameters"].as_u64().unwrap())
    };
    let early = "transformer.wte,transformer.wpe,transformer.h.0,transformer.h.1";
    // In a ring of two each sends half of what is gathered or broadcast, and an all-reduce takes two passes.
    let (gradients, weights) = sent("ddp", "2", &[], "all_reduce");
    assert_eq!(gradients, weights);
    assert_eq!(sent("ddp", "2", &["--mode", "eval"], "all_reduce").0, 0);
    assert_eq!(sent("ddp", "2", &[], "broadcast").0, 0, "GPT-2 has no buffers");
    let (frozen, _) = sent("ddp", "2", &["--freeze", early], "all_reduce");
    assert!(0 < frozen && frozen < gradients);
    for more in [&[][..], &["--freeze", early]] {
        assert_eq!(sent("zero1", "2", more, "broadcast").0, weights / 2, "all weights are broadcast after an update");
    }
    assert_eq!(sent("zero1", "2", &["--mode", "eval"], "broadcast").0, 0);
    // The root stays gathered until the backward pass, and without one for good.
    let root = ["--shard", "none"];
    assert_eq!(sent("fsdp2", "2", &root, "all_gather").0, weights / 2);
    assert_eq!(sent("fsdp2", "2", &[&root[..], &["--mode", "eval"]].concat(), "all_gather").0, 0);
    let gathered = |more: &[&str]| sent("fsdp2", "2", more, "all_gather").0;
    let blocks = gathered(&["--mode", "eval"]);
    assert_eq!(gathered(&[]), 2 * blocks + (weights / 2 - blocks), "blocks twice, the root once");
    assert_eq!(sent("fsdp2", "2", &["--mode", "eval"], "reduce_scatter").0, 0);
    // Nothing runs backward through the first two blocks; PyTorch gathers the one before a block that does.
    assert_eq!(gathered(&[]) - gathered(&["--freeze", early]), blocks / 4);
    let resnet = capture("resnet18");
    let report = json(&["estimate", resnet.as_str(), "--batch", "4", "--parallel", "ddp", "--world", "2"]).1;
    // Means and variances of 4800 channels, and 20 counters.
    assert_eq!(report["communication"]["sent"]["broadcast"], 2 * 4800 * 4 + 20 * 8);
    let llama = capture("llama-small");
    let split = ["estimate", llama.as_str(), "--batch", "4", "--seq", "256", "--parallel", "tp", "--world", "2"];
    let report = json(&[&split[..], &["--mode", "eval"]].concat()).1;
    assert_eq!(report["communication"]["sent"]["all_reduce"], 4 * 2 * 4 * 256 * 512 * 4, "no gradients of inputs");
}

#[test]
fn the_type_that_shards_are_stored_in_is_the_trainings() {
    let mixed = ["--parallel", "fsdp2", "--param-dtype", "bf16", "--reduce-dtype", "fp32"];
    let report = gpt2(&[&mixed[..], &["--world", "4"]].concat());
    let settings = &report["settings"];
    assert_eq!((&settings["precision"], &settings["param_dtype"]), (&"as-built".into(), &"bf16".into()));
    let cast = gpt2(&[&mixed[..], &["--world", "4", "--dtype", "bf16"]].concat());
    assert_eq!(cast["settings"]["precision"], "bf16");
    let model = capture("gpt2-small");
    let start = ["plan", model.as_str(), "--batch", "2", "--seq", "128", "--gpus", "4", "--vram", "700MiB"];
    let plan = json(&[&start[..], &mixed[..]].concat()).1;
    let code = plan["start"]["code"].as_str().unwrap();
    assert!(code.contains("MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"), "{code}");
    assert!(!code.contains(".to(torch.bfloat16)"), "{code}");
    let plans = plan["plans"].as_array().unwrap();
    assert!(!plans.is_empty());
    for plan in plans {
        let settings = &plan["settings"];
        assert_eq!((&settings["precision"], &settings["param_dtype"]), (&"as-built".into(), &"bf16".into()));
    }
    let (_, text, _) = vramfit(&[&["estimate", model.as_str(), "--world", "4"], &mixed[..]].concat());
    let line = text.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(line.contains("fp32, adamw") && line.contains("computing in bf16"), "{text}");
}

#[test]
fn printed_code_and_files_do_what_was_simulated() {
    let model = capture("gpt2-small");
    let start = |more: &[&str]| {
        let start = ["plan", model.as_str(), "--batch", "2", "--seq", "128", "--vram", "1GiB", "--gpus", "4"];
        json(&[&start[..], more].concat()).1
    };
    let code = |more: &[&str]| start(more)["start"]["code"].as_str().unwrap().to_owned();
    let zero = code(&["--parallel", "zero1", "--optimizer", "momentum", "--freeze", "transformer.wpe"]);
    let wrapped =
        "ZeroRedundancyOptimizer(\n    model.parameters(),\n    optimizer_class=torch.optim.SGD,\n    momentum=0.9,\n)";
    assert!(zero.contains(wrapped), "{zero}");
    let twice = code(&["--alloc-conf", "expandable_segments:True"]);
    assert_eq!(twice.matches("import os").count(), 1, "{twice}");
    assert!(twice.find("PYTORCH_CUDA_ALLOC_CONF").unwrap() < twice.find("import torch\n").unwrap(), "{twice}");
    let file = |more: &[&str]| start(more)["plans"][0].get("accelerate").map(|file| file.as_str().unwrap().to_owned());
    let replicas = file(&["--nodes", "2", "--parallel", "hsdp:2x4"]).unwrap();
    for line in ["parallelism_config_dp_replicate_size: 2", "main_process_ip: HOST", "main_process_port: 29500"] {
        assert!(replicas.contains(line), "{replicas}");
    }
    let views = file(&["--parallel", "ddp", "--gradient-as-bucket-view"]).unwrap();
    assert!(views.contains("DistributedDataParallelKwargs(\n#     gradient_as_bucket_view=True)])."), "{views}");
    assert!(views.contains("mixed_precision: \"no\""), "{views}");
}

#[test]
fn a_file_for_accelerate_does_what_was_simulated_or_is_refused_with_a_cause() {
    let model = capture("gpt2-small");
    let start = ["plan", model.as_str(), "--batch", "2", "--seq", "128", "--vram", "100GiB", "--gpus", "4"];
    let plan = |more: &[&str]| json(&[&start[..], more].concat()).1["start"].clone();
    let file = |more: &[&str]| {
        let plan = plan(more);
        assert_eq!(plan.get("no_accelerate"), None);
        let file = plan["accelerate"].as_str().unwrap().to_owned();
        assert!(file.contains("mixed_precision: \"no\"\n") && file.lines().all(|line| line.len() <= 80), "{file}");
        file
    };
    let cause = |more: &[&str]| {
        let plan = plan(more);
        assert_eq!(plan.get("accelerate"), None);
        plan["no_accelerate"].as_str().unwrap().to_owned()
    };
    for (how, scaler) in
        [("ddp", ""), ("fsdp2", ""), ("ddp", " and its GradScaler"), ("hsdp:2x2", " and its GradScaler")]
    {
        let dtype = if scaler.is_empty() { "bf16" } else { "fp16" };
        let mixed = file(&["--parallel", how, "--amp", dtype]);
        assert!(mixed.contains(&format!("# The script has the plan's torch.autocast{scaler}.")), "{mixed}");
        assert!(!mixed.contains("MixedPrecisionPolicy"), "{mixed}");
    }
    for (more, policy) in [
        (&["--param-dtype", "bf16"][..], "param_dtype=torch.bfloat16"),
        (
            &["--param-dtype", "bf16", "--reduce-dtype", "fp32"],
            "param_dtype=torch.bfloat16, reduce_dtype=torch.float32",
        ),
        (&["--dtype", "bf16", "--reduce-dtype", "fp32"], "reduce_dtype=torch.float32"),
    ] {
        let typed = file(&[&["--parallel", "fsdp2"], more].concat());
        assert!(typed.contains(&format!("MixedPrecisionPolicy(\n#     {policy})))")), "{typed}");
        assert!(!typed.contains("autocast"), "{typed}");
    }
    assert!(file(&["--parallel", "fsdp2", "--cpu-offload"]).contains("fsdp_offload_params: true"));
    let twice = |how: &str, more: &[&str]| file(&[&["--parallel", how, "--accumulate", "2"], more].concat());
    let plugin = "num_steps=2, sync_each_batch=True";
    assert!(twice("fsdp2", &[]).contains(plugin) && twice("ddp", &["--no-sync", "false"]).contains(plugin));
    assert!(!twice("ddp", &[]).contains(plugin) && !twice("fsdp2", &["--no-sync", "true"]).contains(plugin));
    for (ranks, why) in [("2", "not a number of GPUs"), ("true", "root's weights"), ("4", "root's weights")] {
        let found = cause(&["--parallel", "fsdp2", "--reshard-after-forward", ranks]);
        assert!(found.contains(why), "{found}");
    }
    assert!(
        file(&["--parallel", "fsdp2", "--reshard-after-forward", "false"]).contains("reshard_after_forward: false")
    );
    assert!(cause(&["--parallel", "fsdp2", "--shard", "transformer.h.0"]).contains("all modules of a class"));
    let blocks = file(&["--parallel", "fsdp2", "--shard", "transformer.h.*"]);
    assert!(blocks.contains("fsdp_transformer_layer_cls_to_wrap: GPT2Block"), "{blocks}");
    assert!(cause(&["--parallel", "zero1"]).contains("ZeroRedundancyOptimizer"));
    assert!(cause(&["--parallel", "deepspeed:2"]).contains("ds_config.json"));
    let single = ["plan", model.as_str(), "--batch", "2", "--seq", "128", "--vram", "100GiB", "--parallel", "ddp"];
    let single = json(&[&single[..], &["--world", "1"]].concat()).1;
    assert!(single["start"]["no_accelerate"].as_str().unwrap().contains("a single process"));
    let (_, text, _) = vramfit(&[&start[..], &["--parallel", "zero1", "--keep", "parallel", "--all"]].concat());
    assert!(text.contains("no Accelerate file: it has no setting for ZeroRedundancyOptimizer"), "{text}");
}

#[test]
fn ways_and_links_are_read_in_any_case_and_one_gpu_is_named_as_one() {
    let model = capture("gpt2-small");
    let start = ["estimate", model.as_str(), "--batch", "2", "--seq", "64"];
    let peak = |how: &str| {
        json(&[&start[..], &["--parallel", how, "--world", "4"]].concat()).1["peak_allocated"].as_u64().unwrap()
    };
    assert_eq!(peak("HSDP:2X2"), peak("hsdp:2x2"));
    let single = vramfit(&[&start[..], &["--parallel", "DDP", "--world", "1"]].concat()).1;
    assert!(single.replace('\n', " ").contains("one GPU with ddp") && !single.contains("all 1 GPUs"), "{single}");
    let link = ["plan", model.as_str(), "--batch", "2", "--seq", "64", "--vram", "100GiB", "--gpus", "2", "--link"];
    assert!(json(&[&link[..], &["NVLink"]].concat()).1["plans"][0]["code"].is_string());
    assert!(refusal(&[&link[..], &["fast"]].concat()).contains("needed nvlink, pcie or a number of GB/s above 0"));
}

#[test]
fn a_loss_that_multiplies_with_a_sharded_head_is_refused() {
    let llama = capture("llama-small");
    let start = ["estimate", llama.as_str(), "--batch", "2", "--seq", "64", "--parallel", "fsdp2", "--world", "2"];
    for loss in [&["--chunked-loss", "4"][..], &["--fused-linear-loss", "liger"]] {
        let found = refusal(&[&start[..], loss, &["--shard", "model.layers.*,lm_head"]].concat());
        assert!(found.contains("--shard lm_head: its weights are gathered for its own forward pass"), "{found}");
        assert!(
            json(&[&start[..], loss].concat()).1["peak_allocated"].as_u64().unwrap() > 0,
            "of the root it is there"
        );
    }
}

#[test]
fn autocast_with_another_type_of_modules_has_its_cause() {
    let model = capture("gpt2-small");
    for command in ["estimate", "plan", "max-batch"] {
        let mixed = ["--parallel", "fsdp2", "--world", "4", "--amp", "bf16", "--param-dtype", "bf16", "--vram", "8GiB"];
        let found = refusal(&[&[command, model.as_str()], &mixed[..]].concat());
        assert!(found.contains("found --amp with --param-dtype, which is not simulated with it"), "{found}");
    }
}

#[test]
fn the_fewest_gpus_do_not_depend_on_how_many_are_offered() {
    let model = capture("gpt2-small");
    let fewest = |gpus: &str| {
        let start = ["plan", model.as_str(), "--batch", "2", "--seq", "128", "--vram", "850MiB", "--gpus", gpus];
        let notes = json(&start).1["notes"].as_array().unwrap().clone();
        notes.iter().find_map(|note| note.as_str().filter(|note| note.contains("fewest")).map(str::to_owned))
    };
    let few = fewest("2").unwrap();
    assert!(few.contains("sharded by FSDP2 and otherwise as it is"), "{few}");
    assert_eq!(fewest("64"), Some(few));
}

#[test]
fn nccl_has_a_band_of_its_own_that_a_fit_leaves_room_for() {
    let alone = gpt2(&["--gpu", "A100 40GB"]);
    let spread = gpt2(&["--gpu", "A100 40GB", "--parallel", "ddp", "--world", "2"]);
    for name in ["context_low", "context", "context_high"] {
        assert_eq!(alone[name], spread[name], "{name}");
    }
    assert_eq!(spread["communication"]["nccl"]["high"], 1600 << 20);
    assert_eq!(spread["all_ranks"]["peak_reserved"].as_u64(), spread["peak_reserved"].as_u64().map(|bytes| 2 * bytes));
    assert_eq!((&spread["all_ranks"]["world"], &spread["all_ranks"]["batch"]), (&2.into(), &8.into()));
    let model = capture("gpt2-small");
    let (_, text, _) = vramfit(&["estimate", model.as_str(), "--batch", "4", "--parallel", "ddp", "--world", "2"]);
    assert!(text.contains("\nNCCL ") && text.contains("\nall 2 GPUs "), "{text}");
}

#[test]
fn more_gpus_take_less_each_and_keeping_weights_takes_more() {
    let peak = |more: &[&str]| gpt2(&[&["--parallel", "fsdp2"], more].concat())["peak_allocated"].as_u64().unwrap();
    assert!(peak(&["--world", "16"]) < peak(&["--world", "2"]));
    assert!(peak(&["--world", "8", "--reshard-after-forward", "false"]) > peak(&["--world", "8"]));
    assert!(peak(&["--world", "8", "--cpu-offload"]) < peak(&["--world", "8"]));
    let held = |more: &[&str]| {
        let report = gpt2(&[&["--parallel", "ddp", "--world", "2"], more].concat());
        report["phases"].as_array().unwrap().last().unwrap()["allocated"].as_u64()
    };
    assert!(held(&["--gradient-as-bucket-view"]) < held(&[]));
}

#[test]
fn split_layers_take_less_on_more_gpus_which_share_a_batch() {
    let llama = capture("llama-small");
    let estimate = |world: &str| {
        json(&["estimate", llama.as_str(), "--batch", "4", "--seq", "256", "--parallel", "tp", "--world", world]).1
    };
    let (two, four) = (estimate("2"), estimate("4"));
    assert!(four["peak_allocated"].as_u64().unwrap() < two["peak_allocated"].as_u64().unwrap());
    assert_eq!(two["parallel"]["how"], "tp");
    assert_eq!(two["parallel"]["global_batch"], 4);
    assert_eq!(two["parallel"]["shards"], 2);
    // Each of 4 blocks adds up 2 outputs and 5 gradients of its input, [4, 256, 512] in fp32; a ring of two sends each once.
    assert_eq!(two["communication"]["sent"]["all_reduce"], 4 * 7 * 4 * 256 * 512 * 4);
    let uneven = refusal(&["estimate", llama.as_str(), "--parallel", "tp", "--world", "3"]);
    assert!(uneven.contains("needed a multiple of the 3 GPUs"), "{uneven}");
    let more_than_heads = refusal(&["estimate", llama.as_str(), "--parallel", "tp", "--world", "16"]);
    assert!(more_than_heads.contains("found 8 heads or columns"), "{more_than_heads}");
    let planned = refusal(&["plan", llama.as_str(), "--gpu", "H200", "--parallel", "tp", "--world", "2"]);
    assert!(planned.contains("no plans are searched"), "{planned}");
}

#[test]
fn a_plan_with_deepspeed_prints_its_configuration() {
    let model = capture("gpt2-small");
    let given = ["--parallel", "deepspeed:1", "--world", "4", "--dtype", "bf16", "--batch", "4", "--seq", "256"];
    let limit = ["--gpu", "RTX 3060", "--vram", "1GiB"];
    let answer = json(&[&["plan", model.as_str()], &given[..], &limit[..]].concat()).1;
    let plans = answer["plans"].as_array().unwrap();
    assert!(!plans.is_empty());
    for plan in plans {
        let code = plan["code"].as_str().unwrap();
        assert!(code.contains("deepspeed.initialize(") && code.contains("model.backward(loss)"), "{code}");
        assert!(!code.contains("zero_grad") && !code.contains("init_process_group"), "{code}");
        let file: serde_json::Value = serde_json::from_str(plan["deepspeed"].as_str().unwrap()).unwrap();
        assert_eq!(file["bf16"]["enabled"], true);
        assert_eq!(file["gradient_accumulation_steps"], plan["settings"]["accumulate"]);
        assert_eq!(file["zero_optimization"]["reduce_bucket_size"], plan["settings"]["reduce_bucket_size"]);
        let is_offloaded = file["zero_optimization"].get("offload_optimizer").is_some();
        assert_eq!(is_offloaded, plan["settings"]["optimizer_state"] == "cpu");
    }
    let buckets = plans.iter().map(|plan| plan["settings"]["reduce_bucket_size"].as_i64().unwrap());
    assert!(buckets.min().unwrap() < 500_000_000, "a bucket of 1 GB does not fit in 1 GiB");
}

#[test]
fn mistakes_are_named() {
    let model = capture("gpt2-small");
    let refused = |more: &[&str]| refusal(&[&["estimate", model.as_str()], more].concat());
    for (more, words) in [
        (&["--parallel", "fsdp2"][..], "needs --world"),
        (&["--parallel", "fsdp2", "--world", "1"], "needed at least 2"),
        (&["--parallel", "fsdp2", "--world", "8", "--reshard-after-forward", "3"], "needed a number that divides them"),
        (&["--parallel", "hsdp:2x4", "--world", "9"], "which needs 8 GPUs"),
        (&["--parallel", "hsdp:0x4"], "at least 1 replica"),
        (
            &["--parallel", "deepspeed:3", "--world", "2", "--chunked-loss", "4"],
            "--chunked-loss, which is not simulated",
        ),
        (&["--parallel", "deepspeed:4", "--world", "2"], "tp or deepspeed:1, :2 or :3"),
        (&["--parallel", "deepspeed:2"], "needs --world"),
        (&["--parallel", "deepspeed:2", "--world", "2", "--amp", "bf16"], "--amp, which is not simulated with it"),
        (&["--parallel", "deepspeed:2", "--world", "2", "--optimizer", "none"], "needed an optimizer"),
        (&["--parallel", "deepspeed:2", "--world", "2", "--reduce-bucket-size", "0"], "needed a whole number"),
        (
            &["--parallel", "deepspeed:2", "--world", "2", "--no-sync", "true"],
            "--no-sync: found --parallel deepspeed:2",
        ),
        (&["--parallel", "ddp", "--world", "2", "--overlap-comm", "true"], "needed deepspeed:STAGE"),
        (
            &["--parallel", "deepspeed:2", "--world", "2", "--offload-param"],
            "--offload-param: found --parallel deepspeed:2, needed deepspeed:3",
        ),
        (&["--parallel", "pipeline"], "needed none, ddp, zero1, fsdp2, hsdp:RxS, tp or deepspeed:1, :2 or :3"),
        (&["--parallel", "tp", "--world", "2"], "found no linear layers of attention or MLP"),
        (&["--parallel", "tp", "--world", "1"], "needed at least 2 GPUs"),
        (&["--parallel", "tp", "--world", "2", "--clip-grad"], "--clip-grad, which is not simulated with it"),
        (&["--parallel", "tp", "--world", "2", "--no-sync", "true"], "--no-sync: found --parallel tp"),
        (&["--parallel", "fsdp2", "--world", "4", "--shard", "nowhere.*"], "the model has no such module"),
        (&["--world", "4"], "needed ddp, zero1, fsdp2, hsdp:RxS, tp or deepspeed:STAGE"),
        (&["--param-dtype", "bf16"], "needed fsdp2 or hsdp:RxS"),
        (
            &["--parallel", "ddp", "--world", "2", "--shard", "transformer.h.0"],
            "--shard: found --parallel ddp, needed fsdp2 or hsdp:RxS",
        ),
        (&["--parallel", "ddp", "--world", "2", "--shard", "blocks"], "--shard: found --parallel ddp"),
        (&["--parallel", "fsdp2", "--world", "2", "--shard", ""], "needed blocks, none, or names of modules"),
        (&["--parallel", "fsdp2", "--world", "2", "--shard", "transformer.h.0,"], "needed blocks, none, or names"),
        (&["--parallel", "fsdp2", "--world", "2", "--shard", "transformer.h"], "it is a ModuleList"),
        (
            &["--parallel", "fsdp2", "--world", "2", "--shard", "transformer.wte"],
            "would part its weight `transformer.wte.weight` from `lm_head.weight`",
        ),
        (&["--parallel", "ddp", "--world", "2", "--no-sync", "true"], "needed at least 2 micro-batches"),
        (&["--parallel", "hsdp:10000x10000"], "found 100000000 GPUs, needed at most 100000"),
        (&["--parallel", "hsdp:2x20000"], "at most 10000 of each"),
        (&["--parallel", "fsdp2", "--world", "4", "--gradient-as-bucket-view"], "needed ddp or zero1"),
        (&["--parallel", "ddp", "--world", "4", "--static-graph", "--accumulate", "2"], "needed --no-sync false"),
        (
            &["--parallel", "fsdp2", "--world", "4", "--static-graph"],
            "--static-graph: found --parallel fsdp2, needed ddp or zero1",
        ),
        (&["--parallel", "fsdp2", "--world", "4", "--step-in-backward"], "not simulated with it"),
        (
            &["--parallel", "fsdp2", "--world", "4", "--optimizer", "muon"],
            "--optimizer muon, which is not simulated with it",
        ),
        (&["--parallel", "fsdp2", "--world", "4", "--reduce-dtype", "bf16"], "modules that compute in fp32"),
    ] {
        let message = refused(more);
        assert!(message.contains(words), "{more:?}: {message}");
    }
    let recurrent = capture("lstm");
    let message = refusal(&["estimate", recurrent.as_str(), "--parallel", "fsdp2", "--world", "2"]);
    assert!(message.contains("sharded recurrent layers"), "{message}");
}

#[test]
fn a_plan_moves_shards_to_the_cpu_where_no_number_of_bytes_on_the_gpus_will_do() {
    let model = capture("llama-1b");
    let start = ["plan", model.as_str(), "--dtype", "bf16", "--batch", "1", "--seq", "512", "--gpus", "2"];
    let (code, answer) = json(&[&start[..], &["--vram", "4GiB", "--keep", "dtype,seq,batch"]].concat());
    assert_eq!(code, 0);
    let plan = &answer["plans"][0];
    assert_eq!((&plan["settings"]["parallel"], &plan["settings"]["cpu_offload"]), (&"fsdp2".into(), &true.into()));
    let text = plan["code"].as_str().unwrap();
    assert!(text.contains("offload_policy=CPUOffloadPolicy()") && text.contains("\"cpu:gloo,cuda:nccl\""), "{text}");
    assert!(!text.contains("fused=True"), "{text}");
    assert!(plan["accelerate"].as_str().unwrap().contains("fsdp_offload_params: true"));
}

#[test]
fn a_plan_shards_what_no_gpu_can_hold_alone_and_prints_how_it_is_started() {
    let model = capture("llama-1b");
    let start =
        ["plan", model.as_str(), "--dtype", "bf16", "--batch", "1", "--seq", "512", "--gpus", "8", "--vram", "6GiB"];
    let (code, answer) = json(&start);
    assert_eq!(code, 0);
    let plan = &answer["plans"][0];
    assert_eq!(
        (&answer["start"]["settings"]["parallel"], &plan["settings"]["parallel"]),
        (&"ddp".into(), &"fsdp2".into())
    );
    assert!(plan["peak_reserved"].as_u64().unwrap() <= 6 << 30);
    let text = plan["code"].as_str().unwrap();
    assert!(text.starts_with("# torchrun --nproc-per-node 8 train.py\n"), "{text}");
    assert!(text.contains("for block in model.get_submodule(\"model.layers\"):"), "{text}");
    assert!(plan["accelerate"].as_str().unwrap().contains("fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer"));
    assert_eq!(plan["all_ranks"]["world"], 8);
    let (_, kept) = json(&[&start[..], &["--keep", "parallel"]].concat());
    let ways: Vec<&Value> =
        kept["plans"].as_array().unwrap().iter().map(|plan| &plan["settings"]["parallel"]).collect();
    assert!(ways.iter().all(|way| *way == "ddp"), "{ways:?}");
}

#[test]
fn mistakes_about_gpus_are_named() {
    let model = capture("gpt2-small");
    for (more, words) in [
        (&["--gpus", "1"][..], "needed at least two"),
        (&["--nodes", "2"], "needs --gpus"),
        (&["--gpus", "4", "--world", "3"], "found 4 GPUs"),
        (&["--gpus", "1024", "--nodes", "1024"], "found 1048576 GPUs, needed at most 4096"),
        (&["--gpus", "2", "--nodes", "3", "--parallel", "hsdp:2x4"], "which needs 8 GPUs, and 6 of them"),
        (&["--gpus", "4", "--link", "fast"], "needed nvlink, pcie or a number"),
        (&["--gpus", "4", "--network", "0"], "a number of GB/s above 0"),
        (&["--link", "nvlink"], "--link: needs --gpus"),
        (&["--network", "5"], "--network: needs --gpus and --nodes"),
        (&["--gpus", "4", "--network", "5"], "--network: found one machine, needed --nodes"),
    ] {
        let message = refusal(&[&["plan", model.as_str(), "--vram", "2GiB"], more].concat());
        assert!(message.contains(words), "{more:?}: {message}");
    }
}

#[test]
fn shards_are_made_of_inner_blocks_first_as_fully_shard_needs_them() {
    let model = capture("resnet-hf");
    let given = ["--parallel", "fsdp2", "--world", "4", "--batch", "8", "--gpu", "H200", "--vram", "240MiB"];
    let answer = json(&[&["plan", model.as_str()], &given[..]].concat()).1;
    let code = answer["plans"][0]["code"].as_str().unwrap();
    let place = |list: &str| code.find(&format!("\"{list}\",")).unwrap();
    assert!(place("resnet.encoder.stages.0.layers.0.layer") < place("resnet.encoder.stages.0.layers"), "{code}");
    assert!(place("resnet.encoder.stages.3.layers") < place("resnet.encoder.stages"), "{code}");
}

#[test]
fn heads_whose_halves_are_stacked_are_split_as_measured() {
    let model = capture("cohere");
    let given = ["--batch", "6", "--seq", "200", "--checkpoint", "blocks", "--parallel", "tp", "--world", "2"];
    let report = json(&[&["estimate", model.as_str()], &given[..]].concat()).1;
    assert_eq!(report["peak_allocated"], 1_384_359_936_u64);
}

#[test]
fn a_batch_norm_that_computes_in_another_type_than_its_statistics_has_a_note() {
    let note = |model: &str, more: &[&str]| {
        let model = capture(model);
        let start = ["estimate", model.as_str(), "--batch", "4", "--parallel", "fsdp2", "--world", "2"];
        let report = json(&[&start[..], more].concat()).1;
        let notes = report["notes"].as_array().unwrap().clone();
        notes.iter().any(|note| note.as_str().unwrap().contains("PyTorch refuses the backward pass of"))
    };
    assert!(note("resnet-hf", &["--param-dtype", "bf16"]));
    assert!(!note("resnet-hf", &["--dtype", "bf16"]), "statistics are cast with the model");
    assert!(!note("resnet-hf", &["--param-dtype", "bf16", "--channels-last"]), "other kernels run");
    assert!(!note("dinov2", &["--param-dtype", "bf16"]), "it has none");
}
