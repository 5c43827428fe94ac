//! What given lines cost.

use super::{MIB, explained, recorded};
use crate::cost::{Cost, Costs, Lines, Subject};
use crate::synthetic::{Kept, Program, Training};

fn lines(first: u32, last: u32) -> Lines {
    Lines { file: "train.py".into(), first, last }
}

/// The loop of the synthetic training: data, forward pass, loss, update.
fn training_loop() -> Vec<Lines> {
    [21, 23, 24, 26].map(|line| lines(line, line)).into()
}

fn cost(training: &Training, subject: &Subject) -> Option<Cost> {
    let snapshot = recorded(training);
    Costs::new(&snapshot, &explained(&snapshot)).of(subject)
}

#[test]
fn a_kept_output_costs_its_bytes_in_every_iteration_and_at_the_peak() {
    let training = Training { kept: Kept::Outputs, steps: 8, ..Training::default() };
    for body in [training_loop(), Vec::new()] {
        let subject = Subject::Kept { made: vec![lines(23, 23)], body };
        // What the last two iterations made may still be in a variable.
        let expected = Cost { bytes: 6 * 6 * MIB, each: Some(6 * MIB), peak_reduction: Some(6 * 6 * MIB) };
        assert_eq!(cost(&training, &subject), Some(expected));
    }
}

#[test]
fn what_a_loop_keeps_once_is_not_what_it_keeps_in_every_iteration() {
    // The first call of a library makes its workspace, with the stack of the kept outputs.
    let mut program = Program::new();
    let stack = program.stack(&[("train.py", 23, "train")]);
    let other = program.stack(&[("train.py", 24, "train")]);
    program.allocate(MIB, stack);
    for _ in 0..8 {
        program.allocate(2 * MIB, stack);
        let freed = program.allocate(MIB, other);
        program.free(freed);
    }
    let snapshot = program.snapshot();
    let explanation = explained(&snapshot);
    let subject = Subject::Kept { made: vec![lines(23, 23)], body: training_loop() };
    let found = Costs::new(&snapshot, &explanation).of(&subject).expect("eight iterations can be judged");
    assert_eq!((found.bytes, found.each), (6 * 2 * MIB, Some(2 * MIB)));
}

#[test]
fn lines_that_keep_nothing_cost_nothing() {
    let training = Training { kept: Kept::Outputs, steps: 8, ..Training::default() };
    let nothing = Some(Cost { bytes: 0, each: Some(0), peak_reduction: Some(0) });
    let elsewhere = Subject::Kept { made: vec![lines(24, 24)], body: training_loop() };
    assert_eq!(cost(&training, &elsewhere), nothing);
    let clean = Subject::Kept { made: vec![lines(20, 30)], body: training_loop() };
    assert_eq!(cost(&Training { steps: 8, ..Training::default() }, &clean), nothing);
}

#[test]
fn a_short_queue_costs_its_length_and_not_more() {
    let training = Training { kept: Kept::LastOutputs(4), steps: 12, ..Training::default() };
    let found = cost(&training, &Subject::Kept { made: vec![lines(23, 23)], body: training_loop() });
    let found = found.expect("twelve iterations can be judged");
    assert_eq!((found.bytes, found.each), (3 * 6 * MIB, Some(6 * MIB)));
}

#[test]
fn a_whole_graph_is_what_all_lines_of_the_loop_keep() {
    let training = Training { kept: Kept::Graph, steps: 8, ..Training::default() };
    let found = cost(&training, &Subject::Kept { made: vec![lines(20, 30)], body: training_loop() });
    // Data, four layers, and what the loss saves.
    assert_eq!(found.and_then(|cost| cost.each), Some(6 * 6 * MIB));
}

#[test]
fn two_iterations_say_nothing_about_what_a_loop_keeps() {
    let training = Training { kept: Kept::Outputs, steps: 2, ..Training::default() };
    assert_eq!(cost(&training, &Subject::Kept { made: vec![lines(23, 23)], body: training_loop() }), None);
}

#[test]
fn a_loop_of_one_statement_has_iterations_too() {
    let training = Training { evaluation: 6, keeps_predictions: true, ..Training::default() };
    let found = cost(&training, &Subject::Kept { made: vec![lines(40, 40)], body: vec![lines(40, 40)] });
    assert_eq!(found.and_then(|cost| cost.each), Some(6 * MIB));
}

#[test]
fn a_call_with_autograd_leaves_its_activations() {
    let call = Subject::Passes(lines(40, 40));
    let with = Training { evaluation: 4, has_no_grad: false, ..Training::default() };
    let found = cost(&with, &call).expect("it ran");
    assert_eq!((found.each, found.peak_reduction), (Some(4 * 6 * MIB), None));
    let without = Training { evaluation: 4, ..Training::default() };
    assert_eq!(cost(&without, &call).and_then(|cost| cost.each), Some(6 * MIB));
    assert_eq!(cost(&Training::default(), &call), None);
}

#[test]
fn gradients_cost_something_only_where_they_are_held_through_a_forward_pass() {
    let found = cost(&Training::default(), &Subject::Gradients).expect("there are steps");
    assert_eq!((found.bytes, found.peak_reduction), (0, Some(0)));
    let late = Training { zeroes_late: true, ..Training::default() };
    let found = cost(&late, &Subject::Gradients).expect("there are steps");
    // The peak is in the backward pass.
    assert_eq!((found.bytes, found.peak_reduction), (8 * MIB, Some(0)));
    let small = Training { activation: 2 * MIB, ..late };
    let found = cost(&small, &Subject::Gradients).expect("there are steps");
    // The backward pass adds 6 MiB to what the forward pass holds, less than the gradients. The last step's loss, 512 bytes, is
    // freed between the two.
    assert_eq!((found.bytes, found.peak_reduction), (8 * MIB, Some(2 * MIB + 512)));
    assert_eq!(cost(&Training { steps: 1, ..Training::default() }, &Subject::Gradients), None);
}

#[test]
fn what_a_line_makes_is_counted_while_it_lives() {
    let found = cost(&Training::default(), &Subject::Made(lines(90, 90))).expect("it ran");
    assert!(found.bytes >= 4 * 2 * MIB, "{found:?}");
    let snapshot = recorded(&Training::default());
    let explanation = explained(&snapshot);
    let costs = Costs::new(&snapshot, &explanation);
    assert!(costs.has_run(&lines(22, 23)) && !costs.has_run(&lines(40, 50)));
    assert!(costs.files().contains(&"train.py"));
    let elsewhere = Lines { file: "other.py".into(), first: 1, last: 99 };
    assert!(!costs.has_run(&elsewhere));
}
