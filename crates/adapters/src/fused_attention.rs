//! The model with `scaled_dot_product_attention` in place of attention that it writes itself.
//!
//! The one call stands where the last product stood. Temporaries that were freed in between live until it has run, as the arguments of
//! a call do.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_eager::operators::{WrittenAttention, WrittenMask, find_written_attention};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Cast, Late, Model, Precision, Size, Step, TensorId, Variant};

use crate::writer::{Writer, int};

/// Where a model writes attention itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionPlace {
    /// The file.
    pub file: String,
    /// The function.
    pub function: String,
    /// The first line of the calls that are replaced, and the last.
    pub lines: (u32, u32),
    /// How many calls of the function there are in a pass.
    pub times: usize,
    /// How it masks scores.
    pub mask: PlaceMask,
    /// Whether it drops scores.
    pub has_dropout: bool,
}

/// How scores are masked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaceMask {
    /// Not at all.
    None,
    /// Numbers are added.
    Added,
    /// Scores are replaced where a mask is true.
    Filled,
}

/// A model whose own attention is replaced.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedAttention {
    /// The changed model.
    pub model: Model,
    /// Where the model writes attention, in the order of the first call.
    pub places: Vec<AttentionPlace>,
}

/// The model with fused attention; `None` if it writes none itself, or not in every variant.
pub fn with_fused_attention(model: &Model) -> Option<FusedAttention> {
    let mut changed = model.clone();
    let (types, tensors) = (&model.types, &model.tensors);
    changed.types.clear();
    changed.tensors.clear();
    changed.steps.clear();
    let mut places = Vec::new();
    let mut variants = std::mem::take(&mut changed.variants);
    for variant in &mut variants {
        let found = find_written_attention(model, variant);
        if places.is_empty() {
            places = places_of(model, variant, &found);
        }
        let (types, rows) = (types[variant.types].clone(), tensors[variant.tensors].clone());
        let mut writer = Writer::new(&mut changed, types, rows, variant.has_grad);
        let moved = rewrite(&mut writer, &model.steps[variant.steps], &found, lower(variant.precision));
        let Writer { types, rows, steps, .. } = writer;
        changed.types.push(types);
        changed.tensors.push(rows);
        changed.steps.push(steps);
        let section = changed.steps.len() - 1;
        (variant.types, variant.tensors, variant.steps) = (section, section, section);
        for Late { until, .. } in &mut variant.late {
            *until = moved.get(*until).copied().unwrap_or(*until);
        }
        for function in &mut variant.functions {
            function.end = moved.get(function.end).copied().unwrap_or(function.end);
        }
    }
    changed.variants = variants;
    changed.fine_tuning.has_fused_attention = true;
    (!places.is_empty()).then_some(FusedAttention { model: changed, places })
}

/// The type that autocast lowers to.
fn lower(precision: Precision) -> Option<Dtype> {
    match precision {
        Precision::Autocast(dtype) => Some(dtype),
        Precision::AsBuilt | Precision::Cast(_) => None,
    }
}

/// Copies the steps of a pass, with one call for each attention. Returns where each step has got.
fn rewrite(writer: &mut Writer<'_>, steps: &[Step], found: &[WrittenAttention], autocast: Option<Dtype>) -> Vec<usize> {
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    let mut ends: BTreeMap<usize, (&WrittenAttention, usize)> = BTreeMap::new();
    let mut removed: BTreeSet<TensorId> = BTreeSet::new();
    for attention in found {
        if let (Some(&first), Some(&last)) = (attention.calls.first(), attention.calls.last()) {
            gone.extend(&attention.calls);
            removed.extend(&attention.scores);
            ends.insert(last, (attention, first));
        }
    }
    let mut moved = Vec::with_capacity(steps.len());
    let mut delayed: Vec<TensorId> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        moved.push(writer.steps.len());
        if let Step::Grad(is_on) = step {
            writer.has_grad = *is_on;
        }
        if let Some((attention, _)) = ends.get(&at) {
            if let Step::Call(call) = step {
                writer.source = call.source;
            }
            write(writer, attention, autocast, std::mem::take(&mut delayed));
            continue;
        }
        if gone.contains(&at) {
            continue;
        }
        let is_inside = ends.iter().any(|(&last, &(_, first))| first < at && at < last);
        let mut step = step.clone();
        match &mut step {
            Step::Free(list) => {
                list.retain(|id| !removed.contains(id));
                if is_inside {
                    delayed.append(list);
                }
                if list.is_empty() {
                    continue;
                }
            }
            Step::Enter(_, list) | Step::Exit(_, list) => list.retain(|id| !removed.contains(id)),
            _ => {}
        }
        writer.steps.push(step);
    }
    moved
}

/// Adds the call, with what its arguments need. `delayed` are freed after it.
fn write(writer: &mut Writer<'_>, attention: &WrittenAttention, autocast: Option<Dtype>, mut delayed: Vec<TensorId>) {
    let rank = writer.shape(attention.turned_key).len();
    let mut temporary = Vec::new();
    let key = turned(writer, attention.turned_key);
    temporary.push(key);
    let mask = attention.mask.map(|mask| fitting_mask(writer, mask, autocast, &mut temporary, &mut delayed));
    // Fused kernels take four dimensions: a batch of heads is one sample then.
    let is_flat = rank == 3;
    let mut with_batch = |writer: &mut Writer<'_>, id: TensorId| {
        let is_fit = !is_flat || writer.shape(id).len() != 3;
        if is_fit { id } else { unsqueezed(writer, id, &mut temporary) }
    };
    let query = with_batch(writer, attention.query);
    let key = with_batch(writer, key);
    let value = with_batch(writer, attention.value);
    let mask = mask.map(|mask| with_batch(writer, mask));
    let result = attention.result;
    let target = match is_flat {
        false => result,
        true => {
            let shape = std::iter::once(Size::Known(1)).chain(writer.shape(result)).collect();
            let made = writer.make(writer.dtype(result), shape);
            temporary.push(made);
            made
        }
    };
    let arguments = vec![
        ("query", Argument::Tensor(query)),
        ("key", Argument::Tensor(key)),
        ("value", Argument::Tensor(value)),
        ("attn_mask", mask.map_or(Argument::None, Argument::Tensor)),
        ("dropout_p", Argument::Float(attention.dropout)),
        ("is_causal", Argument::Bool(false)),
        ("scale", Argument::Float(attention.scale)),
        ("enable_gqa", Argument::Bool(false)),
    ];
    writer.call("aten.scaled_dot_product_attention.default", arguments, &[target]);
    if is_flat {
        let arguments = vec![("self", Argument::Tensor(target)), ("dim", int(0))];
        writer.call("aten.squeeze.dim", arguments, &[result]);
    }
    temporary.extend(delayed);
    writer.free(&temporary);
}

/// The keys with the positions before the numbers of a head.
fn turned(writer: &mut Writer<'_>, key: TensorId) -> TensorId {
    let mut shape = writer.shape(key);
    let rank = shape.len();
    shape.swap(rank - 1, rank - 2);
    let made = writer.view(key, shape);
    let arguments = vec![("self", Argument::Tensor(key)), ("dim0", int(-2)), ("dim1", int(-1))];
    writer.call("aten.transpose.int", arguments, &[made]);
    made
}

/// The same with a first dimension of one.
fn unsqueezed(writer: &mut Writer<'_>, id: TensorId, temporary: &mut Vec<TensorId>) -> TensorId {
    let shape = std::iter::once(Size::Known(1)).chain(writer.shape(id)).collect();
    let made = writer.view(id, shape);
    writer.call("aten.unsqueeze.default", vec![("self", Argument::Tensor(id)), ("dim", int(0))], &[made]);
    temporary.push(made);
    made
}

/// The mask as the call takes it. Autocast casts numbers; a mask that is true where scores are replaced is negated.
fn fitting_mask(
    writer: &mut Writer<'_>,
    mask: WrittenMask,
    autocast: Option<Dtype>,
    temporary: &mut Vec<TensorId>,
    delayed: &mut Vec<TensorId>,
) -> TensorId {
    let made = match (mask, autocast) {
        (WrittenMask::Added(mask), Some(dtype))
            if writer.dtype(mask) != dtype && writer.dtype(mask).is_differentiable() =>
        {
            writer.cast(mask, dtype, Cast::ForCall)
        }
        (WrittenMask::Added(mask), _) => return mask,
        (WrittenMask::Filled(mask), _) => {
            let shape = writer.shape(mask);
            let made = writer.make(Dtype::Bool, shape);
            writer.call("aten.logical_not.default", vec![("self", Argument::Tensor(mask))], &[made]);
            // A mask without a name lives until it has been negated.
            if delayed.contains(&mask) {
                delayed.retain(|id| *id != mask);
                writer.free(&[mask]);
            }
            made
        }
    };
    temporary.push(made);
    made
}

/// The functions that write attention.
fn places_of(model: &Model, variant: &Variant, found: &[WrittenAttention]) -> Vec<AttentionPlace> {
    let mut places: Vec<AttentionPlace> = Vec::new();
    for attention in found {
        let sources = attention.calls.iter().filter_map(|at| match &model.steps[variant.steps][*at] {
            Step::Call(call) => model.sources.get(call.source? as usize),
            _ => None,
        });
        let sources: Vec<_> = sources.collect();
        let Some(product) = sources.first() else { continue };
        let own = || sources.iter().filter(|source| source.file == product.file && source.function == product.function);
        let lines = own().map(|source| source.line);
        let (Some(first), Some(last)) = (lines.clone().min(), lines.max()) else { continue };
        let mask = match attention.mask {
            None => PlaceMask::None,
            Some(WrittenMask::Added(_)) => PlaceMask::Added,
            Some(WrittenMask::Filled(_)) => PlaceMask::Filled,
        };
        let place = AttentionPlace {
            file: product.file.clone(),
            function: product.function.clone(),
            lines: (first, last),
            times: 1,
            mask,
            has_dropout: attention.dropout > 0.0,
        };
        let same = |known: &&mut AttentionPlace| known.file == place.file && known.lines == place.lines;
        match places.iter_mut().find(same) {
            Some(known) => known.times += 1,
            None => places.push(place),
        }
    }
    places
}
