//! What type a result has once the model is cast, given its arguments' types.

use super::flatten::{FlatCall, Value};
use vramfit_eager::operators::Promotion;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

/// Whether a type is one of those that `.to(dtype)` changes.
pub(super) fn is_real(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float16 | Dtype::Bfloat16 | Dtype::Float32 | Dtype::Float64)
}

/// The type of two real types together.
pub(super) fn wider(one: Dtype, other: Dtype) -> Dtype {
    match (one, other) {
        _ if one == other => one,
        (Dtype::Float16, Dtype::Bfloat16) | (Dtype::Bfloat16, Dtype::Float16) => Dtype::Float32,
        _ if one.bytes() > other.bytes() => one,
        _ => other,
    }
}

/// What types tensors have now.
pub(super) struct Types<'a> {
    /// As exported.
    pub(super) values: &'a [Value],
    /// As cast.
    pub(super) dtypes: &'a [Dtype],
    /// As cast for this call alone.
    pub(super) replaced: &'a [(TensorId, Dtype)],
    /// Which arguments of the operator give its result its type.
    pub(super) promotion: Promotion,
}

impl Types<'_> {
    /// The type that a call gives to this one of its results; `named` is a type that its arguments name.
    pub(super) fn result(&self, call: &FlatCall, result: TensorId, named: Option<Dtype>) -> Dtype {
        let before = self.values[result.0 as usize].dtype;
        if !is_real(before) {
            return before;
        }
        if let Some(named) = named {
            return named;
        }
        let tensors = real_tensors(call, self.values);
        let promoted = |dtype: &dyn Fn(TensorId) -> Dtype| {
            // Scalars on the GPU count only where nothing else does.
            let ranked = |is_scalar: bool| {
                let chosen = tensors.iter().filter(|it| self.values[it.0 as usize].shape.is_empty() == is_scalar);
                chosen.map(|it| dtype(*it)).reduce(wider)
            };
            ranked(false).or_else(|| ranked(true))
        };
        let was = |tensor: TensorId| self.values[tensor.0 as usize].dtype;
        let is = |tensor: TensorId| match self.replaced.iter().find(|(replaced, _)| *replaced == tensor) {
            Some((_, dtype)) => *dtype,
            None => self.dtypes[tensor.0 as usize],
        };
        match (promoted(&was), promoted(&is)) {
            (Some(old), Some(new)) if old == before && self.promotion == Promotion::Widest => new,
            _ => match tensors.first() {
                Some(first) if was(*first) == before => is(*first),
                _ => before,
            },
        }
    }
}

/// Whether a tensor has no elements: code makes such ones to join others to, in the others' type.
fn is_empty(value: &Value) -> bool {
    value.shape.contains(&Size::Known(0))
}

/// The real-valued tensors among a call's arguments, as exported.
fn real_tensors(call: &FlatCall, values: &[Value]) -> Vec<TensorId> {
    let mut tensors = Vec::new();
    let mut add = |argument: &Argument| {
        if let Argument::Tensor(tensor) = argument
            && values.get(tensor.0 as usize).is_some_and(|value| is_real(value.dtype) && !is_empty(value))
        {
            tensors.push(*tensor);
        }
    };
    for argument in &call.arguments {
        match argument {
            Argument::List(items) => items.iter().for_each(&mut add),
            other => add(other),
        }
    }
    tensors
}

/// Whether the code names the type of a cast or factory itself, rather than taking that of another tensor. `is_by_method`
/// says whether `.float()` or one like it was called.
pub(super) fn is_named_by_code(operator: &str, is_by_method: bool, text: &str) -> bool {
    const NAMES: [&str; 6] = ["float32", "float16", "torch.float", "torch.half", "torch.double", "float64"];
    if is_by_method {
        return true;
    }
    let is_cast = operator.starts_with("aten.to.") || operator.starts_with("aten._to_copy");
    let begin = if is_cast { ".to(" } else { "dtype=" };
    match text.rfind(begin) {
        Some(at) => {
            let rest = &text[at + begin.len()..];
            let end = rest.find(if is_cast { &[')'][..] } else { &[')', ','][..] }).unwrap_or(rest.len());
            NAMES.iter().any(|name| rest[..end].contains(name))
        }
        None => is_cast && (text.contains(".float()") || text.contains(".double()")),
    }
}

/// Whether a cast is one to another device only; the exporter writes its argument's type into it.
pub(super) fn is_only_moved(operator: &str, text: &str) -> bool {
    if operator != "aten.to.dtype_layout" {
        return false;
    }
    match text.rfind(".to(") {
        Some(at) => {
            let rest = &text[at + 4..];
            !rest[..rest.find(')').unwrap_or(rest.len())].contains("dtype")
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_names_no_type() {
        assert!(is_only_moved("aten.to.dtype_layout", "x = self.inv_freq[None].float().expand(b, -1, 1).to(x.device)"));
        assert!(!is_only_moved("aten.to.dtype_layout", "x = x.to(dtype=torch.float, device=x.device)"));
        assert!(!is_only_moved("aten.to.dtype", "x = x.to(x.device)"));
    }

    #[test]
    fn the_code_tells_whether_a_type_is_its_own() {
        let cast = "aten.to.dtype";
        assert!(is_named_by_code(cast, false, "hidden_states = hidden_states.to(torch.float32)"));
        assert!(!is_named_by_code(cast, false, "return self.weight * hidden_states.to(input_dtype)"));
        assert!(is_named_by_code(cast, true, "loss = self.loss_function("));
        assert!(!is_named_by_code(cast, false, "w = softmax(w, dim=-1, dtype=torch.float32).to(query.dtype)"));
        assert!(is_named_by_code(
            "aten.softmax.int",
            false,
            "w = softmax(w, dim=-1, dtype=torch.float32).to(query.dtype)"
        ));
    }

    #[test]
    fn halves_together_are_single() {
        assert_eq!(wider(Dtype::Float16, Dtype::Bfloat16), Dtype::Float32);
        assert_eq!(wider(Dtype::Bfloat16, Dtype::Float32), Dtype::Float32);
        assert_eq!(wider(Dtype::Float64, Dtype::Float32), Dtype::Float64);
    }
}
