//! `pad` in modes other than the usual one, which `flatten` renames.

use super::{Inside, Part, Workshop, int, list};
use vramfit_graph::model::{Argument, Size, TensorId};

/// `pad` as what PyTorch calls for its mode: a reflection or replication of as many dimensions as are padded, or the copies
/// that go round. `None` for pads that cut something off or whose size is open.
pub(super) fn pad<W: Workshop>(inside: Inside<'_, W>) -> Option<Vec<Part>> {
    let source = inside.tensor("self")?;
    let Some(Argument::Text(mode)) = inside.argument("mode") else { return None };
    let Some(Argument::List(pads)) = inside.argument("pad") else { return None };
    let kind = match &*mode {
        "reflect" => "reflection",
        "replicate" => "replication",
        "circular" => return round(inside, source, &known(&pads)?),
        _ => return None,
    };
    let padded = pads.len() / 2;
    if !(1..=3).contains(&padded) {
        return None;
    }
    let dtype = inside.workshop.dtype(source);
    let arguments = vec![Argument::Tensor(source), Argument::List(pads)];
    inside.end_as(dtype, &format!("aten.{kind}_pad{padded}d.default"), arguments)
}

/// The numbers of a list, none below zero.
fn known(pads: &[Argument]) -> Option<Vec<i64>> {
    let number = |pad: &Argument| match pad {
        Argument::Int(Size::Known(pad @ 0..)) => Some(*pad),
        _ => None,
    };
    pads.iter().map(number).collect()
}

/// As `_pad_circular` does it: the source into the middle of new memory, then from each end of each dimension to the other.
fn round<W: Workshop>(mut inside: Inside<'_, W>, source: TensorId, pads: &[i64]) -> Option<Vec<Part>> {
    let [Some(result)] = inside.call.results[..] else { return None };
    let (inner, outer) = (inside.shape(source), inside.shape(result));
    let padded = pads.len() / 2;
    if inner.len() != outer.len() || padded + 2 != inner.len() {
        return None;
    }
    let dtype = inside.workshop.dtype(source);
    inside.workshop.set_dtype(result, dtype);
    inside.push("aten.new_empty.default", vec![Argument::Tensor(source), list(&outer)], vec![Some(result)]);
    // The dimensions from the last on, each with what is put before and behind it.
    let dims: Vec<(usize, i64, i64)> =
        pads.chunks_exact(2).enumerate().map(|(at, pads)| (padded - at + 1, pads[0], pads[1])).collect();
    let (mut to, mut from, mut shape) = (result, source, outer.clone());
    for &(dim, ..) in &dims {
        shape[dim] = inner[dim];
        to = slice(&mut inside, to, (result, shape.clone()), dim);
        from = slice(&mut inside, from, (source, inner.clone()), dim);
    }
    inside.write("aten.copy_.default", to, &[Argument::Tensor(from)]);
    for (dim, before, behind) in dims {
        for width in [before, behind].into_iter().filter(|width| *width > 0) {
            let mut shape = outer.clone();
            shape[dim] = Size::Known(width);
            let to = slice(&mut inside, result, (result, shape.clone()), dim);
            let from = slice(&mut inside, result, (result, shape), dim);
            inside.write("aten.copy_.default", to, &[Argument::Tensor(from)]);
        }
    }
    Some(inside.finish())
}

/// A part of a tensor along a dimension, with the strides of `base`.
fn slice<W: Workshop>(inside: &mut Inside<'_, W>, of: TensorId, base: (TensorId, Vec<Size>), dim: usize) -> TensorId {
    let view = inside.workshop.make_part(base.0, base.1);
    inside.held.push(view);
    inside.push("aten.slice.Tensor", vec![Argument::Tensor(of), int(dim as i64)], vec![Some(view)]);
    view
}
