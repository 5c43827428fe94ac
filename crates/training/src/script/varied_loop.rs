//! A loop whose passes differ: where a model's way depends on random numbers or values, no two passes need go the same way. What one
//! frees does not fit what the next one asks for, so that more is reserved than by any pass alone.

use vramfit_graph::bind::Bound;

use super::{Action, Loop, Name, Pass, Script, training_loop};

/// The pass that has the weights and moves the inputs.
const FIRST: usize = 0;

/// The script of [`training_loop`] in which micro-batches go the ways of `bound` and its alternatives in turn, from way `start` on.
pub(crate) fn varied_loop<'m>(bound: &'m Bound<'m>, settings: &Loop, start: usize) -> Script<'m> {
    let mut script = training_loop(bound, settings);
    let Some(first) = script.passes.first().cloned() else { return script };
    script.passes.extend(bound.alternatives.iter().map(|bound| Pass { bound, ..first.clone() }));
    script.actions = in_turn(&script.actions, script.passes.len(), start);
    script
}

/// The script of [`training_loop`] in which each pass begins without what the model kept of the pass before: one that finds its cache
/// does not make a second one beside it.
pub(crate) fn loop_with_one_cache<'m>(bound: &'m Bound<'m>, settings: &Loop) -> Script<'m> {
    let script = training_loop(bound, settings);
    Script { actions: freeing_first(&script.actions), ..script }
}

fn freeing_first(actions: &[Action]) -> Vec<Action> {
    let freed = |action: &Action| match *action {
        Action::Forward { pass, .. } => Some(Action::Release { pass, name: Name::Kept }),
        _ => None,
    };
    actions.iter().flat_map(|action| freed(action).into_iter().chain([*action])).collect()
}

/// The actions with `ways` passes in turn instead of the only one.
fn in_turn(actions: &[Action], ways: usize, start: usize) -> Vec<Action> {
    let mut varied = Vec::with_capacity(actions.len() + 4 * ways);
    let mut now = start % ways;
    for &action in actions {
        match action {
            Action::MoveInputs { .. } => {
                varied.push(action);
                varied.extend((1..ways).map(|to| Action::ShareInputs { from: FIRST, to }));
            }
            Action::Forward { divides_loss, .. } => {
                varied.push(Action::Forward { pass: now, divides_loss });
                // The same names of the loop, which hold what the pass before bound.
                for pass in (0..ways).filter(|pass| *pass != now) {
                    let names = [Name::Outputs, Name::Loss, Name::Kept];
                    varied.extend(names.map(|name| Action::Release { pass, name }));
                }
            }
            Action::Backward { scaler, .. } => varied.push(Action::Backward { pass: now, scaler }),
            Action::Release { name, .. } => varied.push(Action::Release { pass: now, name }),
            Action::EndMicroBatch => {
                varied.push(action);
                now = (now + 1) % ways;
            }
            other => varied.push(other),
        }
    }
    varied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Phase;

    #[test]
    fn what_the_model_kept_goes_before_the_next_pass() {
        let actions =
            [Action::BeginMicroBatch, Action::Forward { pass: 0, divides_loss: false }, Action::EndMicroBatch];
        let text: Vec<String> = freeing_first(&actions).iter().map(Action::to_string).collect();
        assert_eq!(text, ["begin micro-batch", "release kept tensors of pass 0", "forward pass 0", "end micro-batch"]);
    }

    #[test]
    fn each_micro_batch_goes_the_next_way_and_frees_what_the_one_before_bound() {
        let micro_batch = [
            Action::BeginMicroBatch,
            Action::Forward { pass: 0, divides_loss: false },
            Action::EndPhase(Phase::Forward),
            Action::Backward { pass: 0, scaler: None },
            Action::EndMicroBatch,
        ];
        let loop_of_two = [Action::MoveInputs { pass: 0, micro_batches: 1 }]
            .into_iter()
            .chain(micro_batch)
            .chain(micro_batch)
            .collect::<Vec<_>>();
        let text: Vec<String> = in_turn(&loop_of_two, 2, 1).iter().map(Action::to_string).collect();
        let expected = [
            "move inputs of pass 0",
            "share inputs of pass 0 with pass 1",
            "begin micro-batch",
            "forward pass 1",
            "release outputs of pass 0",
            "release loss of pass 0",
            "release kept tensors of pass 0",
            "end of forward",
            "backward of pass 1",
            "end micro-batch",
            "begin micro-batch",
            "forward pass 0",
            "release outputs of pass 1",
            "release loss of pass 1",
            "release kept tensors of pass 1",
            "end of forward",
            "backward of pass 0",
            "end micro-batch",
        ];
        assert_eq!(text, expected);
    }
}
