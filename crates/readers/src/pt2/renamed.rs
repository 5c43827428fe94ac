//! Distinguishes a tensor from a cast of it that changed nothing.
//!
//! `x.to(dtype)` returns `x` itself where it has that type, and the tracer then uses the cast's name for `x`, even where the
//! code goes on with `x`. In another precision the two differ. The cast is meant in the statement that makes it and, if that
//! statement binds or returns it, after it in the same function or outside; everywhere else `x` is meant.

use hashbrown::HashMap;

use super::call_site::CallSite;
use super::flatten::{Flat, FlatCall, Item};
use vramfit_graph::model::{Argument, TensorId};

const CASTS: [&str; 7] = [".to(", ".float()", ".type(", ".type_as(", ".half()", ".double()", ".bfloat16()"];

/// A cast that changed nothing.
#[derive(Clone, Copy)]
struct Same {
    source: TensorId,
    site: u32,
}

/// Gives arguments and `outputs` the tensors that the code means.
pub(super) fn resolve(flat: &mut Flat, outputs: &mut [&mut Vec<TensorId>]) {
    let mut casts: HashMap<TensorId, Same> = HashMap::new();
    let mut items = std::mem::take(&mut flat.items);
    for item in &mut items {
        let Item::Call(call) = item else { continue };
        let site = &flat.sites.get(call.site);
        for argument in &mut call.arguments {
            argument.each_tensor_mut(&mut |tensor| *tensor = meant(flat, &casts, *tensor, site));
        }
        if let Some((source, result)) = unchanged(flat, call) {
            casts.insert(result, Same { source, site: call.site });
        }
    }
    flat.items = items;
    let outside = CallSite::default();
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

/// The tensor that the code at a site means by the name of a cast.
fn meant(flat: &Flat, casts: &HashMap<TensorId, Same>, mut tensor: TensorId, site: &CallSite) -> TensorId {
    while let Some(same) = casts.get(&tensor) {
        if is_meant(flat.sites.get(same.site), site) {
            break;
        }
        tensor = same.source;
    }
    tensor
}

/// Whether a cast made at one site is meant at another.
fn is_meant(made: &CallSite<'_>, used: &CallSite<'_>) -> bool {
    let depth = made.calls.len();
    let is_shown = CASTS.iter().any(|cast| made.text.contains(cast));
    if used.calls.len() < depth || used.calls[..depth] != made.calls[..] {
        return is_shown && made.text.starts_with("return");
    }
    let line = |site: &CallSite| depth.checked_sub(1).and_then(|depth| site.lines.get(depth)).map(|line| line.number);
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

#[cfg(test)]
mod tests {
    use super::super::call_site::Line;
    use super::*;

    fn site<'a>(calls: &[u32], number: u32, text: &'a str) -> CallSite<'a> {
        let line = Line { number, parsed: 0 };
        CallSite { calls: calls.to_vec(), lines: vec![line; calls.len()], source: None, text }
    }

    #[test]
    fn outside_of_a_function_a_cast_within_it_is_not_meant() {
        let cast = site(&[0, 1], 7, "hidden_states = hidden_states.to(torch.float32)");
        assert!(is_meant(&cast, &site(&[0, 1], 8, "variance = hidden_states.pow(2)")));
        assert!(!is_meant(&cast, &site(&[0], 20, "hidden_states = residual + hidden_states")));
        assert!(is_meant(&site(&[0, 1], 7, "return x.to(dtype)"), &site(&[0], 20, "y = x + 1")));
        let part = site(&[0], 7, "output = self._norm(x.float())");
        assert!(!is_meant(&part, &site(&[0], 9, "return output.type_as(x)")));
        let hidden = site(&[0], 7, "loss = self.loss_function(");
        assert!(is_meant(&hidden, &site(&[0], 7, "loss = self.loss_function(")));
        assert!(!is_meant(&hidden, &site(&[0], 9, "return loss, logits")));
    }
}
