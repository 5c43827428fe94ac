//! The model with activations in place.

use std::collections::BTreeMap;

use vramfit_eager::operators::{self, facts};
use vramfit_graph::model::{Argument, Model, Step, TensorId};

use super::legal::{candidates, legal};

/// The model with all legal activations in place; `None` if there are none.
pub fn rewrite(model: &Model) -> Option<Model> {
    let chosen = candidates(model);
    if chosen.is_empty() {
        return None;
    }
    let is_chosen =
        |module: u32| model.modules[module as usize].path.as_ref().is_some_and(|path| chosen.contains(path));
    let mut changed = model.clone();
    changed.fine_tuning.has_activations_in_place = true;
    let mut done: BTreeMap<usize, BTreeMap<TensorId, TensorId>> = BTreeMap::new();
    for index in 0..model.variants.len() {
        let section = model.variants[index].steps;
        let merged = match done.get(&section) {
            Some(merged) => merged.clone(),
            None => {
                let calls: Vec<usize> = legal(model, &model.variants[index])
                    .into_iter()
                    .filter(|(module, _)| is_chosen(*module))
                    .map(|(_, step)| step)
                    .collect();
                let merged = rewrite_section(&mut changed, section, &calls);
                done.insert(section, merged.clone());
                merged
            }
        };
        let variant = &mut changed.variants[index];
        let lists = [&mut variant.outputs, &mut variant.released, &mut variant.held];
        let rename = |id: &mut TensorId| *id = merged.get(id).copied().unwrap_or(*id);
        lists.into_iter().flatten().chain(variant.loss.iter_mut()).for_each(rename);
        variant.functions.iter_mut().for_each(|function| function.each_tensor_mut(&mut |id| rename(id)));
    }
    Some(changed)
}

/// Replaces the calls at these step indices by in-place ones. Returns the result of each call with the input that it
/// overwrites.
fn rewrite_section(model: &mut Model, section: usize, calls: &[usize]) -> BTreeMap<TensorId, TensorId> {
    let mut merged: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    let mut steps = std::mem::take(&mut model.steps[section]);
    for &index in calls {
        let Step::Call(call) = &mut steps[index] else { continue };
        let (Some(Argument::Tensor(input)), [Some(result)]) = (call.arguments.first(), call.results.as_slice()) else {
            continue;
        };
        merged.insert(*result, *input);
        let operator = &model.operators[call.operator as usize];
        let Some(activation) = facts(operator.id).activation else { continue };
        let arguments = operator.arguments.clone();
        let known = model.operators.iter().position(|operator| operator.name == activation.in_place);
        let at = known.unwrap_or_else(|| {
            model.operators.push(operators::named(activation.in_place.to_owned(), arguments));
            model.operators.len() - 1
        });
        call.operator = at as u32;
    }
    // Input and result are now one tensor: it is freed where the later of them was.
    let mut frees_left: BTreeMap<TensorId, u32> = BTreeMap::new();
    for (result, input) in &merged {
        let freed = |id: &TensorId| steps.iter().any(|step| matches!(step, Step::Free(list) if list.contains(id)));
        let never = u32::from(!freed(result)) + u32::from(!freed(input));
        frees_left.insert(*input, if never > 0 { u32::MAX } else { 2 });
    }
    let rename = |id: &mut TensorId| {
        if let Some(input) = merged.get(id) {
            *id = *input;
        }
    };
    for step in &mut steps {
        match step {
            Step::Call(call) => {
                call.arguments.iter_mut().for_each(|argument| argument.each_tensor_mut(&mut |id| rename(id)));
                call.results.iter_mut().flatten().for_each(rename);
            }
            Step::Free(list) => {
                list.iter_mut().for_each(rename);
                list.retain(|id| match frees_left.get_mut(id) {
                    None => true,
                    Some(left) => {
                        *left = if *left == u32::MAX { u32::MAX } else { *left - 1 };
                        *left == 0
                    }
                });
            }
            Step::Enter(_, list) | Step::Exit(_, list) | Step::EndCheckpoint(list) => list.iter_mut().for_each(rename),
            Step::Checkpoint { arguments, .. } | Step::Function { arguments, .. } => {
                arguments.iter_mut().for_each(rename);
            }
            Step::EndFunction { results, saved } => results.iter_mut().chain(saved).for_each(rename),
            _ => {}
        }
    }
    model.steps[section] = steps;
    merged
}
