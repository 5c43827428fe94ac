//! Undoes what transformers' models do only while they are traced.
//!
//! In training they build no attention mask that would mask nothing or be the causal one, which the attention kernel has
//! built in, and let the kernel share keys and values between heads instead of repeating them. A tracer cannot see whether a
//! mask masks anything, so an archive has the mask and the repetition. Masks are computed at small sizes; a mask that is one
//! of the two is removed together with what was computed only for it.

use hashbrown::HashMap;

use super::flatten::{Flat, Item};
use super::fold::{Numbers, fold};
use vramfit_graph::model::{Argument, Input, Size, TensorId};

/// Small sizes that distinguish the masks.
const BATCH: i64 = 2;
const LENGTH: i64 = 5;

/// How many attention masks there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Masks {
    /// Removed.
    pub(super) undone: usize,
    /// Removed because an input mask masks nothing in the example.
    pub(super) assumed: usize,
    /// Kept.
    pub(super) kept: usize,
}

/// What a mask lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    Everything,
    Causal,
}

/// Removes masks that are built only while tracing. `full` says which inputs are all ones; `needed` tensors are kept.
pub(super) fn undo(flat: &mut Flat, inputs: &[Input], full: &HashMap<String, bool>, needed: &[TensorId]) -> Masks {
    let mut masks = Masks::default();
    let attention: Vec<usize> = (0..flat.items.len()).filter(|&at| mask_of(flat, at).is_some()).collect();
    if attention.is_empty() {
        return masks;
    }
    let is_full = |input: &&Input| full.get(&input.name).copied().unwrap_or(false);
    let ones: Vec<TensorId> = inputs.iter().filter(is_full).map(|input| input.tensor).collect();
    let known = fold(flat, &small_sizes(flat, inputs), &ones);
    let makers = makers(flat);
    for at in attention {
        let Some(mask) = mask_of(flat, at) else { continue };
        let found = known[mask.0 as usize].as_ref().and_then(|numbers| Some((kind_of(numbers)?, numbers.is_assumed)));
        match found.filter(|_| is_made_by_transformers(flat, &makers, mask)) {
            Some((kind, is_assumed)) => {
                masks.undone += 1;
                masks.assumed += usize::from(is_assumed);
                remove_mask(flat, at, kind, &makers);
            }
            None => masks.kept += 1,
        }
    }
    if masks.undone > 0 {
        remove_unused(flat, &ones, needed);
    }
    masks
}

/// The mask of an attention call.
fn mask_of(flat: &Flat, at: usize) -> Option<TensorId> {
    match &flat.items[at] {
        Item::Call(call) if flat.operators.name(call.operator) == "aten.scaled_dot_product_attention.default" => {
            match call.arguments.get(3) {
                Some(Argument::Tensor(mask)) => Some(*mask),
                _ => None,
            }
        }
        _ => None,
    }
}

fn makers(flat: &Flat) -> HashMap<TensorId, usize> {
    let mut makers = HashMap::new();
    for (at, item) in flat.items.iter().enumerate() {
        if let Item::Call(call) = item {
            for result in call.results.iter().flatten() {
                makers.entry(*result).or_insert(at);
            }
        }
    }
    makers
}

/// A value for each symbol: one for those in dimension 0 of an input, another for the rest.
fn small_sizes(flat: &Flat, inputs: &[Input]) -> Vec<i64> {
    let mut sizes = vec![LENGTH; flat.sizes.symbol_count()];
    for input in inputs {
        if let Some(Size::Symbolic(id)) = input.shape.first()
            && let Some(symbol) = flat.sizes.expressions[id.0 as usize].as_symbol()
        {
            sizes[symbol as usize] = BATCH;
        }
    }
    sizes
}

fn kind_of(mask: &Numbers) -> Option<Mask> {
    if mask.values.iter().all(|value| *value == 1) {
        return Some(Mask::Everything);
    }
    let [.., rows, columns] = mask.shape[..] else { return None };
    let is_causal =
        (mask.values.iter().enumerate()).all(|(at, value)| *value == i64::from(at % columns <= (at / columns) % rows));
    (is_causal && rows == columns).then_some(Mask::Causal)
}

fn is_made_by_transformers(flat: &Flat, makers: &HashMap<TensorId, usize>, mask: TensorId) -> bool {
    let Some(Item::Call(call)) = makers.get(&mask).map(|at| &flat.items[*at]) else { return false };
    let source = flat.sites.get(call.site).source;
    source.is_some_and(|source| flat.sites.sources[source as usize].file.contains("site-packages/transformers/"))
}

/// Removes the mask of an attention call, and the repetition of its keys and values.
fn remove_mask(flat: &mut Flat, at: usize, kind: Mask, makers: &HashMap<TensorId, usize>) {
    let repeated = |argument: &Argument| match argument {
        Argument::Tensor(tensor) => unrepeated(flat, makers, *tensor),
        _ => None,
    };
    let Item::Call(call) = &flat.items[at] else { return };
    let shared = match (call.arguments.get(1).and_then(repeated), call.arguments.get(2).and_then(repeated)) {
        (Some(keys), Some(values)) => Some((keys, values)),
        _ => None,
    };
    let Item::Call(call) = &mut flat.items[at] else { return };
    call.arguments[3] = Argument::None;
    if let Some(is_causal) = call.arguments.get_mut(5) {
        *is_causal = Argument::Bool(kind == Mask::Causal);
    }
    if let (Some((keys, values)), true) = (shared, call.arguments.len() > 7) {
        call.arguments[1] = Argument::Tensor(keys);
        call.arguments[2] = Argument::Tensor(values);
        call.arguments[7] = Argument::Bool(true);
    }
}

/// What a tensor repeats: `x[:, :, None].expand(…).reshape(…)`.
fn unrepeated(flat: &Flat, makers: &HashMap<TensorId, usize>, tensor: TensorId) -> Option<TensorId> {
    let step = |tensor: TensorId, wanted: &[&str]| -> Option<TensorId> {
        let Item::Call(call) = &flat.items[*makers.get(&tensor)?] else { return None };
        let base = flat.operators.name(call.operator).strip_prefix("aten.")?.split('.').next()?;
        match (wanted.contains(&base), call.arguments.first()) {
            (true, Some(Argument::Tensor(source))) => Some(*source),
            _ => None,
        }
    };
    let expanded = step(tensor, &["reshape"])?;
    let mut source = step(expanded, &["expand"])?;
    while let Some(before) = step(source, &["unsqueeze", "slice"]) {
        source = before;
    }
    let rank = |tensor: TensorId| flat.values[tensor.0 as usize].shape.len();
    (rank(source) == rank(tensor)).then_some(source)
}

/// Removes calls that make nothing that is used and change nothing.
fn remove_unused(flat: &mut Flat, masks: &[TensorId], needed: &[TensorId]) {
    let mut is_used = vec![false; flat.values.len()];
    for tensor in needed {
        is_used[tensor.0 as usize] = true;
    }
    let mut is_kept = vec![true; flat.items.len()];
    for (at, item) in flat.items.iter().enumerate().rev() {
        let Item::Call(call) = item else { continue };
        let is_whole = |tensor: &TensorId| {
            let dtype = flat.values[tensor.0 as usize].dtype;
            !dtype.is_differentiable()
        };
        let mut results = call.results.iter().flatten();
        let writes = results.clone().any(|result| call.arguments.contains(&Argument::Tensor(*result)));
        let is_result_used = results.clone().any(|result| is_used[result.0 as usize]);
        let is_removable = !call.results.is_empty() && !writes && results.all(is_whole);
        let is_repeat = is_repeating(flat, at);
        // Eager code casts the mask to see whether it masks anything.
        let is_asked = masks.iter().any(|mask| call.arguments.first() == Some(&Argument::Tensor(*mask)));
        let is_cast = flat.operators.name(call.operator).starts_with("aten.to.");
        if is_asked && is_cast {
            continue;
        }
        if !is_result_used && (is_removable || is_repeat) {
            is_kept[at] = false;
            continue;
        }
        call.each_tensor(&mut |tensor| is_used[tensor.0 as usize] = true);
    }
    let mut is_kept = is_kept.into_iter();
    flat.items.retain(|_| is_kept.next().unwrap_or(true));
}

/// Whether a call is one of those by which keys and values are repeated.
fn is_repeating(flat: &Flat, at: usize) -> bool {
    let Item::Call(call) = &flat.items[at] else { return false };
    let base = flat.operators.name(call.operator).strip_prefix("aten.").and_then(|name| name.split('.').next());
    matches!(base, Some("reshape" | "expand" | "unsqueeze" | "slice"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(shape: &[usize], values: &[i64]) -> Numbers {
        Numbers { shape: shape.to_vec(), values: values.to_vec(), is_assumed: false }
    }

    #[test]
    fn masks_are_distinguished() {
        assert_eq!(kind_of(&mask(&[1, 1, 2, 2], &[1, 1, 1, 1])), Some(Mask::Everything));
        assert_eq!(kind_of(&mask(&[1, 1, 2, 2], &[1, 0, 1, 1])), Some(Mask::Causal));
        assert_eq!(kind_of(&mask(&[1, 1, 2, 2], &[1, 1, 0, 1])), None);
        assert_eq!(kind_of(&mask(&[2, 1, 2, 2], &[1, 0, 1, 1, 1, 0, 1, 0])), None);
    }
}
