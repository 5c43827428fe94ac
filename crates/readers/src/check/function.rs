//! The recorded backwards of custom autograd functions: numbers, regions, and tensors that are made before they are used.

use std::collections::HashMap;

use super::error::CheckError;
use super::reference::{Role, for_each_tensor};
use super::region::check_regions;
use super::{Checker, below};
use vramfit_graph::model::{RecordedBackward, Step, TensorId, Variant};

impl Checker<'_> {
    pub(super) fn functions(&self) -> Result<(), CheckError> {
        // Those of variants whose sections were not read were read too: their expressions must be ones.
        for (row, variant) in self.model.variants.iter().enumerate() {
            let is_read = self.only.is_none_or(|only| only == row);
            let tensors = if is_read { self.model.tensors[variant.tensors].len() } else { usize::MAX };
            for (number, function) in variant.functions.iter().enumerate() {
                let location = |at: usize| format!("variants[{row}].functions[{number}].steps[{at}]");
                for (at, step) in function.steps.iter().enumerate() {
                    self.step(step, tensors, &|| location(at))?;
                }
                check_regions(&function.steps, &location)?;
            }
            if is_read && !variant.functions.is_empty() {
                self.functions_of(row, variant, tensors)?;
            }
        }
        Ok(())
    }

    fn functions_of(&self, row: usize, variant: &Variant, tensors: usize) -> Result<(), CheckError> {
        let steps = &self.model.steps[variant.steps];
        // The step at which each tensor of the forward is first made.
        let mut made = vec![usize::MAX; tensors];
        made[..self.model.given_count()].fill(0);
        variant.constants.iter().for_each(|id| made[id.0 as usize] = 0);
        for (at, step) in steps.iter().enumerate() {
            if let Step::Call(call) = step {
                call.results.iter().flatten().for_each(|id| {
                    let made = &mut made[id.0 as usize];
                    *made = at.min(*made);
                });
            }
        }
        for (number, function) in variant.functions.iter().enumerate() {
            let location = format!("variants[{row}].functions[{number}]");
            below("step", function.end as u32, steps.len(), || format!("{location}.end"))?;
            if !matches!(steps[function.end], Step::EndFunction { .. }) {
                return Err(CheckError::NotAFunctionEnd { location: format!("{location}.end"), found: function.end });
            }
            self.function(function, &made, &location)?;
        }
        Ok(())
    }

    fn function(&self, function: &RecordedBackward, made: &[usize], location: &str) -> Result<(), CheckError> {
        let RecordedBackward { end, arguments, kept, gradients, results, steps } = function;
        let exists = |what: &str, id: TensorId| {
            below("tensor", id.0, made.len(), || format!("{location}.{what}"))?;
            Ok(made[id.0 as usize] < *end)
        };
        let before_made =
            |location: String, TensorId(tensor): TensorId| CheckError::UsedBeforeMade { location, tensor };
        for (what, id) in
            arguments.iter().flatten().map(|id| ("arguments", id)).chain(kept.iter().map(|id| ("kept", id)))
        {
            if !exists(what, *id)? {
                return Err(before_made(format!("{location}.{what}"), *id));
            }
        }
        // Of its own tensors: the step that freed each.
        let mut own: HashMap<TensorId, Option<usize>> = HashMap::new();
        for id in gradients.iter().flatten() {
            exists("gradients", *id)?;
            own.insert(*id, None);
        }
        if !function.is_complete() {
            return Ok(());
        }
        let step_location = |at: usize| format!("{location}.steps[{at}]");
        for (at, step) in steps.iter().enumerate() {
            for_each_tensor(step, &mut |role, id| {
                let location = || self.tensor_location(step, &step_location(at), role);
                match (role, own.get(&id)) {
                    (Role::Result, _) => {
                        own.insert(id, None);
                    }
                    (Role::Freed, Some(None)) => {
                        own.insert(id, Some(at));
                    }
                    (_, Some(None)) | (Role::Saved, Some(Some(_))) => {}
                    (_, Some(Some(freed))) => {
                        let freed = step_location(*freed);
                        return Err(CheckError::UsedAfterFree { location: location(), tensor: id.0, freed });
                    }
                    // What the forward has made may be saved, and only the simulation knows for how long.
                    (_, None) if made[id.0 as usize] < *end => {}
                    (_, None) => return Err(before_made(location(), id)),
                }
                Ok(())
            })?;
        }
        for id in results.iter().flatten() {
            if !exists("results", *id)? && !matches!(own.get(id), Some(None)) {
                return Err(before_made(format!("{location}.results"), *id));
            }
        }
        Ok(())
    }
}
