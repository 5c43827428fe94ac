//! `vramfit plan` and `vramfit max-batch` from the outside: the contract's keys and exit codes, plans that `estimate`
//! agrees with, and one clear error for bad input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;
use std::path::Path;

use common::{archive, capture, json, refusal, vramfit};

#[test]
fn the_contracts_keys_are_there_and_estimate_gives_the_same_peaks() {
    let model = capture("bert-small");
    let given = ["plan", &model, "--batch", "32", "--seq", "128", "--vram", "600MiB"];
    let (code, answer) = json(&given);
    assert_eq!(code, 0);
    assert!(answer["max_batch"].as_u64().unwrap() < 32);
    let plans = answer["plans"].as_array().unwrap();
    assert!(plans.len() >= 3);
    for plan in plans {
        for key in
            ["settings", "changes", "peak_allocated", "peak_reserved", "device_used", "slowdown", "effect", "code"]
        {
            assert!(!plan[key].is_null(), "{key}");
        }
        let settings = &plan["settings"];
        let text = |key: &str| settings[key].as_str().unwrap().to_owned();
        let number = |key: &str| settings[key].as_u64().unwrap().to_string();
        let size = |key: &str| settings["sizes"][key].as_u64().unwrap().to_string();
        let (batch, seq, accumulate) = (size("batch"), size("seq"), number("accumulate"));
        let (optimizer, implementation, checkpoint) = (text("optimizer"), text("optimizer_impl"), text("checkpoint"));
        let (outputs, conf, precision) = (text("outputs"), text("alloc_conf"), text("precision"));
        let mut flags = vec![
            "estimate",
            &model,
            "--vram",
            "600MiB",
            "--batch",
            &batch,
            "--seq",
            &seq,
            "--accumulate",
            &accumulate,
            "--optimizer",
            &optimizer,
            "--optimizer-impl",
            &implementation,
            "--checkpoint",
            &checkpoint,
            "--outputs",
            &outputs,
            "--alloc-conf",
            &conf,
        ];
        let (state, lora, quantize) = (text("optimizer_state"), text("lora"), text("quantize"));
        flags.extend(["--optimizer-state", &state]);
        flags.extend(settings["step_in_backward"].as_bool().unwrap().then_some("--step-in-backward"));
        // Plans take the defaults of peft and NF4.
        flags.extend((lora != "none").then_some("--lora"));
        if quantize != "none" {
            flags.extend(["--quantize", "nf4"]);
        }
        let (offload, kept) = (text("offload_activations"), text("checkpoint_save"));
        flags.extend(["--offload-activations", &offload, "--checkpoint-save", &kept]);
        let chunks = settings["chunked_loss"].as_u64().map(|chunks| chunks.to_string());
        if let Some(chunks) = &chunks {
            flags.extend(["--chunked-loss", chunks]);
        }
        match precision.strip_prefix("amp-") {
            Some(amp) => flags.extend(["--amp", amp]),
            None if precision != "as-built" => flags.extend(["--dtype", &precision]),
            None => {}
        }
        let (code, estimate) = json(&flags);
        assert_eq!(code, 0, "{flags:?}");
        assert_eq!(estimate["peak_allocated"], plan["peak_allocated"]);
        assert_eq!(estimate["peak_reserved"], plan["peak_reserved"]);
        assert_eq!(estimate["device_used"], plan["device_used"]);
    }
    let effects: Vec<&str> = plans.iter().map(|plan| plan["effect"].as_str().unwrap()).collect();
    assert!(["none", "rounding", "training"].iter().all(|effect| effects.contains(effect)));
    assert_eq!(answer["tricks"].as_array().unwrap().len(), 24);
}

#[test]
fn text_is_one_recommended_plan_within_80_columns() {
    let model = capture("bert-small");
    let (code, out, _) = vramfit(&["plan", &model, "--batch", "32", "--seq", "128", "--vram", "600MiB"]);
    assert_eq!(code, 0);
    for part in [
        "does not fit in 600 MiB; it would reserve ",
        "Recommended: without any effect on the training\n  + ",
        "\n  = peak ",
        " reserved, ",
        " on the device, ",
        " free, time",
        "  or autocast bf16",
        "--all prints the code",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(out.lines().count() <= 16, "{out}");
    assert!(out.lines().all(|line| line.chars().count() <= 80 || line == model), "{out}");
    assert!(!out.contains("import torch") && !out.contains("Each trick alone"));
    // Where nothing needs to change, there is no code to print.
    let (_, out, _) = vramfit(&["plan", &model, "--batch", "2", "--seq", "64", "--vram", "6GiB"]);
    assert!(out.contains("fits as it is") && out.contains("nothing needs to change"), "{out}");
    assert!(!out.contains("the code"), "{out}");
}

#[test]
fn a_start_that_leaves_less_than_the_margin_is_called_tight_and_estimate_names_what_is_left() {
    let model = capture("bert-small");
    let at = [model.as_str(), "--batch", "8", "--seq", "64"];
    let (_, answer) = json(&[&["estimate"], &at[..], &["--vram", "2GiB"]].concat());
    let reserved = answer["peak_reserved"].as_u64().unwrap();
    assert_eq!(answer["fit"]["margin"].as_u64().unwrap(), (2 << 30) - reserved);
    let (_, text, _) = vramfit(&[&["estimate"], &at[..], &["--vram", "2GiB"]].concat());
    assert!(text.contains("stay free"), "{text}");
    let vram = format!("{reserved}B");
    let (_, answer) = json(&[&["estimate"], &at[..], &["--vram", &vram]].concat());
    assert_eq!((answer["fit"]["verdict"].as_str(), answer["fit"]["margin"].as_u64()), (Some("fits"), Some(0)));
    let plan = |margin: &[&str]| json(&[&["plan"], &at[..], &["--vram", &vram], margin].concat()).1;
    assert!(plan(&["--margin", "0"])["plans"][0]["changes"].as_array().unwrap().is_empty());
    let tight = plan(&[]);
    let wanted = tight["fit"]["margin_wanted"].as_u64().unwrap();
    assert_eq!(wanted, (reserved * 2).div_ceil(100));
    for found in tight["plans"].as_array().unwrap() {
        assert!(found["peak_reserved"].as_u64().unwrap() + wanted <= reserved, "{found}");
    }
    let (_, text, _) = vramfit(&[&["plan"], &at[..], &["--vram", &vram]].concat());
    assert!(text.contains("fits too tightly"), "{text}");
    let batch = |margin: &str| {
        let (_, out, _) = vramfit(&["max-batch", &model, "--seq", "128", "--vram", "600MiB", "--margin", margin]);
        out.trim().parse::<u64>().unwrap()
    };
    assert!(batch("10%") < batch("0") && batch("0.1") == batch("10%"));
}

#[test]
fn plans_are_grouped_by_risk_and_settings_can_be_kept() {
    let model = capture("bert-small");
    let given = ["plan", &model, "--batch", "32", "--seq", "128", "--vram", "600MiB"];
    let (_, answer) = json(&given);
    let order = ["none", "mixed-precision", "weight-state", "smaller-dtype", "smaller-training"];
    let groups: Vec<&str> =
        answer["groups"].as_array().unwrap().iter().map(|group| group["group"].as_str().unwrap()).collect();
    assert_eq!(groups, order);
    let place = |plan: &serde_json::Value| order.iter().position(|group| plan["group"] == **group).unwrap();
    let places: Vec<usize> = answer["plans"].as_array().unwrap().iter().map(place).collect();
    assert!(places.is_sorted(), "{places:?}");
    let (_, kept) = json(&[&given[..], &["--keep", "amp,dtype,adapters,optimizer,batch,seq"]].concat());
    assert!(kept["plans"].as_array().unwrap().iter().all(|plan| plan["group"] == "none"));
}

#[test]
fn all_has_the_verdict_the_groups_and_the_code_within_80_columns() {
    let model = capture("bert-small");
    let (code, out, _) = vramfit(&["plan", &model, "--batch", "32", "--seq", "128", "--vram", "600MiB", "--all"]);
    assert_eq!(code, 0);
    for part in [
        "does not fit",
        "largest batch",
        "Without any effect",
        "With mixed precision",
        "With another optimizer, or adapters",
        "With the whole model in a smaller type",
        "With smaller batches, sequences or models",
    ] {
        assert!(out.contains(part), "{part}\n{out}");
    }
    assert!(out.contains("optimizer = torch.optim.AdamW(model.parameters()") && out.contains("loss.backward()"));
    let long: Vec<&str> = out.lines().filter(|line| line.chars().count() > 80 && *line != model).collect();
    assert!(long.is_empty(), "{long:?}");
    assert!(out.contains("\nimport torch\n"), "the code stands at the edge, to be pasted");
}

#[test]
fn each_trick_tells_its_conflicts_its_code_and_what_to_note() {
    let given = ["plan", &capture("bert-small"), "--batch", "32", "--seq", "128", "--vram", "600MiB", "--all"];
    let (_, out, _) = vramfit(&given);
    let tricks = &out[out.find("Each trick alone").unwrap()..];
    let flat = tricks.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "conflicts: a learning rate and schedule tuned for the larger batch",
        "conflicts: the learning rate, which another optimizer needs different",
        "note: pure fp16 training overflows at 65,504",
        "code: DataLoader(dataset, batch_size=…)",
    ] {
        assert!(flat.contains(part), "{part}\n{tricks}");
    }
    assert_eq!(tricks.matches("    code: ").count(), 24);
    // Of the plans that are only named too.
    let (_, answer) = json(&["plan", &capture("bert-small"), "--batch", "32", "--seq", "128", "--vram", "600MiB"]);
    let changes = answer["plans"].as_array().unwrap().iter().flat_map(|plan| plan["changes"].as_array().unwrap());
    let warnings = changes.filter(|change| change["warning"].is_string()).count();
    let plans = &out[..out.find("The code of the first plan").unwrap()];
    assert!(warnings > 0);
    assert_eq!(plans.matches("note: ").count(), warnings, "{plans}");
}

#[test]
fn a_long_verdict_is_wrapped() {
    let model = capture("mlp-relu");
    for gpu in ["RTX 4080", "RTX PRO 6000 Blackwell"] {
        let (_, out, _) = vramfit(&["plan", &model, "--gpu", gpu]);
        let long: Vec<&str> = out.lines().filter(|line| line.chars().count() > 80 && *line != model).collect();
        assert!(long.is_empty(), "{long:?}");
    }
}

#[test]
fn weight_decay_and_cudnn_benchmark_stand_in_the_code() {
    let model = capture("mlp-relu");
    let code = |more: &[&str]| {
        let given = [&["plan", &model, "--vram", "1GiB"], more].concat();
        json(&given).1["start"]["code"].as_str().unwrap().to_owned()
    };
    let plain = code(&["--optimizer", "sgd"]);
    assert!(!plain.contains("weight_decay") && !plain.contains("cudnn"), "{plain}");
    assert!(code(&["--optimizer", "sgd", "--weight-decay"]).contains("SGD(model.parameters(), weight_decay=0.01)\n"));
    // AdamW's own is there anyway.
    assert!(!code(&["--weight-decay"]).contains("weight_decay"));
    assert!(code(&["--cudnn-benchmark"]).contains("torch.backends.cudnn.benchmark = True\n"));
    let long = code(&["--optimizer", "nesterov", "--optimizer-impl", "for-loop", "--weight-decay"]);
    assert!(long.contains("optimizer = torch.optim.SGD(\n    model.parameters(),\n"), "{long}");
    assert!(long.lines().all(|line| line.chars().count() <= 80), "{long}");
}

#[test]
fn an_archives_code_says_what_to_put_where_the_loss_is() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../readers/tests/archives/tiny-2.8.pt2");
    let given = ["plan", archive.to_str().unwrap(), "--vram", "1GiB"];
    let (_, answer) = json(&given);
    let code = answer["start"]["code"].as_str().unwrap();
    assert!(code.contains("    # Or what your model has: outputs."), "{code}");
    let (_, answer) = json(&["plan", &capture("bert-small"), "--vram", "4GiB"]);
    let code = answer["start"]["code"].as_str().unwrap();
    assert!(code.contains("    loss = outputs.loss\n") && !code.contains("Or what your model has"), "{code}");
}

#[test]
fn a_batch_that_max_batch_does_not_take_is_told() {
    let (code, out, err) = vramfit(&["max-batch", &capture("mlp-relu"), "--vram", "300MiB", "--batch", "5"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.trim().parse::<u64>().unwrap() > 5);
    assert!(err.contains("note: --batch has no effect"), "{err}");
}

#[test]
fn where_nothing_fits_it_says_what_is_missing_and_exits_with_1() {
    let model = capture("bert-small");
    let (_, text, _) = vramfit(&["plan", &model, "--batch", "8", "--vram", "64MiB"]);
    let (code, answer) = json(&["plan", &model, "--batch", "8", "--vram", "64MiB"]);
    assert_eq!(code, 1);
    assert!(answer["plans"].as_array().unwrap().is_empty() && answer["max_batch"] == 0);
    let nothing = &answer["nothing_fits"];
    let margin = answer["fit"]["margin_wanted"].as_u64().unwrap();
    assert_eq!(nothing["missing"].as_u64().unwrap(), nothing["needed"].as_u64().unwrap() + margin - (64 << 20));
    let changes: Vec<&str> = nothing["changes"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!changes.is_empty() && text.contains(&format!("that is with: {}", changes.join("; "))), "{text}");
    assert!(nothing["gpu"]["name"].is_string() && nothing["floor"]["parameters"].as_u64().unwrap() > 0);
    let (code, out, _) = vramfit(&["max-batch", &model, "--vram", "64MiB"]);
    assert_eq!((code, out.as_str()), (1, "0\n"));
}

#[test]
fn the_largest_batch_is_one_number() {
    let model = capture("bert-small");
    let (code, out, _) = vramfit(&["max-batch", &model, "--seq", "128", "--vram", "600MiB"]);
    assert_eq!(code, 0);
    let batch: u64 = out.trim().parse().unwrap();
    let (_, answer) = json(&["max-batch", &model, "--seq", "128", "--vram", "600MiB"]);
    assert_eq!(answer["max_batch"], batch);
    // Evaluation has room for more.
    let (_, out, _) = vramfit(&["max-batch", &model, "--seq", "128", "--vram", "600MiB", "--mode", "eval"]);
    assert!(out.trim().parse::<u64>().unwrap() > batch);
}

#[test]
fn the_page_is_whole_and_can_be_read_without_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.html");
    let model = capture("mlp-relu");
    let (code, _, err) =
        vramfit(&["plan", &model, "--batch", "20000", "--vram", "300MiB", "--html", path.to_str().unwrap()]);
    assert!(code < 2, "{err}");
    let page = fs::read_to_string(path).unwrap();
    assert!(page.contains("vramfit plan</title>") && page.ends_with("</html>\n") && !page.contains("{{"));
    let before_script = &page[..page.find("<script").unwrap()];
    assert!(before_script.contains("Each trick alone") && before_script.contains("To reproduce"));
    let folder = folder.path().to_str().unwrap();
    assert!(
        !page.contains(folder) && !page.contains(env!("CARGO_MANIFEST_DIR")),
        "a path of this machine is in the page"
    );
    assert!(page.contains("<span>mlp-relu.vramfit</span> <span>--batch</span> <span>20000</span>"));
}

#[test]
fn bad_input_is_one_clear_error() {
    let model = capture("bert-small");
    let model = model.as_str();
    let missing = refusal(&["plan", model]);
    assert!(missing.contains("found neither --gpu nor --vram") && missing.contains("hint:"), "{missing}");
    assert!(refusal(&["max-batch", model]).contains("found neither --gpu nor --vram"));
    assert!(refusal(&["plan", model, "--vram", "2GiB", "--mode", "eval"]).contains("needed --mode train"));
    assert!(refusal(&["plan", model, "--gpu", "RTX 9999"]).contains("no GPU named `RTX 9999`"));
    assert!(refusal(&["plan", model, "--vram", "2GiB", "--checkpoint", "nowhere"]).contains("no such module"));
    assert!(refusal(&["plan", model, "--vram", "2GiB", "--batch", "0"]).contains("--batch 0"));
    assert!(refusal(&["plan", model, "--vram", "2GiB", "--alloc-conf", "nothing:1"]).contains("unknown key `nothing`"));
    assert!(refusal(&["plan", "nothing.vramfit", "--vram", "2GiB"]).contains("found no such file"));
    let fused = refusal(&["plan", model, "--vram", "2GiB", "--optimizer", "rmsprop", "--optimizer-impl", "fused"]);
    assert!(fused.contains("no such implementation of rmsprop"), "{fused}");
    let margin = |share| refusal(&["plan", model, "--vram", "2GiB", "--margin", share]);
    for share in ["1", "-0.1", "two", "200%", "nan"] {
        assert!(margin(share).contains(&format!("found `{share}`, needed a share")), "{}", margin(share));
    }
    assert!(refusal(&["max-batch", model, "--vram", "2GiB", "--margin", "x"]).contains("found `x`, needed a share"));
    let kept = refusal(&["plan", model, "--vram", "2GiB", "--keep", "optimizer,lr"]);
    assert!(kept.contains("found `lr`, needed one or more of") && kept.contains("seq"), "{kept}");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("missing").join("plan.html");
    let unwritten = refusal(&["plan", model, "--vram", "20GiB", "--html", page.to_str().unwrap()]);
    assert!(unwritten.contains("cannot write the page"), "{unwritten}");
}

#[test]
fn the_parts_of_a_plan_are_those_of_its_code() {
    let model = capture("bert-small");
    let (_, answer) = json(&["plan", &model, "--batch", "32", "--seq", "128", "--vram", "600MiB"]);
    for plan in answer["plans"].as_array().unwrap().iter().chain([&answer["start"]]) {
        let (code, parts) = (plan["code"].as_str().unwrap(), &plan["parts"]);
        let is_every_block = parts["is_every_block"].as_bool().unwrap();
        assert_eq!(code.contains("gradient_checkpointing_enable"), is_every_block);
        for name in parts["checkpointed"].as_array().unwrap().iter().filter(|_| !is_every_block) {
            assert!(code.contains(&format!("{name}")), "{name}: {code}");
        }
        let is_listed = !is_every_block && !parts["checkpointed"].as_array().unwrap().is_empty();
        assert_eq!(code.contains("checkpointed"), is_listed);
        assert_eq!(code.contains("autocast"), !parts["amp"].is_null());
        let cast = parts["dtype"].as_str().map_or_else(String::new, |dtype| format!("model.to(torch.{dtype})"));
        assert!(code.contains(&cast) && code.contains("model.to(torch") != cast.is_empty());
        assert_eq!(parts["loss"], "returned");
    }
}

#[test]
fn batches_that_an_archive_cannot_have_are_passed_over() {
    let pairs = archive("pairs");
    let loop_ = ["--loss", "mean", "--optimizer", "sgd"];
    let (code, answer) = json(&[&["max-batch", &pairs, "--vram", "40MiB"], &loop_[..]].concat());
    assert!(code == 0 && answer["max_batch"] == 1024, "the most it was exported for: {answer}");
    let (code, answer) = json(&[&["plan", &pairs, "--vram", "1GiB", "--batch", "8"], &loop_[..]].concat());
    assert!(code == 0 && answer["plans"][0]["settings"]["batch"] == 8, "{answer}");
}

#[test]
fn a_size_given_by_hand_is_said_to_stay() {
    let masked = archive("masked");
    let error = refusal(&["plan", &masked, "--vram", "1GiB"]);
    assert!(error.contains("`u0`") && error.contains("node `index`") && error.contains("--size u0=N"), "{error}");
    let (code, _, diagnostics) = vramfit(&["plan", &masked, "--vram", "1GiB", "--size", "u0=64", "--loss", "mean"]);
    assert_eq!(code, 0, "{diagnostics}");
    assert!(diagnostics.contains("note: size `u0`") && diagnostics.contains("stays 64"), "{diagnostics}");
}

#[test]
fn candidates_that_the_model_cannot_be_bound_to_are_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wide.toml");
    // The kernel is larger than half of the image.
    let layers = r#""Conv2d(3, 4, 40)", "AdaptiveAvgPool2d(1)", "Flatten()", "Linear(4, 10)""#;
    let text =
        format!("input = [\"batch\", 3, \"height\", 64]\nsizes = {{ batch = 2, height = 64 }}\nlayers = [{layers}]\n");
    std::fs::write(&path, text).unwrap();
    let arguments = ["plan", path.to_str().unwrap(), "--vram", "1GiB"];
    let (_, answer) = json(&arguments);
    let unbound = answer["unbound"].as_array().unwrap();
    let heights: Vec<i64> = unbound.iter().map(|one| one["sizes"]["height"].as_i64().unwrap()).collect();
    assert!(heights.contains(&32) && heights.contains(&16) && !heights.contains(&48), "{unbound:#?}");
    assert!(unbound.iter().all(|one| one["reason"].as_str().is_some_and(|reason| !reason.is_empty())));
    let (_, out, _) = vramfit(&[&arguments[..], &["--all"]].concat());
    let flat = out.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = format!("{} candidates were left out because the model cannot be bound to them", unbound.len());
    assert!(flat.contains(&line) && flat.contains("height 16"), "{out}");
}

#[test]
fn times_on_a_gpu_that_was_not_timed_are_called_rough() {
    let model = capture("mlp-relu");
    let rough = "times are rough";
    let is_said = |gpu: &str| {
        let (_, text, _) = vramfit(&["plan", &model, "--gpu", gpu]);
        let (_, answer) = json(&["plan", &model, "--gpu", gpu]);
        assert_eq!(text.contains(rough), answer["notes"].to_string().contains(rough), "{text}");
        text.contains(rough)
    };
    assert!(is_said("RTX 3060") && !is_said("H200"));
}

#[test]
fn the_help_names_every_setting_that_can_be_kept() {
    let refused = refusal(&["plan", "resnet18", "--vram", "2GiB", "--keep", "nothing"]);
    let (_, names) = refused.lines().next().unwrap().split_once("one or more of ").unwrap();
    let (_, help, _) = vramfit(&["plan", "--help"]);
    let (_, kept) = help.split_once("--keep <SETTINGS>").unwrap();
    let (described, _) = kept.split_once("--all").unwrap();
    let described: Vec<&str> = described.split([',', ' ', '\n', '.', ':']).collect();
    for name in names.split(", ") {
        assert!(described.contains(&name), "{name} is not in the help: {described:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_batch_that_no_gpu_holds_is_planned_in_little_memory() {
    // Micro-batches that were written out, and numbers up to the batch that were tried as its divisors, would take gigabytes and hours.
    let program = assert_cmd::cargo::cargo_bin("vramfit");
    let command = format!(
        "ulimit -v 2000000; exec '{}' plan bert-base --gpu 'RTX 3060' --batch 16000000 --json",
        program.display()
    );
    let output = std::process::Command::new("sh").args(["-c", &command]).env("VRAMFIT_CUDNN", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let plans = answer["plans"].as_array().unwrap();
    assert!(!plans.is_empty());
    // `estimate` takes the settings of every plan.
    assert!(plans.iter().all(|plan| plan["settings"]["accumulate"].as_u64().unwrap() <= 10_000));
}

#[test]
fn a_model_whose_weights_were_built_in_half_precision_is_not_cast_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    let config = r#"{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 256, "intermediate_size": 1024,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 8000, "max_position_embeddings": 512,
        "tie_word_embeddings": true, "hidden_act": "silu", "torch_dtype": "bfloat16"}"#;
    fs::write(&path, config).unwrap();
    let (_, answer) = json(&["plan", path.to_str().unwrap(), "--vram", "220MiB", "--batch", "8", "--seq", "128"]);
    let plans = answer["plans"].as_array().unwrap();
    assert!(!plans.is_empty());
    for plan in plans {
        assert_ne!(plan["group"], "smaller-dtype");
        assert!(plan["changes"].as_array().unwrap().iter().all(|change| change["trick"] != "smaller dtype"), "{plan}");
    }
}
