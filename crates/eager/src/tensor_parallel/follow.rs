//! Follows the split dimension from the weights through the calls of a pass.

use std::collections::HashMap;

use vramfit_graph::bind::{Bound, BoundCall, BoundStep, BoundTensor, Value};
use vramfit_graph::layout::contiguous_strides;
use vramfit_graph::model::{Model, TensorId};

use super::SplitError;
use super::cut::{Cut, SplitDim};
use super::layers::{LayerSplit, split_layers, weights_of};
use crate::operators::{Work, facts};

/// By storage: how it is split.
type Cuts = HashMap<u32, Cut>;

pub(super) fn split(bound: &mut Bound<'_>, world: i64) -> Result<(), SplitError> {
    let mut cuts = cut_weights(bound, world)?;
    for step in &bound.steps {
        match step {
            BoundStep::Call(call) => follow(bound, call, &mut cuts)?,
            BoundStep::Function { name, arguments }
                if arguments.iter().any(|id| cut_of(bound, &cuts, *id).is_some()) =>
            {
                let place = "a custom autograd function".to_owned();
                return Err(SplitError::NotFollowed { operator: (*name).to_owned(), place });
            }
            _ => {}
        }
    }
    let whole: Vec<_> = bound.tensors.iter().map(|tensor| tensor.shape.clone()).collect();
    let model = bound.model;
    for (index, tensor) in bound.tensors.iter_mut().enumerate() {
        if let Some(cut) = cuts.get(&tensor.storage) {
            let name = || name_of(model, index, &whole[index]);
            resize(tensor, *cut, world, name)?;
        }
    }
    for step in &mut bound.steps {
        if let BoundStep::Call(call) = step
            && let Some(Some(TensorId(result))) = call.results.first()
        {
            let (old, new) = (&whole[*result as usize], &bound.tensors[*result as usize].shape);
            for argument in call.arguments.iter_mut().filter(|_| old != new) {
                replace_sizes(argument, old, new);
            }
        }
    }
    Ok(())
}

fn cut_weights(bound: &Bound<'_>, world: i64) -> Result<Cuts, SplitError> {
    let mut cuts = Cuts::new();
    for (module, split) in split_layers(bound) {
        let [weight, bias] = weights_of(bound.model, module);
        let cut = match split {
            LayerSplit::Columns => [weight.map(|weight| (weight, 0)), bias.map(|bias| (bias, 0))],
            LayerSplit::Rows => [weight.map(|weight| (weight, 1)), None],
        };
        for (index, dim) in cut.into_iter().flatten() {
            let weight = &bound.model.parameters[index];
            let tensor = bound.tensor(weight.tensor);
            let Some(&size) = tensor.shape.get(dim) else { continue };
            if size % world != 0 {
                let tensor = weight.names.first().map_or_else(String::new, |name| format!("`{name}`"));
                return Err(SplitError::Uneven { tensor, size, world });
            }
            cuts.insert(tensor.storage, Cut::whole(dim, &tensor.shape, &tensor.strides));
        }
    }
    if cuts.is_empty() { Err(SplitError::NoLayers) } else { Ok(cuts) }
}

fn cut_of(bound: &Bound<'_>, cuts: &Cuts, id: TensorId) -> Option<Cut> {
    cuts.get(&bound.tensor(id).storage).copied()
}

/// How the results of a call are split.
fn follow(bound: &Bound<'_>, call: &BoundCall<'_>, cuts: &mut Cuts) -> Result<(), SplitError> {
    let mut given: Vec<TensorId> = Vec::new();
    call.each_tensor(&mut |id| given.push(id));
    if given.iter().all(|id| cut_of(bound, cuts, *id).is_none()) {
        return Ok(());
    }
    let refused =
        || SplitError::NotFollowed { operator: bound.operator_name(call).to_owned(), place: bound.place(call) };
    for id in call.results.iter().flatten() {
        let result = bound.tensor(*id);
        if let Some(cut) = cuts.get(&result.storage) {
            cut.dim(&result.shape, &result.strides).ok_or_else(refused)?;
        } else if given.iter().any(|id| bound.tensor(*id).storage == result.storage) {
            return Err(refused());
        } else {
            let split = match facts(bound.operator(call)).time.work {
                Work::Product { factors, is_transposed, .. } => {
                    of_product(bound, call, cuts, result, factors, is_transposed).ok_or_else(refused)?
                }
                // Keys and values may have fewer heads than queries.
                Work::Attention => of_aligned(bound, &given[..1], cuts, result).ok_or_else(refused)?,
                _ => match of_copied(bound, &given, cuts, result)
                    .or_else(|| of_stacked(bound, call, &given, cuts, result))
                {
                    Some(cut) => {
                        cuts.insert(result.storage, cut);
                        continue;
                    }
                    None => of_aligned(bound, &given, cuts, result).ok_or_else(refused)?,
                },
            };
            if let Some(split) = split {
                cuts.insert(result.storage, Cut::along(split, &result.strides));
            }
        }
    }
    Ok(())
}

/// The dimension of an argument in which it is split.
fn split_dim(bound: &Bound<'_>, cuts: &Cuts, id: TensorId) -> Option<SplitDim> {
    let tensor = bound.tensor(id);
    cuts.get(&tensor.storage)?.dim(&tensor.shape, &tensor.strides)
}

/// The result of a `reshape` that copies: the elements stay in their order.
fn of_copied(bound: &Bound<'_>, given: &[TensorId], cuts: &Cuts, result: &BoundTensor) -> Option<Cut> {
    let &[id] = given else { return None };
    let source = bound.tensor(id);
    let is_reshaped = source.elements == result.elements && source.shape != result.shape;
    let is_contiguous = contiguous_strides(&result.shape) == result.strides;
    let split = split_dim(bound, cuts, id).filter(|_| is_reshaped && is_contiguous)?;
    Some(Cut::along(split, &contiguous_strides(&source.shape)))
}

/// Tensors of one shape side by side in a dimension of its own.
fn of_stacked(
    bound: &Bound<'_>,
    call: &BoundCall<'_>,
    given: &[TensorId],
    cuts: &Cuts,
    result: &BoundTensor,
) -> Option<Cut> {
    let first = bound.tensor(*given.first()?);
    let split = split_dim(bound, cuts, given[0])?;
    let is_alike = |id: &TensorId| bound.tensor(*id).shape == first.shape && split_dim(bound, cuts, *id) == Some(split);
    if result.shape.len() != first.shape.len() + 1 || !given.iter().all(is_alike) {
        return None;
    }
    let number = call.arguments.iter().find_map(|argument| match argument {
        Value::Int(number) => Some(*number),
        _ => None,
    });
    let rank = result.shape.len() as i64;
    let new = usize::try_from(number.unwrap_or(0).rem_euclid(rank)).ok()?;
    let others = (0..result.shape.len()).filter(|dim| *dim != new).map(|dim| result.shape[dim]);
    if result.shape[new] != given.len() as i64 || !others.eq(first.shape.iter().copied()) {
        return None;
    }
    let dim = split.dim + usize::from(new <= split.dim);
    Some(Cut::along(SplitDim { dim, ..split }, &result.strides))
}

/// The result of an operator that keeps dimensions in their order. The outer `None` is for what is not known.
fn of_aligned(bound: &Bound<'_>, given: &[TensorId], cuts: &Cuts, result: &BoundTensor) -> Option<Option<SplitDim>> {
    // Random states, and other numbers beside the result.
    if !result.dtype.is_differentiable() && result.elements <= 2 {
        return Some(None);
    }
    let mut found: Option<SplitDim> = None;
    for id in given {
        let Some(split) = split_dim(bound, cuts, *id) else { continue };
        let shape = &bound.tensor(*id).shape;
        let fits = |dim: &usize| result.shape.get(*dim) == Some(&shape[split.dim]);
        let from_end = (result.shape.len() + split.dim).checked_sub(shape.len()).filter(fits);
        let dim = from_end.or_else(|| Some(split.dim).filter(|dim| shape.len() > result.shape.len() && fits(dim)))?;
        if found.is_some_and(|found| (found.dim, found.parts) != (dim, split.parts)) {
            return None;
        }
        found = Some(SplitDim { dim, ..split });
    }
    // All other arguments have one entry there, or none.
    let split = found?;
    let from_end = result.shape.len() - split.dim;
    let is_whole = |id: &TensorId| {
        let shape = &bound.tensor(*id).shape;
        split_dim(bound, cuts, *id).is_none() && shape.len() >= from_end && shape[shape.len() - from_end] > 1
    };
    (!given.iter().any(is_whole)).then_some(Some(split))
}

/// The result of a product of matrices.
fn of_product(
    bound: &Bound<'_>,
    call: &BoundCall<'_>,
    cuts: &Cuts,
    result: &BoundTensor,
    factors: (usize, usize),
    is_transposed: bool,
) -> Option<Option<SplitDim>> {
    let factor = |index: usize| match call.arguments.get(index)? {
        Value::Tensor(id) => Some((split_dim(bound, cuts, *id), bound.tensor(*id).shape.len())),
        _ => None,
    };
    let ((left, left_rank), (right, right_rank)) = (factor(factors.0)?, factor(factors.1)?);
    if left_rank < 2 || right_rank < 2 {
        return None;
    }
    let rank = result.shape.len();
    let (summed, kept) =
        if is_transposed { (right_rank - 1, right_rank - 2) } else { (right_rank - 2, right_rank - 1) };
    match (left, right) {
        (Some(left), Some(right)) if left.dim == left_rank - 1 && right.dim == summed => Some(None),
        // Both are split in the same dimension of the batch of products.
        (Some(left), Some(right)) => {
            let dims = ((rank + left.dim).checked_sub(left_rank)?, (rank + right.dim).checked_sub(right_rank)?);
            let is_batch = dims.0 == dims.1 && dims.0 + 2 < rank && left.parts == right.parts;
            is_batch.then_some(Some(SplitDim { dim: dims.0, ..left }))
        }
        (Some(left), None) if left.dim + 1 < left_rank => {
            Some(Some(SplitDim { dim: (rank + left.dim).checked_sub(left_rank)?, ..left }))
        }
        (None, Some(right)) if right.dim == kept => Some(Some(SplitDim { dim: rank - 1, ..right })),
        _ => None,
    }
}

/// Gives a tensor the sizes that it has on one rank.
fn resize(tensor: &mut BoundTensor, cut: Cut, world: i64, name: impl Fn() -> String) -> Result<(), SplitError> {
    let parts = cut.dim(&tensor.shape, &tensor.strides).map_or(0, |split| split.parts);
    let local = cut.local(world, &tensor.shape, &tensor.strides, tensor.offset);
    let Some((shape, strides, offset)) = local.filter(|_| parts % world == 0) else {
        return Err(SplitError::Uneven { tensor: name(), size: parts, world });
    };
    let bytes = tensor.dtype.bytes();
    let last: i64 = shape.iter().zip(strides.iter()).map(|(size, stride)| (size - 1) * stride).sum();
    tensor.elements = shape.iter().product();
    tensor.bytes = tensor.elements as u64 * bytes;
    tensor.extent = if tensor.elements == 0 { 0 } else { (offset + last + 1) as u64 * bytes };
    (tensor.shape, tensor.strides, tensor.offset) = (shape, strides, offset);
    Ok(())
}

/// A list of sizes that is the result's shape becomes its shape on one rank.
fn replace_sizes(argument: &mut Value, old: &[i64], new: &[i64]) {
    let Value::List(values) = argument else { return };
    let is_same = |(value, size): (&Value, &i64)| matches!(value, Value::Int(found) if found == size || *found == -1);
    if values.len() == old.len() && values.iter().zip(old).all(is_same) {
        for (value, size) in values.iter_mut().zip(new) {
            if *value != Value::Int(-1) {
                *value = Value::Int(*size);
            }
        }
    }
}

fn name_of(model: &Model, index: usize, shape: &[i64]) -> String {
    let mut weights = model.parameters.iter();
    let named = weights.find(|weight| weight.tensor.0 as usize == index).and_then(|weight| weight.names.first());
    named.map_or_else(|| format!("a tensor of {shape:?}"), |name| format!("`{name}`"))
}
