//! `estimate` with a plan's settings gives the plan's peaks: every setting of a plan is a flag.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeSet;

use clap::{ArgAction, Args, Command};
use common::{capture, json, refusal};
use serde_json::Value;
use vramfit_engine::arguments::EstimateArguments;

/// The flags of `estimate` for the settings in an answer.
fn flags(settings: &Value) -> Vec<String> {
    let mut words = Vec::new();
    for (symbol, size) in settings["sizes"].as_object().unwrap() {
        words.extend(["--size".to_owned(), format!("{symbol}={size}")]);
    }
    match settings["precision"].as_str().unwrap() {
        "as-built" => {}
        precision => match precision.strip_prefix("amp-") {
            Some(dtype) => words.extend(["--amp".to_owned(), dtype.to_owned()]),
            None => words.extend(["--dtype".to_owned(), precision.to_owned()]),
        },
    }
    let is_spread = settings["parallel"] != "none";
    let said_otherwise = ["batch", "seq", "size", "dtype", "amp", "grad", "cudnn", "torch", "deepspeed-config"];
    for flag in EstimateArguments::augment_args(Command::new("estimate")).get_arguments() {
        let Some(name) = flag.get_long().filter(|name| !said_otherwise.contains(name)) else { continue };
        let Some(value) = settings.get(name.replace('-', "_")) else { continue };
        let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
        let is_absent = match (name, value) {
            (_, Value::Null) => true,
            ("lora" | "quantize", value) => value == "none",
            ("lora-dropout", value) => value.as_f64() == Some(0.0),
            ("loss", value) => value == "captured",
            (_, Value::Bool(is_on)) if is_switch => !is_on,
            (_, Value::String(text)) => text.is_empty(),
            _ => false,
        };
        if is_absent || flag.get_help_heading() == Some("Several GPUs") && !is_spread {
            continue;
        }
        words.push(format!("--{name}"));
        match value {
            _ if is_switch => {}
            Value::String(text) => words.push(text.clone()),
            value if name == "vram" => words.push(format!("{value}B")),
            value => words.push(value.to_string()),
        }
    }
    words
}

#[test]
fn estimate_with_a_plans_settings_gives_its_peaks() {
    let cases: [(&str, &[&str], u64, &str); 6] = [
        ("mlp-relu", &["--batch", "60000"], 90, "in-place"),
        ("mlp-relu", &["--batch", "60000", "--in-place", "--keep", "batch"], 80, "in-place"),
        ("bert-small", &["--batch", "32", "--seq", "128"], 60, "checkpoint"),
        ("resnet18", &["--batch", "32", "--zero-grad", "before-backward"], 60, "channels-last"),
        ("gpt2-small", &["--batch", "4", "--seq", "256", "--keep", "dtype,amp,batch,seq,optimizer"], 45, "quantize"),
        (
            "gpt2-small",
            &[
                "--batch",
                "2",
                "--seq",
                "64",
                "--lora",
                "16",
                "--lora-targets",
                "c_attn,c_proj",
                "--lora-dropout",
                "0.05",
                "--keep",
                "batch,seq",
            ],
            80,
            "lora",
        ),
    ];
    let mut seen = BTreeSet::new();
    for (name, more, percent, wanted) in cases {
        let (model, start) = (capture(name), ["--gpu", "H200", "--cudnn", "off"]);
        let ask = |command: &str, more: &[&str]| json(&[&[command, &model][..], &start, more].concat()).1;
        let in_place = more.iter().position(|word| *word == "--keep").unwrap_or(more.len());
        let needed = ask("estimate", &more[..in_place])["peak_reserved"].as_u64().unwrap();
        let vram = format!("{}B", needed / 100 * percent);
        let found = ask("plan", &[more, &["--vram", &vram, "--margin", "0"]].concat());
        let plans = found["plans"].as_array().unwrap();
        assert!(!plans.is_empty(), "{name} {more:?}");
        for plan in plans {
            let words = flags(&plan["settings"]);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let (_, again) = json(&[&["estimate", &model][..], &words, &["--cudnn", "off"]].concat());
            for key in ["peak_allocated", "peak_reserved"] {
                assert_eq!(plan[key], again[key], "{name}: {key} with {words:?}");
            }
            let has_wanted = words.contains(&format!("--{wanted}").as_str());
            seen.extend(has_wanted.then_some(wanted));
        }
    }
    assert!(seen.len() >= 4 && seen.contains("in-place"), "plans have only {seen:?}");
}

#[test]
fn activations_that_cannot_be_in_place_are_named() {
    for (model, more, words) in [
        ("gpt2-small", &[][..], "--in-place: the model has no activation module that supports inplace=True"),
        ("resnet18", &[], "activation modules can be: they are in place already"),
        ("mlp-relu", &["--checkpoint", "sequential:2"], "--in-place: found --checkpoint, needed none"),
    ] {
        let text = refusal(&[&["estimate", &capture(model), "--in-place"][..], more].concat());
        assert!(text.contains(words), "{model}: {text}");
    }
}
