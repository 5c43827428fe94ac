//! Leaks and what only looks like one.

use vramfit_allocator::Settings;

use super::{MIB, explained, found, kinds, place, recorded};
use crate::findings::{Details, Kept as What, Leak};
use crate::synthetic::{Kept, Program, Training};
use crate::{Explanation, Finding};

fn only_leak(explanation: &Explanation) -> (&Finding, &Leak) {
    let leaks = found(explanation, "leak");
    let [finding] = leaks[..] else { panic!("one leak, found {:?}", kinds(explanation)) };
    let Details::Leak(leak) = &finding.details else { panic!("a leak") };
    (finding, leak)
}

/// How much more is held after a step than after the one before, in the middle of the recording.
fn growth(explanation: &Explanation) -> u64 {
    let steps = &explanation.steps.list;
    let after = |number: usize| explanation.history.allocated[steps[number].end as usize - 1];
    after(3) - after(2)
}

#[test]
fn a_kept_graph_is_a_leak_of_all_its_activations_to_the_byte() {
    let snapshot = recorded(&Training { kept: Kept::Graph, steps: 8, ..Training::default() });
    let explanation = explained(&snapshot);
    let (finding, leak) = only_leak(&explanation);
    assert_eq!((leak.kept, leak.steps), (What::Graph, 8));
    assert_eq!(finding.per_step, Some(growth(&explanation)));
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:23 in train"));
}

#[test]
fn kept_outputs_are_a_leak_of_one_block_a_step() {
    let snapshot = recorded(&Training { kept: Kept::Outputs, steps: 8, ..Training::default() });
    let explanation = explained(&snapshot);
    let (finding, leak) = only_leak(&explanation);
    assert_eq!((leak.kept, leak.blocks_per_step, leak.released), (What::Outputs, 1, None));
    assert_eq!(finding.per_step, Some(growth(&explanation)));
    assert_eq!(finding.bytes, 8 * growth(&explanation));
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:23 in train"));
    assert_eq!(place(&snapshot, finding.made_at).as_deref(), Some("model.py:30 in forward"));
}

#[test]
fn a_leak_is_found_where_sizes_vary_and_where_the_recording_starts_late() {
    for training in [
        Training { kept: Kept::Outputs, varies: true, steps: 12, ..Training::default() },
        Training { kept: Kept::Outputs, unrecorded: 3, ..Training::default() },
        Training { kept: Kept::Graph, epochs: 2, evaluation: 4, ..Training::default() },
        Training { kept: Kept::Outputs, accumulate: 2, is_foreach: true, ..Training::default() },
    ] {
        let explanation = explained(&recorded(&training));
        assert_eq!(found(&explanation, "leak").len(), 1, "{training:?}");
    }
}

#[test]
fn without_frames_a_leak_has_no_place_but_its_bytes_are_right() {
    for (kept, what) in [(Kept::Graph, What::Graph), (Kept::Outputs, What::Tensors)] {
        let training = Training { kept, has_frames: false, is_foreach: true, steps: 8, ..Training::default() };
        let explanation = explained(&recorded(&training));
        let (finding, leak) = only_leak(&explanation);
        assert_eq!((finding.place, leak.kept), (None, what));
        assert_eq!(finding.per_step, Some(growth(&explanation)));
    }
}

#[test]
fn outputs_piled_up_over_an_epoch_are_a_leak_that_is_released() {
    let training = Training { kept: Kept::OutputsOfEpoch, steps: 8, epochs: 2, ..Training::default() };
    let explanation = explained(&recorded(&training));
    let (_, leak) = only_leak(&explanation);
    assert!(leak.released.is_some());
}

#[test]
fn an_ordinary_training_leaks_nothing() {
    for training in [
        Training::default(),
        Training { steps: 3, ..Training::default() },
        Training { varies: true, steps: 10, ..Training::default() },
        Training { is_foreach: true, accumulate: 4, ..Training::default() },
        Training { has_frames: false, is_foreach: true, steps: 10, ..Training::default() },
        Training { has_frames: false, varies: true, steps: 10, ..Training::default() },
        Training { unrecorded: 2, ..Training::default() },
        Training { epochs: 3, evaluation: 4, ..Training::default() },
    ] {
        let explanation = explained(&recorded(&training));
        assert!(found(&explanation, "leak").is_empty(), "{training:?}: {:?}", kinds(&explanation));
        assert!(found(&explanation, "graph-kept").is_empty(), "{training:?}: {:?}", kinds(&explanation));
    }
}

#[test]
fn a_queue_of_fixed_length_is_no_leak() {
    for most in [2, 4, 6] {
        let training = Training { kept: Kept::LastOutputs(most), steps: 12, ..Training::default() };
        let explanation = explained(&recorded(&training));
        assert!(found(&explanation, "leak").is_empty(), "the last {most}");
    }
}

#[test]
fn a_list_of_scalars_is_not_worth_a_word() {
    let training = Training { activation: 512, parameters: 8 * MIB, kept: Kept::Outputs, ..Training::default() };
    let explanation = explained(&recorded(&training));
    assert!(found(&explanation, "leak").is_empty());
}

#[test]
fn the_layers_of_a_first_forward_pass_are_no_leak() {
    for has_frames in [true, false] {
        let settings = Settings { cap: Some(256 * MIB), ..Settings::default() };
        let mut program = Program::under(settings);
        let training = Training { layers: 40, has_frames, ..Training::default() };
        assert_eq!(training.run(&mut program), None, "it runs out of memory");
        let explanation = explained(&program.snapshot());
        assert_eq!(kinds(&explanation), ["oom"], "frames: {has_frames}");
    }
}

#[test]
fn a_slow_leak_beside_a_large_peak_is_found_by_what_it_becomes() {
    let heavy =
        Training { parameters: 100 * MIB, activation: 22 << 10, steps: 20, kept: Kept::Outputs, ..Training::default() };
    let snapshot = recorded(&heavy);
    let explanation = explained(&snapshot);
    let (finding, leak) = only_leak(&explanation);
    assert!(finding.bytes < MIB && explanation.peak.allocated > 500 * MIB);
    assert_eq!((leak.steps, finding.per_step), (20, Some(growth(&explanation))));
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:23 in train"));
    // Half a KiB a step, as of a list of losses, is 50 MB after 100,000 steps.
    let light = Training { activation: 512, ..heavy.clone() };
    assert!(found(&explained(&recorded(&light)), "leak").is_empty());
    // And five steps prove nothing.
    let short = Training { steps: 5, ..heavy };
    assert!(found(&explained(&recorded(&short)), "leak").is_empty());
}
