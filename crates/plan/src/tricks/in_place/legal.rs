//! Which activations may write over their input.
//!
//! The input must come from an operator that does not save its result. It must not be a view or have views, and nothing
//! else may read it.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_eager::operators::{Overwrite, facts};
use vramfit_graph::model::{Argument, Call, Model, Size, Step, Tensor, TensorId, Variant};

/// The paths of modules whose activation may be in place in every variant.
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

/// The modules whose activation may be in place, each with the index of the step that calls it.
pub(super) fn legal(model: &Model, variant: &Variant) -> BTreeMap<u32, usize> {
    let (steps, tensors) = (&model.steps[variant.steps], &model.tensors[variant.tensors]);
    let uses = Uses::of(model, variant, steps, tensors);
    let mut open: Vec<u32> = Vec::new();
    let mut called: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
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
                let is_legal = is_known && keeps_sign(call) && uses.may_overwrite(index, call);
                if is_legal && model.modules[module as usize].path.is_some() {
                    found.insert(module, index);
                }
            }
            _ => {}
        }
    }
    // A module that is called twice has one `inplace` attribute for both calls.
    found.retain(|module, _| called.get(module) == Some(&1));
    found
}

/// Whether the result has the input's sign: no slope or scale is below 0. Otherwise PyTorch refuses to compute the
/// gradient in place.
fn keeps_sign(call: &Call) -> bool {
    call.arguments[1..].iter().all(|argument| match argument {
        Argument::Float(value) => *value >= 0.0,
        Argument::Int(Size::Known(value)) => *value >= 0,
        _ => true,
    })
}

/// Which steps of a variant produce and read each tensor, and which tensors share storage.
struct Uses<'a> {
    model: &'a Model,
    variant: &'a Variant,
    tensors: &'a [Tensor],
    steps: &'a [Step],
    /// The steps that read a tensor.
    readers: BTreeMap<TensorId, Vec<usize>>,
    /// The step that produced a tensor.
    producers: BTreeMap<TensorId, usize>,
    /// Number of tensors per storage.
    sharers: BTreeMap<u32, u32>,
}

impl<'a> Uses<'a> {
    fn of(model: &'a Model, variant: &'a Variant, steps: &'a [Step], tensors: &'a [Tensor]) -> Uses<'a> {
        let (mut readers, mut producers) = (BTreeMap::<TensorId, Vec<usize>>::new(), BTreeMap::new());
        for (index, step) in steps.iter().enumerate() {
            let read: Vec<TensorId> = match step {
                Step::Call(call) => {
                    for id in call.results.iter().flatten() {
                        producers.entry(*id).or_insert(index);
                    }
                    let mut read = Vec::new();
                    call.each_tensor(&mut |id| read.push(id));
                    read
                }
                Step::Checkpoint { arguments, .. } | Step::Function { arguments, .. } => arguments.clone(),
                Step::EndFunction { results, saved } => results.iter().chain(saved).copied().collect(),
                _ => Vec::new(),
            };
            for id in read {
                readers.entry(id).or_default().push(index);
            }
        }
        let mut sharers = BTreeMap::new();
        for tensor in tensors {
            *sharers.entry(tensor.storage).or_default() += 1;
        }
        Uses { model, variant, tensors, steps, readers, producers, sharers }
    }

    /// Whether the call may write its result over its input.
    fn may_overwrite(&self, index: usize, call: &Call) -> bool {
        let (Some(Argument::Tensor(input)), [Some(result)]) = (call.arguments.first(), call.results.as_slice()) else {
            return false;
        };
        let (input, result) = (*input, *result);
        let (before, after) = (&self.tensors[input.0 as usize], &self.tensors[result.0 as usize]);
        let is_replaceable = self.producers.get(&input).is_some_and(|&producer| match &self.steps[producer] {
            Step::Call(call) => facts(self.model.operators[call.operator as usize].id).overwrite == Overwrite::Allowed,
            _ => false,
        });
        let variant = self.variant;
        let is_held =
            |id: TensorId| variant.held.contains(&id) || variant.outputs.contains(&id) || variant.loss == Some(id);
        input != result
            && is_replaceable
            && !variant.constants.contains(&input)
            && !is_held(input)
            && before.r#type == after.r#type
            && !before.is_view
            && !after.is_view
            && !before.is_on_host
            && self.readers.get(&input).is_some_and(|readers| readers.as_slice() == [index])
            && self.sharers.get(&before.storage) == Some(&1)
    }
}
