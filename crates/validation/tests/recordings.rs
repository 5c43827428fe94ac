//! Every recording, against what PyTorch itself said of the run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::Settings;
use vramfit_replay::first_divergence;
use vramfit_report::memory_summary::memory_summary;
use vramfit_report::out_of_memory::{DeviceMemory, message};
use vramfit_validation::allocator::{answers, device, faithful, what_if};
use vramfit_validation::recordings::{Recording, names};

fn recordings() -> impl Iterator<Item = Recording> {
    names().unwrap().into_iter().map(|name| Recording::load(&name).unwrap())
}

#[test]
fn every_recording_replays_without_a_difference() {
    let mut count = 0;
    for recording in recordings() {
        let replay = faithful(&recording).unwrap();
        assert_eq!(replay.mismatches, 0, "{}: {:?}", recording.name, replay.first_mismatches);
        count += 1;
    }
    assert!(count >= 60, "only {count} recordings found");
}

#[test]
fn the_statistics_are_those_of_pytorch() {
    // How often empty_cache() was called without effect does not show in a recording.
    let is_not_recorded = |key: &str| key == "num_sync_all_streams";
    for recording in recordings().filter(Recording::is_complete) {
        let replay = faithful(&recording).unwrap();
        for (key, value) in replay.statistics.flat() {
            if !is_not_recorded(&key) {
                let reported = recording.report.stats[&key];
                assert_eq!(value as i64, reported, "{}: {key}", recording.name);
            }
        }
    }
}

#[test]
fn the_peaks_that_the_recorded_events_add_up_to_are_those_of_pytorch() {
    for recording in recordings().filter(Recording::is_complete) {
        let recorded = faithful(&recording).unwrap().recorded;
        let peaks = (recorded.peak_allocated, recorded.peak_reserved);
        assert_eq!(peaks, (recording.report.peak_allocated, recording.report.peak_reserved), "{}", recording.name);
    }
}

#[test]
fn the_summary_is_pytorchs_own_to_the_letter() {
    for recording in recordings().filter(Recording::is_complete) {
        let replay = faithful(&recording).unwrap();
        assert_eq!(memory_summary(&replay.statistics, 0), recording.report.summary, "{}", recording.name);
    }
}

#[test]
fn under_the_recorded_cap_every_release_and_failure_is_predicted() {
    for recording in recordings().filter(Recording::is_complete) {
        let settings = Settings::parse(&recording.report.alloc_conf).unwrap();
        let settings =
            Settings { cap: recording.report.cap_bytes, ..settings }.on_device(recording.report.total_memory);
        let divergence = first_divergence(device(&recording).unwrap(), &settings);
        assert_eq!(divergence, None, "{}", recording.name);
    }
}

#[test]
fn what_if_answers_lie_within_a_percent_of_the_measured_peak() {
    let answers = answers().unwrap();
    let strays: Vec<_> = answers.iter().filter(|answer| answer.error().abs() > 0.01).collect();
    println!("{strays:#?}");
    assert!(strays.is_empty());
}

#[test]
fn the_error_text_is_pytorchs_own() {
    let mut count = 0;
    for recording in recordings().filter(|recording| recording.is_complete()) {
        let Some(oom) = recording.report.oom.as_ref().filter(|oom| oom.r#type == "OutOfMemoryError") else { continue };
        let found = what_if(&recording, &recording.report.alloc_conf, recording.report.cap_bytes).unwrap();
        let error = found.refusals.last().copied().flatten().expect("the same allocation fails here");
        let text = message(&error, &DeviceMemory::default());
        // What only the device knows (its free memory, other processes) stands between the first sentence and the rest.
        let cut = text.match_indices(". ").nth(1).unwrap().0;
        let (first, rest) = (&text[..cut], &text[cut + 2..]);
        assert!(oom.text.starts_with(first), "{}: {first}\n{}", recording.name, oom.text);
        assert!(oom.text.ends_with(rest), "{}: {rest}\n{}", recording.name, oom.text);
        count += 1;
    }
    assert!(count >= 5, "only {count} recordings end in an error");
}
