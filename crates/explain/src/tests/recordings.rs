//! Real recordings with parts taken away: frames, marks, the beginning. What is found must not depend on luck.

use std::path::Path;

use vramfit_replay::recorded_settings;
use vramfit_trace::read::read_file;
use vramfit_trace::snapshot::{Snapshot, StackId};

use super::found;
use crate::{Explanation, explain};

fn recordings() -> Vec<(String, Snapshot)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../validation/recordings");
    let mut all: Vec<(String, Snapshot)> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if let Some(name) = name.strip_suffix(".pickle.gz") {
            all.push((name.into(), read_file(&path, &mut |_, _| {}).unwrap()));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn without_frames(mut snapshot: Snapshot) -> Snapshot {
    for device in &mut snapshot.devices {
        for event in &mut device.events {
            event.stack = StackId::NONE;
        }
        for block in device.segments.iter_mut().flat_map(|segment| &mut segment.blocks) {
            block.stack = StackId::NONE;
        }
    }
    snapshot
}

fn without_marks(mut snapshot: Snapshot) -> Snapshot {
    snapshot.annotations.clear();
    snapshot
}

/// As a ring buffer leaves it that has lost its beginning.
fn without_beginning(mut snapshot: Snapshot, share: f64) -> Snapshot {
    for device in &mut snapshot.devices {
        let lost = (device.events.len() as f64 * share) as usize;
        device.events.drain(..lost);
    }
    snapshot
}

fn altered(snapshot: &Snapshot) -> Vec<(&'static str, Snapshot)> {
    let late = |share| without_beginning(snapshot.clone(), share);
    vec![
        ("no marks", without_marks(snapshot.clone())),
        ("no frames", without_frames(snapshot.clone())),
        ("no frames, no marks", without_frames(without_marks(snapshot.clone()))),
        ("late", late(0.25)),
        ("later, no marks", without_marks(late(0.4))),
        ("late, no frames, no marks", without_frames(without_marks(late(0.25)))),
    ]
}

fn explained(snapshot: &Snapshot) -> Explanation {
    explain(snapshot, 0, &recorded_settings(snapshot).unwrap(), None)
}

#[test]
fn no_ordinary_training_is_blamed_whatever_its_recording_lacks() {
    let incidents = ["leak", "eval_graph", "no_frames", "oom_fragmented", "oom_leak"];
    for (name, snapshot) in recordings() {
        if incidents.iter().any(|incident| name.starts_with(incident)) {
            continue;
        }
        for (lack, snapshot) in altered(&snapshot) {
            let explanation = explained(&snapshot);
            for kind in ["leak", "graph-kept"] {
                assert!(found(&explanation, kind).is_empty(), "{name}, {lack}: {:?}", found(&explanation, kind));
            }
        }
    }
}

#[test]
fn leaks_are_found_to_the_byte_whatever_their_recording_lacks() {
    for (name, per_step) in [
        ("leak_graph", 109_216_256),
        ("leak_outputs", 33_554_432),
        ("leak_both", 41_943_040 + 8_388_608),
        ("no_frames", 16_777_216),
        ("oom_leak", 32_768_000),
    ] {
        let (_, snapshot) = recordings().into_iter().find(|(other, _)| other == name).unwrap();
        for (lack, snapshot) in altered(&snapshot) {
            let explanation = explained(&snapshot);
            let sum: u64 = found(&explanation, "leak").iter().filter_map(|leak| leak.per_step).sum();
            assert_eq!(sum, per_step, "{name}, {lack}");
        }
    }
}

#[test]
fn replays_differ_from_no_recording() {
    for (name, snapshot) in recordings() {
        assert_eq!(explained(&snapshot).history.mismatches, 0, "{name}");
    }
}
