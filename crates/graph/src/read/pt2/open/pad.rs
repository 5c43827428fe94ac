//! `pad` in modes other than the usual one, which `flatten` renames.

use super::Workshop;
use crate::model::{Argument, Size, TensorId};
use crate::read::pt2::flatten::FlatCall;

/// `pad` as what PyTorch calls for its mode: a reflection or replication of as many dimensions as are padded, or the copies
/// that go round. `None` for pads that cut something off or whose size is open.
pub(super) fn pad(workshop: &mut impl Workshop, call: &FlatCall) -> Option<Vec<FlatCall>> {
    let Some(&Argument::Tensor(source)) = call.arguments.first() else { return None };
    let Some(Argument::Text(mode)) = workshop.argument(call, "mode") else { return None };
    let Some(Argument::List(pads)) = workshop.argument(call, "pad") else { return None };
    let [Some(result)] = call.results[..] else { return None };
    let dtype = workshop.dtype(source);
    let padded = pads.len() / 2;
    let kind = match &*mode {
        "reflect" => "reflection",
        "replicate" => "replication",
        "circular" => {
            workshop.set_dtype(result, dtype);
            return round(workshop, call, (source, result), &known(&pads)?);
        }
        _ => return None,
    };
    if !(1..=3).contains(&padded) {
        return None;
    }
    workshop.set_dtype(result, dtype);
    let name = format!("aten.{kind}_pad{padded}d.default");
    Some(vec![part(workshop, call, &name, vec![Argument::Tensor(source), Argument::List(pads)], result)])
}

/// The numbers of a list, none below zero.
fn known(pads: &[Argument]) -> Option<Vec<i64>> {
    let number = |pad: &Argument| match pad {
        Argument::Int(Size::Known(pad @ 0..)) => Some(*pad),
        _ => None,
    };
    pads.iter().map(number).collect()
}

fn part(workshop: &mut impl Workshop, call: &FlatCall, name: &str, given: Vec<Argument>, to: TensorId) -> FlatCall {
    let (operator, mut arguments) = workshop.operator(name);
    let count = given.len().min(arguments.len());
    arguments.splice(..count, given);
    FlatCall { operator, arguments, results: vec![Some(to)], place: call.place, is_by_method: false }
}

/// As `_pad_circular` does it: the source into the middle of new memory, then from each end of each dimension to the other.
fn round(
    workshop: &mut impl Workshop,
    call: &FlatCall,
    (source, result): (TensorId, TensorId),
    pads: &[i64],
) -> Option<Vec<FlatCall>> {
    let (inner, outer) = (workshop.shape(source), workshop.shape(result));
    let padded = pads.len() / 2;
    if inner.len() != outer.len() || padded + 2 != inner.len() {
        return None;
    }
    let sizes = outer.iter().map(|size| Argument::Int(*size)).collect();
    let given = vec![Argument::Tensor(source), Argument::List(sizes)];
    let mut parts = vec![part(workshop, call, "aten.new_empty.default", given, result)];
    // The dimensions from the last on, each with what is put before and behind it.
    let dims: Vec<(usize, i64, i64)> =
        pads.chunks_exact(2).enumerate().map(|(at, pads)| (padded - at + 1, pads[0], pads[1])).collect();
    let slice = |workshop: &mut _, parts: &mut Vec<FlatCall>, from, (base, shape): (TensorId, Vec<Size>), dim| {
        let view = Workshop::make_part(workshop, base, shape);
        let given = vec![Argument::Tensor(from), Argument::Int(Size::Known(dim as i64))];
        parts.push(part(workshop, call, "aten.slice.Tensor", given, view));
        view
    };
    let copy = |workshop: &mut _, parts: &mut Vec<FlatCall>, to, from| {
        let given = vec![Argument::Tensor(to), Argument::Tensor(from)];
        parts.push(part(workshop, call, "aten.copy_.default", given, to));
    };
    let (mut to, mut from, mut shape) = (result, source, outer.clone());
    for &(dim, ..) in &dims {
        shape[dim] = inner[dim];
        to = slice(workshop, &mut parts, to, (result, shape.clone()), dim);
        from = slice(workshop, &mut parts, from, (source, inner.clone()), dim);
    }
    copy(workshop, &mut parts, to, from);
    for &(dim, before, behind) in dims.iter() {
        for width in [before, behind].into_iter().filter(|width| *width > 0) {
            let mut shape = outer.clone();
            shape[dim] = Size::Known(width);
            let to = slice(workshop, &mut parts, result, (result, shape.clone()), dim);
            let from = slice(workshop, &mut parts, result, (result, shape), dim);
            copy(workshop, &mut parts, to, from);
        }
    }
    Some(parts)
}
