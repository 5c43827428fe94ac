//! A model with some of its repeated blocks left out.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_graph::model::{Argument, Model, Size, Step, TensorId, Type};

/// The model without these blocks, in one variant; `None` where a block's result is not of its input's type, or something
/// else of it is used outside.
pub fn without_blocks(model: &Model, variant: usize, blocks: &[String]) -> Option<Model> {
    let mut changed = model.clone();
    let chosen = &model.variants[variant];
    let tensors = &model.tensors[chosen.tensors];
    let mut renamed: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    let mut gone: BTreeSet<TensorId> = BTreeSet::new();
    let mut steps: Vec<Step> = Vec::new();
    // The block that is being left out: its depth, its input, and what it made.
    let mut leaving: Option<(u32, TensorId)> = None;
    for step in &model.steps[chosen.steps] {
        match (&mut leaving, step) {
            (None, Step::Enter(module, arguments)) if is_one(model, *module, blocks) => {
                leaving = Some((1, *arguments.first()?));
            }
            (None, step) => steps.push(step.clone()),
            (Some((depth, _)), Step::Enter(..)) => *depth += 1,
            (Some((depth, input)), Step::Exit(_, results)) => {
                *depth -= 1;
                if *depth == 0 {
                    let (result, input) = (*results.first()?, *input);
                    if tensors[result.0 as usize].r#type != tensors[input.0 as usize].r#type {
                        return None;
                    }
                    gone.remove(&result);
                    renamed.insert(result, input);
                    leaving = None;
                }
            }
            (Some(_), Step::Call(call)) => gone.extend(call.results.iter().flatten()),
            (Some((_, input)), Step::Free(list)) => {
                let kept: Vec<TensorId> =
                    list.iter().filter(|id| !gone.contains(id) && *id != input).copied().collect();
                steps.push(Step::Free(kept));
            }
            (Some(_), _) => {}
        }
    }
    if renamed.len() != blocks.len() {
        return None;
    }
    // What was let go of in a block or after it under the input's name lives on under the result's.
    let inputs: BTreeSet<TensorId> = renamed.values().copied().collect();
    let root = |id: TensorId| {
        let mut id = id;
        while let Some(next) = renamed.get(&id) {
            id = *next;
        }
        id
    };
    for step in &mut steps {
        match step {
            Step::Call(call) => {
                let mut is_whole = true;
                call.arguments.iter_mut().for_each(|argument| {
                    each(argument, &mut |id| {
                        is_whole &= !gone.contains(id);
                        *id = root(*id);
                    })
                });
                if !is_whole {
                    return None;
                }
            }
            Step::Free(list) => {
                list.retain(|id| !gone.contains(id) && !inputs.contains(id));
                list.iter_mut().for_each(|id| *id = root(*id));
            }
            Step::Enter(_, list) | Step::Exit(_, list) | Step::EndCheckpoint(list) => {
                list.retain(|id| !gone.contains(id));
                list.iter_mut().for_each(|id| *id = root(*id));
            }
            _ => {}
        }
    }
    changed.steps[chosen.steps] = steps;
    let variant = &mut changed.variants[variant];
    for list in [&mut variant.outputs, &mut variant.released, &mut variant.held] {
        list.retain(|id| !gone.contains(id));
        list.iter_mut().for_each(|id| *id = root(*id));
    }
    empty_weights(&mut changed, chosen.types, chosen.tensors, blocks);
    Some(changed)
}

fn is_one(model: &Model, module: u32, blocks: &[String]) -> bool {
    model.modules[module as usize].path.as_ref().is_some_and(|path| blocks.contains(path))
}

/// The weights of the blocks take no memory any more: their numbers stay, so that all others keep theirs.
fn empty_weights(model: &mut Model, types: usize, tensors: usize, blocks: &[String]) {
    let belongs = |name: &String| {
        blocks.iter().any(|block| name.strip_prefix(block.as_str()).is_some_and(|rest| rest.starts_with('.')))
    };
    for weight in model.parameters.iter_mut().chain(&mut model.buffers) {
        if !weight.names.iter().all(belongs) {
            continue;
        }
        weight.shape = vec![0];
        weight.requires_grad = false;
        let tensor = &mut model.tensors[tensors][weight.tensor.0 as usize];
        let dtype = model.types[types][tensor.r#type as usize].dtype;
        model.types[types].push(Type { dtype, shape: vec![Size::Known(0)], strides: None });
        tensor.r#type = (model.types[types].len() - 1) as u32;
        tensor.requires_grad = false;
    }
}

fn each(argument: &mut Argument, look: &mut impl FnMut(&mut TensorId)) {
    match argument {
        Argument::Tensor(id) => look(id),
        Argument::List(list) => list.iter_mut().for_each(|argument| each(argument, look)),
        _ => {}
    }
}
