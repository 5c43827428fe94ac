//! Where steps begin and end.

use vramfit_trace::snapshot::{Action, Annotation};

use super::{explained, recorded};
use crate::steps::Basis;
use crate::synthetic::Training;

#[test]
fn every_turn_of_a_training_loop_is_a_step() {
    let snapshot = recorded(&Training::default());
    let steps = explained(&snapshot).steps;
    assert_eq!((steps.list.len(), steps.basis, steps.is_training), (6, Basis::Phases, true));
    for step in &steps.list {
        let event = snapshot.devices[0].events[step.first as usize];
        let owner = snapshot.stacks.frames(event.stack).next().map(|frame| frame.line);
        assert_eq!((event.action, owner), (Action::Alloc, Some(21)), "a step begins with its batch");
    }
    assert!(steps.list.windows(2).all(|pair| pair[0].end == pair[1].first), "one follows the other");
}

#[test]
fn an_evaluation_between_epochs_is_no_part_of_any_step() {
    let training = Training { epochs: 2, steps: 4, evaluation: 3, ..Training::default() };
    let snapshot = recorded(&training);
    let steps = explained(&snapshot).steps;
    assert_eq!(steps.list.len(), 8);
    for step in &steps.list {
        for event in &snapshot.devices[0].events[step.first as usize..step.end as usize] {
            let is_evaluation =
                snapshot.stacks.frames(event.stack).any(|frame| snapshot.strings.get(frame.function) == "validate");
            assert!(!is_evaluation);
        }
    }
}

#[test]
fn micro_batches_make_one_step_where_the_optimizer_shows() {
    let training = Training { accumulate: 4, is_foreach: true, ..Training::default() };
    let steps = explained(&recorded(&training)).steps;
    assert_eq!((steps.list.len(), steps.passes), (6, 4));
}

#[test]
fn micro_batches_make_one_step_where_only_the_gradients_show_it() {
    let training = Training { accumulate: 3, is_foreach: false, ..Training::default() };
    let steps = explained(&recorded(&training)).steps;
    assert_eq!((steps.list.len(), steps.passes), (6, 3));
}

#[test]
fn sizes_that_vary_hide_no_step() {
    // Without frames, the first step makes what stays and the last one's tensors have not been freed: their order shows neither.
    for (has_frames, least) in [(true, 12), (false, 10)] {
        let training = Training { varies: true, has_frames, steps: 12, ..Training::default() };
        let steps = explained(&recorded(&training)).steps;
        assert!(steps.list.len() >= least, "{} steps, frames: {has_frames}", steps.list.len());
    }
}

#[test]
fn a_recording_without_frames_shows_its_steps_by_repetition() {
    let training = Training { has_frames: false, is_foreach: true, ..Training::default() };
    let steps = explained(&recorded(&training)).steps;
    assert_eq!((steps.list.len(), steps.basis), (6, Basis::Period));
}

#[test]
fn a_recording_that_starts_late_shows_its_steps() {
    for has_frames in [true, false] {
        let training = Training { unrecorded: 2, has_frames, is_foreach: true, ..Training::default() };
        let explanation = explained(&recorded(&training));
        assert!(explanation.history.earlier > 0);
        assert_eq!(explanation.steps.list.len(), 6, "frames: {has_frames}");
    }
}

#[test]
fn steps_that_the_profiler_has_marked_are_taken_as_marked() {
    let mut snapshot = recorded(&Training::default());
    let times: Vec<i64> = snapshot.devices[0].events.iter().map(|event| event.time_us).collect();
    for (number, bounds) in [(10, 60), (60, 110), (110, 160)].into_iter().enumerate() {
        let name = snapshot.strings.intern(&format!("ProfilerStep#{number}"));
        for (stage, at) in [("START", bounds.0), ("END", bounds.1)] {
            let stage = snapshot.strings.intern(stage);
            snapshot.annotations.push(Annotation { device: 0, stage, name, time_us: times[at] });
        }
    }
    let steps = explained(&snapshot).steps;
    assert_eq!(steps.basis, Basis::Annotations);
    let bounds: Vec<(u32, u32)> = steps.list.iter().map(|step| (step.first, step.end)).collect();
    assert_eq!(bounds, [(10, 60), (60, 110), (110, 160)]);
}

#[test]
fn without_frames_the_optimizers_marks_tell_the_steps() {
    let mut snapshot = recorded(&Training { has_frames: false, ..Training::default() });
    let times: Vec<i64> = snapshot.devices[0].events.iter().map(|event| event.time_us).collect();
    for (name, begin, end) in
        [("forward", 10, 12), ("Optimizer.step#Adam.step", 50, 60), ("Optimizer.step#Adam.step", 100, 110)]
    {
        let name = snapshot.strings.intern(name);
        for (stage, at) in [("START", begin), ("END", end)] {
            let stage = snapshot.strings.intern(stage);
            snapshot.annotations.push(Annotation { device: 0, stage, name, time_us: times[at] });
        }
    }
    let steps = explained(&snapshot).steps;
    let bounds: Vec<(u32, u32)> = steps.list.iter().map(|step| (step.first, step.end)).collect();
    assert_eq!((steps.basis, &bounds[..]), (Basis::Annotations, &[(10, 60), (60, 110)][..]));
}
