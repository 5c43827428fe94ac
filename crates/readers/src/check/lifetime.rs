//! Lifetimes: tensors are made before they are used, and not used after they were freed.

use std::collections::HashSet;

use super::error::CheckError;
use super::reference::{Role, for_each_tensor, step_location};
use super::{Checker, below};
use vramfit_graph::model::{TensorId, Variant};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unmade,
    Alive,
    /// At this step.
    Freed(usize),
}

impl Checker<'_> {
    pub(super) fn lifetimes(&self) -> Result<(), CheckError> {
        let mut seen = HashSet::new();
        for (row, variant) in self.read_variants() {
            let tensors = self.model.tensors[variant.tensors].len();
            let listed = [
                ("constants", &variant.constants[..]),
                ("outputs", &variant.outputs[..]),
                ("loss", variant.loss.as_slice()),
                ("held", &variant.held[..]),
            ];
            for (what, list) in listed {
                for TensorId(tensor) in list {
                    below("tensor", *tensor, tensors, || format!("variants[{row}].{what}"))?;
                }
            }
            let ends = (&variant.outputs, variant.loss, &variant.held);
            if seen.insert((variant.steps, variant.tensors, &variant.constants, ends)) {
                self.lifetimes_of(row, variant, tensors)?;
            }
        }
        Ok(())
    }

    fn lifetimes_of(&self, row: usize, variant: &Variant, tensors: usize) -> Result<(), CheckError> {
        let mut states = vec![State::Unmade; tensors];
        states[..self.model.given_count()].fill(State::Alive);
        for TensorId(tensor) in &variant.constants {
            states[*tensor as usize] = State::Alive;
        }
        let section = variant.steps;
        let bad = |location: String, tensor: u32, state: State| match state {
            State::Freed(step) => CheckError::UsedAfterFree { location, tensor, freed: step_location(section, step) },
            _ => CheckError::UsedBeforeMade { location, tensor },
        };
        for (at, step) in self.model.steps[section].iter().enumerate() {
            for_each_tensor(step, &mut |role, TensorId(tensor)| {
                let state = &mut states[tensor as usize];
                match (role, *state) {
                    (Role::Result, _) => *state = State::Alive,
                    (Role::Freed, State::Alive) => *state = State::Freed(at),
                    (Role::Argument(_) | Role::Passed, State::Alive) => {}
                    // Python may have freed what is saved for the backward pass.
                    (Role::Saved, State::Alive | State::Freed(_)) => {}
                    (_, state) => {
                        return Err(bad(self.tensor_location(step, &step_location(section, at), role), tensor, state));
                    }
                }
                Ok(())
            })?;
        }
        let ends = [("outputs", &variant.outputs[..]), ("loss", variant.loss.as_slice()), ("held", &variant.held[..])];
        for (what, list) in ends {
            for TensorId(tensor) in list {
                let state = states[*tensor as usize];
                if state != State::Alive {
                    return Err(bad(format!("variants[{row}].{what}"), *tensor, state));
                }
            }
        }
        Ok(())
    }
}
