//! Recording: runs a script on a simulated process and keeps its requests as a [`Program`].
//!
//! Steps and micro-batches that would request the same again are repeated or copied instead of simulated.

mod derived_step;
mod micro_batches;
mod state;

use std::sync::Arc;

use vramfit_eager::autograd::Visits;
use vramfit_eager::forward::UnknownModule;
use vramfit_eager::machine::Machine;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::Origin;

use crate::process::{Process, kept_by_model, shared};
use crate::program::{Program, Repeat};
use crate::report::Phase;
use crate::script::{Action, Loop, Script, loop_with_one_cache, training_loop, varied_loop};
use crate::shortcuts::Shortcuts;
use derived_step::{FirstStep, StepParts};
use micro_batches::run_step;
use state::State;

/// A training goes on after the steps that are reported. So many more are followed at most.
pub(crate) const LATER_STEPS: u32 = 20;

/// Micro-batches in the script of a loop whose first pass alone is run: one more says that the batch is split.
const FIRST: u32 = 2;

/// The requests of a loop over one captured pass.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn record(bound: &Bound<'_>, settings: &Loop, machine: Machine) -> Result<Program, UnknownModule> {
    record_script(&training_loop(bound, settings), machine, Shortcuts::ALL)
}

/// Whether the model has what the settings name.
///
/// # Errors
/// What it does not have.
pub fn check(bound: &Bound<'_>, settings: &Loop) -> Result<(), UnknownModule> {
    let script = training_loop(bound, &settings.shortened(FIRST));
    script.passes.iter().try_for_each(|pass| shared(pass, script.plans.assumption).map(drop))
}

/// The requests of a loop that goes on after the steps that are reported: [`Program::run_on`] follows it further.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub(crate) fn record_on(bound: &Bound<'_>, settings: &Loop, machine: Machine) -> Result<Program, UnknownModule> {
    let program = record(bound, settings, machine)?;
    if !settings.goes_on || bound.model.origin == Origin::Script {
        return Ok(Program { later_steps: 0, ..program });
    }
    if program.possible_later_steps() >= LATER_STEPS {
        return Ok(Program { later_steps: LATER_STEPS, ..program });
    }
    let longer = Loop { steps: settings.steps + LATER_STEPS, ..settings.clone() };
    let continued = Some(Arc::new(record(bound, &longer, machine)?));
    Ok(Program { continued, ..program })
}

/// The requests of a loop whose micro-batches go the ways of a pass and of its alternatives in turn, from way `start` on.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub(crate) fn record_varied(
    bound: &Bound<'_>,
    settings: &Loop,
    machine: Machine,
    start: usize,
) -> Result<Program, UnknownModule> {
    record_script(&varied_loop(bound, settings, start), machine, Shortcuts::ALL)
}

/// The requests of a loop in which no pass finds what the model kept of the one before; `None` where it keeps nothing.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub(crate) fn record_with_one_cache(
    bound: &Bound<'_>,
    settings: &Loop,
    machine: Machine,
) -> Result<Option<Program>, UnknownModule> {
    if kept_by_model(bound).next().is_none() {
        return Ok(None);
    }
    // In a derived step names free what they hold where they are bound again.
    let shortcuts = Shortcuts { derived_step: false, ..Shortcuts::ALL };
    record_script(&loop_with_one_cache(bound, settings), machine, shortcuts).map(Some)
}

/// The requests of a loop up to the end of its first forward pass.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn record_forward(bound: &Bound<'_>, settings: &Loop, machine: Machine) -> Result<Program, UnknownModule> {
    let script = training_loop(bound, &settings.shortened(FIRST));
    let mut process = Process::new(&script, machine)?;
    process.run_all(script.until(&[Phase::Forward, Phase::Eval]));
    Ok(process.finish(None))
}

/// Which calls the first forward and backward pass of a loop run, and what they save.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn visit(bound: &Bound<'_>, settings: &Loop, machine: Machine) -> Result<Visits, UnknownModule> {
    let script = training_loop(bound, &settings.shortened(FIRST));
    let mut process = Process::new(&script, machine)?;
    process.note_visits();
    process.run_all(script.until(&[Phase::Backward, Phase::Eval]));
    Ok(process.take_visits())
}

/// The requests of a script.
///
/// # Errors
/// A model has no module that is to be checkpointed.
pub fn record_script(script: &Script<'_>, machine: Machine, shortcuts: Shortcuts) -> Result<Program, UnknownModule> {
    let program = match record_steps(script, machine, shortcuts)? {
        Some(program) => program,
        None => record_steps(script, machine, Shortcuts { derived_step: false, ..shortcuts })?.unwrap_or_default(),
    };
    Ok(Program { answers_steady_state: shortcuts.steady_state, ..program })
}

/// `None` where the second step was to be derived from the first and turned out to differ.
fn record_steps(script: &Script<'_>, machine: Machine, shortcuts: Shortcuts) -> Result<Option<Program>, UnknownModule> {
    let mut process = Process::new(script, machine)?;
    let (setup, steps) = script.sections();
    process.run_all(setup);
    let mut before: Option<State> = None;
    for (index, &actions) in steps.iter().enumerate() {
        let following = &steps[index + 1..];
        let can_repeat =
            shortcuts.repeated_steps && !following.is_empty() && following.iter().all(|step| *step == actions);
        let parts =
            if index == 0 && can_repeat && shortcuts.derived_step { StepParts::of(script, actions) } else { None };
        let start = process.position();
        if let Some(parts) = parts {
            let first = FirstStep::run(&mut process, parts, shortcuts.copied_micro_batches);
            if updates_alike(&process, actions, 1, following.len())
                && let Some(first) = first.finished(&process)
            {
                let possible = steps_alike(&process, actions, 1, following.len());
                let repeat = first.derive_second(&mut process, following.len(), possible);
                return Ok(repeat.map(|repeat| process.finish(repeat)));
            }
        } else {
            run_step(&mut process, actions, shortcuts.copied_micro_batches);
        }
        let after = if can_repeat { State::of(&process) } else { None };
        if let (Some(before), Some(after)) = (&before, &after)
            && before.is_like(after)
            && updates_alike(&process, actions, 0, following.len())
        {
            let (before, after, next_id) = (before.ids().to_vec(), after.ids().to_vec(), process.position().id);
            let (count, possible) = (following.len() as u32, steps_alike(&process, actions, 0, following.len()) as u32);
            let repeat = Repeat { count, possible, start, next_id, before, after };
            return Ok(Some(process.finish(Some(repeat))));
        }
        before = after;
    }
    Ok(Some(process.finish(None)))
}

/// How many more steps with these actions have updates that allocate the same; at least `following`, for which that is known.
fn steps_alike(process: &Process<'_>, actions: &[Action], later: u32, following: usize) -> usize {
    let alike = |steps: &usize| updates_alike(process, actions, later, *steps);
    (following..=following + LATER_STEPS as usize).take_while(alike).last().unwrap_or(following)
}

/// Whether all updates of `following` more steps with these actions allocate the same as those of the last step, or of the
/// one that is `later` steps after it.
fn updates_alike(process: &Process<'_>, actions: &[Action], later: u32, following: usize) -> bool {
    process.optimizers.iter().enumerate().all(|(index, optimizer)| {
        let is_update = |action: &&Action| match action {
            Action::Update { optimizer, .. } => *optimizer == index,
            // A loop that steps in the backward pass has no other updates.
            Action::Backward { .. } => process.is_hooked(index),
            _ => false,
        };
        let updates = actions.iter().filter(is_update).count() as u32;
        optimizer.as_ref().is_none_or(|optimizer| {
            let first = (optimizer.updates() + later * updates + 1).saturating_sub(updates);
            optimizer.updates_alike(first, optimizer.updates() + following as u32 * updates)
        })
    })
}
