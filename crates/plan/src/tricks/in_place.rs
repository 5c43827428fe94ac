//! In-place activations, where legal: nothing else may need what they overwrite.
//!
//! `module.inplace = True` is written for modules whose gradient is found from the result (ReLU, LeakyReLU, ELU and its
//! kin). The others would keep a copy of what they overwrite. Their input must come from an operator that does not
//! save its result, must be no view and have no view, and nothing else may read it.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_eager::forward::Choice;
use vramfit_eager::operators::{self, Overwrite, facts};
use vramfit_graph::model::{Argument, Call, Model, Size, Step, Tensor, TensorId, Variant};

use super::Trick;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct InPlace;

impl Trick for InPlace {
    fn name(&self) -> &'static str {
        "in-place activations"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn conflicts(&self) -> &'static str {
        "checkpointing, hooks, and code that reads an activation's input later"
    }

    fn written(&self) -> &'static str {
        "nn.ReLU(inplace=True)  # or module.inplace = True"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.is_in_place {
            return Err("they are in place already".to_owned());
        }
        if is_checkpointed(start) {
            return Err("what is checkpointed keeps its input, which an activation in place may overwrite".to_owned());
        }
        if bench.in_place.is_none() {
            return Err(why_not(bench.model));
        }
        Ok(vec![Setup { is_in_place: true, ..start.clone() }])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.is_in_place = from.is_in_place && !is_checkpointed(setup);
    }

    fn state(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.is_in_place {
            false => "activations write new tensors".to_owned(),
            true => format!("{} activations in place", candidates(bench.model).len()),
        }
    }
}

/// A checkpointed region that begins with an activation in place would overwrite the input it is run again from.
fn is_checkpointed(setup: &Setup) -> bool {
    setup.training.checkpoint != Choice::Nothing
}

fn why_not(model: &Model) -> String {
    let is_activation = |class: &str| {
        operators::all().filter_map(|facts| facts.activation).any(|activation| activation.module == class)
    };
    let count = model.modules.iter().filter(|module| is_activation(&module.class)).count();
    match count {
        0 => "no module of a kind that may write into its input (ReLU, LeakyReLU, ELU, CELU, SELU)".to_owned(),
        count => format!(
            "{count} activation modules, none of which may: they are in place already, or something else needs their input"
        ),
    }
}

/// The modules whose activation may be in place in every variant.
pub fn candidates(model: &Model) -> Vec<String> {
    let mut common: Option<BTreeSet<u32>> = None;
    for variant in &model.variants {
        let legal: BTreeSet<u32> = legal(model, variant).into_keys().collect();
        common = Some(match common {
            None => legal,
            Some(common) => common.intersection(&legal).copied().collect(),
        });
    }
    let path = |module: &u32| model.modules[*module as usize].path.clone();
    common.unwrap_or_default().iter().filter_map(path).collect()
}

/// The model with those activations in place; `None` where there are none.
pub fn rewrite(model: &Model) -> Option<Model> {
    let chosen = candidates(model);
    if chosen.is_empty() {
        return None;
    }
    let is_chosen =
        |module: u32| model.modules[module as usize].path.as_ref().is_some_and(|path| chosen.contains(path));
    let mut changed = model.clone();
    let mut done: BTreeMap<usize, BTreeMap<TensorId, TensorId>> = BTreeMap::new();
    for index in 0..model.variants.len() {
        let section = model.variants[index].steps;
        let merged = match done.get(&section) {
            Some(merged) => merged.clone(),
            None => {
                let places: Vec<usize> = legal(model, &model.variants[index])
                    .into_iter()
                    .filter(|(module, _)| is_chosen(*module))
                    .map(|(_, place)| place)
                    .collect();
                let merged = rewrite_section(&mut changed, section, &places);
                done.insert(section, merged.clone());
                merged
            }
        };
        let variant = &mut changed.variants[index];
        let lists = [&mut variant.outputs, &mut variant.released, &mut variant.held];
        for id in lists.into_iter().flatten().chain(variant.loss.iter_mut()) {
            *id = merged.get(id).copied().unwrap_or(*id);
        }
    }
    Some(changed)
}

/// Each module with an activation that may be in place, with the step that calls it.
fn legal(model: &Model, variant: &Variant) -> BTreeMap<u32, usize> {
    let (steps, tensors) = (&model.steps[variant.steps], &model.tensors[variant.tensors]);
    let uses = Uses::of(model, variant, steps, tensors);
    let mut open: Vec<u32> = Vec::new();
    let mut called: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        match step {
            Step::Enter(module, _) => {
                *called.entry(*module).or_default() += 1;
                open.push(*module);
            }
            Step::Exit(..) => {
                open.pop();
            }
            Step::Call(call) => {
                let Some(&module) = open.last() else { continue };
                let class = &model.modules[module as usize].class;
                let activation = facts(model.operators[call.operator as usize].id).activation;
                let is_known = activation.is_some_and(|activation| activation.module == class);
                let may = is_known && is_one_to_one(call) && uses.may_overwrite(place, call);
                if may && model.modules[module as usize].path.is_some() {
                    found.insert(module, place);
                }
            }
            _ => {}
        }
    }
    // A module that is called twice has one attribute for both.
    found.retain(|module, _| called.get(module) == Some(&1));
    found
}

/// Whether the input's sign can be told from the result's, without which PyTorch refuses the gradient: no slope or scale below 0.
fn is_one_to_one(call: &Call) -> bool {
    call.arguments[1..].iter().all(|argument| match argument {
        Argument::Float(value) => *value >= 0.0,
        Argument::Int(Size::Known(value)) => *value >= 0,
        _ => true,
    })
}

/// Who makes, reads and shares a variant's tensors.
struct Uses<'a> {
    model: &'a Model,
    variant: &'a Variant,
    tensors: &'a [Tensor],
    steps: &'a [Step],
    /// The calls that read a tensor.
    readers: BTreeMap<TensorId, Vec<usize>>,
    /// The call that made it.
    makers: BTreeMap<TensorId, usize>,
    /// How many tensors have a storage.
    sharers: BTreeMap<u32, u32>,
}

impl<'a> Uses<'a> {
    fn of(model: &'a Model, variant: &'a Variant, steps: &'a [Step], tensors: &'a [Tensor]) -> Uses<'a> {
        let (mut readers, mut makers) = (BTreeMap::<TensorId, Vec<usize>>::new(), BTreeMap::new());
        for (place, step) in steps.iter().enumerate() {
            let read: Vec<TensorId> = match step {
                Step::Call(call) => {
                    for id in call.results.iter().flatten() {
                        makers.entry(*id).or_insert(place);
                    }
                    let mut read = Vec::new();
                    call.arguments.iter().for_each(|argument| tensors_of(argument, &mut read));
                    read
                }
                Step::Checkpoint { arguments, .. } | Step::Function { arguments, .. } => arguments.clone(),
                Step::EndFunction { results, saved } => results.iter().chain(saved).copied().collect(),
                _ => Vec::new(),
            };
            for id in read {
                readers.entry(id).or_default().push(place);
            }
        }
        let mut sharers = BTreeMap::new();
        for tensor in tensors {
            *sharers.entry(tensor.storage).or_default() += 1;
        }
        Uses { model, variant, tensors, steps, readers, makers, sharers }
    }

    /// Whether the call may write its result over its input.
    fn may_overwrite(&self, place: usize, call: &Call) -> bool {
        let (Some(Argument::Tensor(input)), [Some(result)]) = (call.arguments.first(), call.results.as_slice()) else {
            return false;
        };
        let (input, result) = (*input, *result);
        let (given, after) = (&self.tensors[input.0 as usize], &self.tensors[result.0 as usize]);
        let is_made_here = self.makers.get(&input).is_some_and(|&maker| match &self.steps[maker] {
            Step::Call(call) => facts(self.model.operators[call.operator as usize].id).overwrite == Overwrite::Allowed,
            _ => false,
        });
        let variant = self.variant;
        let is_held =
            |id: TensorId| variant.held.contains(&id) || variant.outputs.contains(&id) || variant.loss == Some(id);
        input != result
            && is_made_here
            && !variant.constants.contains(&input)
            && !is_held(input)
            && given.r#type == after.r#type
            && !given.is_view
            && !after.is_view
            && !given.is_on_host
            && self.readers.get(&input).is_some_and(|readers| readers.as_slice() == [place])
            && self.sharers.get(&given.storage) == Some(&1)
    }
}

/// Makes the calls at these places in place; returns which tensors are now which.
fn rewrite_section(model: &mut Model, section: usize, places: &[usize]) -> BTreeMap<TensorId, TensorId> {
    let mut merged: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    let mut steps = std::mem::take(&mut model.steps[section]);
    for &place in places {
        let Step::Call(call) = &mut steps[place] else { continue };
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
    // Two names of one tensor: it goes when the last of them does.
    let mut names: BTreeMap<TensorId, u32> = BTreeMap::new();
    for (result, input) in &merged {
        let freed = |id: &TensorId| steps.iter().any(|step| matches!(step, Step::Free(list) if list.contains(id)));
        let never = u32::from(!freed(result)) + u32::from(!freed(input));
        names.insert(*input, if never > 0 { u32::MAX } else { 2 });
    }
    let rename = |id: &mut TensorId| {
        if let Some(input) = merged.get(id) {
            *id = *input;
        }
    };
    for step in &mut steps {
        match step {
            Step::Call(call) => {
                call.arguments.iter_mut().for_each(|argument| each_tensor(argument, &rename));
                call.results.iter_mut().flatten().for_each(rename);
            }
            Step::Free(list) => {
                list.iter_mut().for_each(rename);
                list.retain(|id| match names.get_mut(id) {
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

fn tensors_of(argument: &Argument, found: &mut Vec<TensorId>) {
    match argument {
        Argument::Tensor(id) => found.push(*id),
        Argument::List(list) => list.iter().for_each(|argument| tensors_of(argument, found)),
        _ => {}
    }
}

fn each_tensor(argument: &mut Argument, rename: &impl Fn(&mut TensorId)) {
    match argument {
        Argument::Tensor(id) => rename(id),
        Argument::List(list) => list.iter_mut().for_each(|argument| each_tensor(argument, rename)),
        _ => {}
    }
}
