//! The numbers in steps: operators, modules, sources, tensors.

use super::error::CheckError;
use super::{Checker, below};
use vramfit_graph::model::{Argument, Call, Model, Step, TensorId};

/// What a tensor is to the step that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The argument of a call with this number.
    Argument(usize),
    /// A call's result.
    Result,
    /// Freed.
    Freed,
    /// Goes into a region or comes out of it.
    Passed,
    /// Kept for the backward pass.
    Saved,
}

impl Checker<'_> {
    /// Checks every number in a section of steps.
    pub(super) fn references(&self, section: usize) -> Result<(), CheckError> {
        let tensors = self.tensor_count(section);
        for (at, step) in self.model.steps[section].iter().enumerate() {
            self.step(step, tensors, &|| step_location(section, at))?;
        }
        Ok(())
    }

    /// Checks every number in a step, with so many tensors; `location` says where it is.
    pub(super) fn step(&self, step: &Step, tensors: usize, location: &dyn Fn() -> String) -> Result<(), CheckError> {
        match step {
            Step::Call(call) => self.call(call, location)?,
            Step::Enter(module, _) | Step::Exit(module, _) => {
                below("module", *module, self.model.modules.len(), location)?;
            }
            _ => {}
        }
        for_each_tensor(step, &mut |role, TensorId(tensor)| {
            below("tensor", tensor, tensors, || self.tensor_location(step, &location(), role))
        })
    }

    fn call(&self, call: &Call, location: &dyn Fn() -> String) -> Result<(), CheckError> {
        below("operator", call.operator, self.model.operators.len(), location)?;
        let operator = &self.model.operators[call.operator as usize];
        let location = || format!("{}: operator `{}`", location(), operator.name);
        if call.arguments.len() != operator.arguments.len() {
            let (found, needed) = (call.arguments.len(), operator.arguments.len());
            return Err(CheckError::WrongArgumentCount { location: location(), found, needed });
        }
        if let Some(source) = call.source {
            below("source", source, self.model.sources.len(), location)?;
        }
        for (argument, name) in call.arguments.iter().zip(&operator.arguments) {
            self.argument(argument, &|| format!("{}: argument `{name}`", location()))?;
        }
        Ok(())
    }

    fn argument(&self, argument: &Argument, location: &dyn Fn() -> String) -> Result<(), CheckError> {
        match argument {
            Argument::Int(size) => self.size(*size, location),
            Argument::List(items) => items.iter().try_for_each(|item| self.argument(item, location)),
            _ => Ok(()),
        }
    }

    /// Where a tensor is named, for messages.
    pub(super) fn tensor_location(&self, step: &Step, location: &str, role: Role) -> String {
        match (step, role) {
            (Step::Call(call), Role::Argument(argument)) => {
                let (operator, name) = argument_names(self.model, call, argument);
                format!("{location}: operator `{operator}`: argument `{name}`")
            }
            (Step::Call(call), _) => {
                format!("{location}: operator `{}`: result", self.model.operators[call.operator as usize].name)
            }
            (Step::Free(_), _) => format!("{location}: `free`"),
            (Step::Enter(..), _) => format!("{location}: `enter`"),
            (Step::Exit(..), _) => format!("{location}: `exit`"),
            (Step::Checkpoint { .. }, _) => format!("{location}: `checkpoint`"),
            (Step::Function { .. }, _) => format!("{location}: `function`"),
            _ => format!("{location}: `end`"),
        }
    }
}

fn argument_names<'m>(model: &'m Model, call: &Call, argument: usize) -> (&'m str, &'m str) {
    let operator = &model.operators[call.operator as usize];
    (&operator.name, operator.arguments.get(argument).map_or("?", String::as_str))
}

pub(super) fn step_location(section: usize, step: usize) -> String {
    format!("steps[{section}][{step}]")
}

/// Visits every tensor that a step names, in order.
pub(super) fn for_each_tensor(
    step: &Step,
    visit: &mut impl FnMut(Role, TensorId) -> Result<(), CheckError>,
) -> Result<(), CheckError> {
    let mut all = |role, tensors: &[TensorId]| tensors.iter().try_for_each(|tensor| visit(role, *tensor));
    match step {
        Step::Call(call) => {
            for (at, argument) in call.arguments.iter().enumerate() {
                let mut visited = Ok(());
                argument.each_tensor(&mut |tensor| {
                    if visited.is_ok() {
                        visited = visit(Role::Argument(at), tensor);
                    }
                });
                visited?;
            }
            call.results.iter().flatten().try_for_each(|tensor| visit(Role::Result, *tensor))
        }
        Step::Free(tensors) => all(Role::Freed, tensors),
        Step::Enter(_, tensors)
        | Step::Exit(_, tensors)
        | Step::Checkpoint { arguments: tensors, .. }
        | Step::EndCheckpoint(tensors)
        | Step::Function { arguments: tensors, .. } => all(Role::Passed, tensors),
        Step::EndFunction { results, saved } => {
            all(Role::Passed, results)?;
            all(Role::Saved, saved)
        }
        Step::Grad(_) | Step::Autocast { .. } | Step::EndAutocast | Step::Loss | Step::EndLoss => Ok(()),
    }
}
