//! `vramfit explain` from the outside, on recordings of real trainings: incidents are found, ordinary runs are not blamed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::path::{Path, PathBuf};

use serde_json::Value;

use common::{json, vramfit};

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/recordings")
}

fn explain(name: &str, more: &[&str]) -> (i32, Value) {
    let path = recordings().join(format!("{name}.pickle.gz"));
    json(&[&["explain", path.to_str().unwrap()][..], more].concat())
}

fn of_kind<'a>(report: &'a Value, kind: &str) -> Vec<&'a Value> {
    report["findings"].as_array().unwrap().iter().filter(|finding| finding["kind"] == kind).collect()
}

#[test]
fn a_kept_graph_is_found_with_its_line_and_its_bytes_a_step() {
    let (code, report) = explain("leak_graph", &[]);
    assert_eq!(code, 1);
    let [leak] = of_kind(&report, "leak")[..] else { panic!("{report:#}") };
    assert_eq!((leak["kept"].as_str(), leak["per_step"].as_u64()), (Some("graph"), Some(109_216_256)));
    assert_eq!(leak["where"], "cases/leak_graph.py:24 in train");
}

#[test]
fn kept_outputs_are_told_from_a_kept_graph() {
    let (_, report) = explain("leak_outputs", &[]);
    let [leak] = of_kind(&report, "leak")[..] else { panic!("{report:#}") };
    assert_eq!((leak["kept"].as_str(), leak["per_step"].as_u64()), (Some("outputs"), Some(33_554_432)));
    assert_eq!(leak["bytes"], 8 * 33_554_432u64);
}

#[test]
fn two_leaks_at_once_are_two_findings() {
    let (_, report) = explain("leak_both", &[]);
    let leaks: Vec<_> =
        of_kind(&report, "leak").iter().map(|leak| (leak["kept"].clone(), leak["per_step"].clone())).collect();
    assert_eq!(leaks, [("graph".into(), 41_943_040.into()), ("outputs".into(), 8_388_608.into())]);
}

#[test]
fn without_frames_a_leak_is_found_and_has_no_place() {
    let (_, report) = explain("no_frames", &[]);
    let [leak] = of_kind(&report, "leak")[..] else { panic!("{report:#}") };
    assert_eq!((&leak["where"], leak["per_step"].as_u64()), (&Value::Null, Some(16_777_216)));
}

#[test]
fn an_evaluation_without_no_grad_is_found_with_the_line_that_calls_the_model() {
    let (_, report) = explain("eval_graph", &[]);
    let [graph] = of_kind(&report, "graph-kept")[..] else { panic!("{report:#}") };
    assert_eq!(graph["where"], "cases/eval_graph.py:39 in validate");
    assert_eq!(graph["passes"], 12);
    assert!(of_kind(&report, "leak").is_empty());
}

#[test]
fn spikes_are_named_by_line_and_by_cause() {
    let (code, report) = explain("spike_logits", &[]);
    let [spike] = of_kind(&report, "spike")[..] else { panic!("{report:#}") };
    assert_eq!((code, &spike["note"]), (0, &true.into()), "nothing is wrong: {report:#}");
    assert!(spike["where"].as_str().unwrap().ends_with("in compute_loss"));
    let (code, report) = explain("spike_optimizer", &[]);
    assert_eq!(code, 0);
    let [spike] = of_kind(&report, "spike")[..] else { panic!("{report:#}") };
    assert_eq!(spike["phase"], "optimizer");
    assert!(spike["advice"].as_str().unwrap().contains("fused=True"));
}

#[test]
fn a_fragmented_failure_names_the_setting_that_lets_it_through() {
    for name in ["oom_fragmented", "oom_fragmented.chosen"] {
        let (code, report) = explain(name, &[]);
        assert_eq!(code, 1);
        let [oom] = of_kind(&report, "oom")[..] else { panic!("{report:#}") };
        assert_eq!(oom["cause"], "fragmented");
        assert_eq!(oom["other_settings"][0]["alloc_conf"], "expandable_segments:True");
        assert_eq!(oom["other_settings"][0]["served"], true, "{name}");
        assert_eq!(of_kind(&report, "fragmentation").len(), 1, "{name}");
    }
}

#[test]
fn a_model_that_is_too_big_has_little_to_spare_under_any_setting() {
    let (_, report) = explain("oom_plain", &["--vram", "700MiB"]);
    let [oom] = of_kind(&report, "oom")[..] else { panic!("{report:#}") };
    assert_eq!((&oom["limit"]["given"], &oom["limit"]["least"]), (&Value::Bool(true), &Value::from(700u64 << 20)));
    assert!(oom["spare"].as_u64().unwrap() < 2 * oom["asked"].as_u64().unwrap(), "{oom:#}");
    assert_eq!(oom["where"], "cases/oom_plain.py:21 in train");
}

#[test]
fn where_no_setting_helps_that_is_said() {
    let (_, report) = explain("lstm.cap-low", &[]);
    let [oom] = of_kind(&report, "oom")[..] else { panic!("{report:#}") };
    let settings = oom["other_settings"].as_array().unwrap();
    assert!(settings.iter().all(|setting| setting["served"] == false), "{settings:?}");
    assert!(oom["advice"].as_str().unwrap().contains("tried by replay"), "{oom:#}");
}

#[test]
fn no_ordinary_training_is_blamed_for_a_leak_or_a_kept_graph() {
    let mut looked_at = 0;
    for entry in std::fs::read_dir(recordings()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".pickle.gz") else { continue };
        let is_incident = ["leak", "eval_graph", "no_frames", "oom_fragmented", "oom_leak"];
        if is_incident.iter().any(|incident| name.starts_with(incident)) {
            continue;
        }
        let (_, report) = explain(name, &[]);
        for kind in ["leak", "graph-kept"] {
            assert!(of_kind(&report, kind).is_empty(), "{name}: {:#}", of_kind(&report, kind)[0]);
        }
        looked_at += 1;
    }
    assert!(looked_at >= 20, "{looked_at} recordings");
}

#[test]
fn the_peak_is_the_one_pytorch_counted_and_its_holders_add_up() {
    let (code, report) = explain("annotated", &[]);
    assert_eq!((code, &report["findings"]), (0, &Value::Array(Vec::new())));
    let statistics = std::fs::read(recordings().join("annotated.json")).unwrap();
    let statistics: Value = serde_json::from_slice(&statistics).unwrap();
    assert_eq!(report["peak"]["allocated"], statistics["peak_allocated"]);
    assert_eq!(report["reserved_peak"]["reserved"], statistics["peak_reserved"]);
    let holders = report["peak"]["holders"].as_array().unwrap();
    let held: u64 = holders.iter().map(|holder| holder["bytes"].as_u64().unwrap()).sum();
    assert_eq!(report["peak"]["allocated"], held);
}

#[test]
fn the_text_fits_80_columns() {
    for name in ["leak_graph", "oom_fragmented", "varying", "mlp", "no_frames", "llama"] {
        let path = recordings().join(format!("{name}.pickle.gz"));
        let (_, text, _) = vramfit(&["explain", path.to_str().unwrap()]);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
        assert!(text.lines().count() <= 45, "{name}: {} lines", text.lines().count());
    }
}

#[test]
fn a_page_is_written_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("vramfit-explain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = folder.join("page.html");
    explain("annotated", &["--html", page.to_str().unwrap()]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    let recording = recordings().join("annotated.pickle.gz");
    let nowhere = folder.join("missing").join("page.html");
    let (code, _, err) = vramfit(&["explain", recording.to_str().unwrap(), "--html", nowhere.to_str().unwrap()]);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: ") && err.contains("missing"), "{err}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing half-written is left behind");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn bad_input_is_one_clear_error() {
    let (code, out, err) = vramfit(&["explain", "no such file"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.starts_with("error: no such file: "), "{err}");
    let (code, _, err) = vramfit(&["explain", "no such file", "--vram", "lots"]);
    assert_eq!(code, 2);
    assert!(err.contains("found size `lots`"), "{err}");
}
