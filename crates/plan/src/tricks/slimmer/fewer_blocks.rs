//! Removes some of a model's repeated blocks.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_graph::model::{Model, Size, Step, TensorId, Type};

/// One variant of the model without these blocks. `None` if a block's result and input differ in type, or if anything but
/// its result is used outside it.
pub(super) fn without_blocks(model: &Model, variant: usize, blocks: &[String]) -> Option<Model> {
    let mut changed = model.clone();
    let chosen = &model.variants[variant];
    let tensors = &model.tensors[chosen.tensors];
    let mut renamed: BTreeMap<TensorId, TensorId> = BTreeMap::new();
    let mut removed: BTreeSet<TensorId> = BTreeSet::new();
    let mut steps: Vec<Step> = Vec::new();
    // Inside a removed block: the depth of nested modules, and the block's input.
    let mut inside: Option<(u32, TensorId)> = None;
    // The new index of each step that stays.
    let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, step) in model.steps[chosen.steps].iter().enumerate() {
        match (&mut inside, step) {
            (None, Step::Enter(module, arguments)) if is_removed(model, *module, blocks) => {
                inside = Some((1, *arguments.first()?));
            }
            (None, step) => {
                moved.insert(at, steps.len());
                steps.push(step.clone());
            }
            (Some((depth, _)), Step::Enter(..)) => *depth += 1,
            (Some((depth, input)), Step::Exit(_, results)) => {
                *depth -= 1;
                if *depth == 0 {
                    let (result, input) = (*results.first()?, *input);
                    if tensors[result.0 as usize].r#type != tensors[input.0 as usize].r#type {
                        return None;
                    }
                    removed.remove(&result);
                    renamed.insert(result, input);
                    inside = None;
                }
            }
            (Some(_), Step::Call(call)) => removed.extend(call.results.iter().flatten()),
            (Some((_, input)), Step::Free(list)) => {
                let kept: Vec<TensorId> =
                    list.iter().filter(|id| !removed.contains(id) && *id != input).copied().collect();
                steps.push(Step::Free(kept));
            }
            (Some(_), _) => {}
        }
    }
    if renamed.len() != blocks.len() {
        return None;
    }
    // The input of a removed block replaces its result, so it is freed where the result was.
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
                let mut uses_removed = false;
                call.arguments.iter_mut().for_each(|argument| {
                    argument.each_tensor_mut(&mut |id| {
                        uses_removed |= removed.contains(id);
                        *id = root(*id);
                    })
                });
                if uses_removed {
                    return None;
                }
            }
            Step::Free(list) => {
                list.retain(|id| !removed.contains(id) && !inputs.contains(id));
                list.iter_mut().for_each(|id| *id = root(*id));
            }
            Step::Enter(_, list) | Step::Exit(_, list) | Step::EndCheckpoint(list) => {
                list.retain(|id| !removed.contains(id));
                list.iter_mut().for_each(|id| *id = root(*id));
            }
            Step::Function { .. } | Step::EndFunction { .. } => step.each_tensor_mut(&mut |id| *id = root(*id)),
            _ => {}
        }
    }
    changed.steps[chosen.steps] = steps;
    let variant = &mut changed.variants[variant];
    for list in [&mut variant.outputs, &mut variant.released, &mut variant.held] {
        list.retain(|id| !removed.contains(id));
        list.iter_mut().for_each(|id| *id = root(*id));
    }
    variant.functions.retain_mut(|function| {
        function.each_tensor_mut(&mut |id| *id = root(*id));
        let end = moved.get(&function.end).copied();
        function.end = end.unwrap_or_default();
        end.is_some()
    });
    empty_weights(&mut changed, chosen.types, chosen.tensors, blocks);
    Some(changed)
}

fn is_removed(model: &Model, module: u32, blocks: &[String]) -> bool {
    model.modules[module as usize].path.as_ref().is_some_and(|path| blocks.contains(path))
}

/// Shrinks the weights of the blocks to zero bytes. They stay in the list, so that tensor ids do not change.
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
        weight.quantization = None;
        let tensor = &mut model.tensors[tensors][weight.tensor.0 as usize];
        let dtype = model.types[types][tensor.r#type as usize].dtype;
        model.types[types].push(Type { dtype, shape: vec![Size::Known(0)], strides: None });
        tensor.r#type = (model.types[types].len() - 1) as u32;
        tensor.requires_grad = false;
    }
}
