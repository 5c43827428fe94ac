//! Tells a tensor from a cast of it that changed nothing.
//!
//! `x.to(dtype)` returns `x` itself where it has that type, and a tracer then knows `x` by the cast's name, even where the
//! code goes on with `x`. In another precision the two differ. A cast is taken to be meant in the statement that makes it
//! and, where that statement binds or returns it, after it in the same function or outside; everywhere else `x` is.

use hashbrown::HashMap;

use super::flatten::{Flat, FlatCall, Item};
use super::place::Place;
use vramfit_graph::model::{Argument, TensorId};

const CASTS: [&str; 7] = [".to(", ".float()", ".type(", ".type_as(", ".half()", ".double()", ".bfloat16()"];

/// A cast that changed nothing.
#[derive(Clone, Copy)]
struct Same {
    source: TensorId,
    place: u32,
}

/// Gives arguments and `outputs` the tensors that the code means.
pub(super) fn resolve(flat: &mut Flat, outputs: &mut [&mut Vec<TensorId>]) {
    let mut casts: HashMap<TensorId, Same> = HashMap::new();
    let mut items = std::mem::take(&mut flat.items);
    for item in &mut items {
        let Item::Call(call) = item else { continue };
        let place = &flat.places.places[call.place as usize];
        for argument in &mut call.arguments {
            for_each(argument, &mut |tensor| *tensor = meant(flat, &casts, *tensor, place));
        }
        if let Some((source, result)) = unchanged(flat, call) {
            casts.insert(result, Same { source, place: call.place });
        }
    }
    flat.items = items;
    let outside = Place::default();
    for tensor in outputs.iter_mut().flat_map(|list| list.iter_mut()) {
        *tensor = meant(flat, &casts, *tensor, &outside);
    }
}

/// A cast's argument and result, where they are the same.
fn unchanged(flat: &Flat, call: &FlatCall) -> Option<(TensorId, TensorId)> {
    let (Some(Argument::Tensor(source)), [Some(result)]) = (call.arguments.first(), &call.results[..]) else {
        return None;
    };
    let (one, other) = (&flat.values[source.0 as usize], &flat.values[result.0 as usize]);
    let is_same = one.dtype == other.dtype && one.is_on_host == other.is_on_host;
    (flat.operators.name(call.operator).starts_with("aten.to.") && is_same).then_some((*source, *result))
}

/// The tensor that the code at a place means by the name of a cast.
fn meant(flat: &Flat, casts: &HashMap<TensorId, Same>, mut tensor: TensorId, place: &Place) -> TensorId {
    while let Some(same) = casts.get(&tensor) {
        if is_meant(&flat.places.places[same.place as usize], place) {
            break;
        }
        tensor = same.source;
    }
    tensor
}

/// Whether a cast made at one place is meant at another.
fn is_meant(made: &Place<'_>, used: &Place<'_>) -> bool {
    let depth = made.calls.len();
    let is_shown = CASTS.iter().any(|cast| made.text.contains(cast));
    if used.calls.len() < depth || used.calls[..depth] != made.calls[..] {
        return is_shown && made.text.starts_with("return");
    }
    let line = |place: &Place| depth.checked_sub(1).and_then(|depth| place.lines.get(depth)).map(|line| line.number);
    line(made) == line(used) || line(made).is_none() || is_bound(made.text)
}

/// Whether the value of a statement is a cast, rather than something computed from one.
fn is_bound(text: &str) -> bool {
    let Some(begin) = CASTS.iter().filter_map(|cast| text.rfind(cast)).max() else { return false };
    let mut depth = 0;
    for (at, character) in text[begin..].char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return text[begin + at + 1..].trim().is_empty(),
            ')' => depth -= 1,
            _ => {}
        }
    }
    // The statement goes on in its next line.
    true
}

fn for_each(argument: &mut Argument, change: &mut impl FnMut(&mut TensorId)) {
    match argument {
        Argument::Tensor(tensor) => change(tensor),
        Argument::List(items) => items.iter_mut().for_each(|item| for_each(item, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::Line;
    use super::*;

    fn place<'a>(calls: &[u32], number: u32, text: &'a str) -> Place<'a> {
        let line = Line { number, text };
        Place { calls: calls.to_vec(), lines: vec![line; calls.len()], source: None, text }
    }

    #[test]
    fn outside_of_a_function_a_cast_within_it_is_not_meant() {
        let cast = place(&[0, 1], 7, "hidden_states = hidden_states.to(torch.float32)");
        assert!(is_meant(&cast, &place(&[0, 1], 8, "variance = hidden_states.pow(2)")));
        assert!(!is_meant(&cast, &place(&[0], 20, "hidden_states = residual + hidden_states")));
        assert!(is_meant(&place(&[0, 1], 7, "return x.to(dtype)"), &place(&[0], 20, "y = x + 1")));
        let part = place(&[0], 7, "output = self._norm(x.float())");
        assert!(!is_meant(&part, &place(&[0], 9, "return output.type_as(x)")));
        let hidden = place(&[0], 7, "loss = self.loss_function(");
        assert!(is_meant(&hidden, &place(&[0], 7, "loss = self.loss_function(")));
        assert!(!is_meant(&hidden, &place(&[0], 9, "return loss, logits")));
    }
}
