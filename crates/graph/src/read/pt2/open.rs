//! Operators that are shown as the calls inside them.

use super::flatten::FlatCall;
use crate::dtype::Dtype;
use crate::model::{Argument, Size, TensorId};

/// What opening an operator needs of whoever builds the calls.
pub(super) trait Workshop {
    /// An operator's number and its arguments where none is given.
    fn operator(&mut self, name: &str) -> (u32, Vec<Argument>);
    /// A call's argument of this name.
    fn argument(&self, call: &FlatCall, name: &str) -> Option<Argument>;
    fn shape(&self, tensor: TensorId) -> Vec<Size>;
    fn dtype(&self, tensor: TensorId) -> Dtype;
    /// A new contiguous tensor.
    fn make(&mut self, shape: Vec<Size>, dtype: Dtype) -> TensorId;
    fn set_dtype(&mut self, tensor: TensorId, dtype: Dtype);
}

/// Whether autocast has rules for the insides of an operator, though none for itself.
pub(super) fn is_opened_under_autocast(name: &str) -> bool {
    name == "aten.cross_entropy_loss.default"
}

/// `cross_entropy_loss` as a `log_softmax` in its argument's type and an `nll_loss`.
pub(super) fn cross_entropy(workshop: &mut impl Workshop, call: &FlatCall) -> Option<Vec<FlatCall>> {
    let Argument::Tensor(logits) = call.arguments[0] else { return None };
    let Argument::Tensor(target) = call.arguments[1] else { return None };
    let shape = workshop.shape(logits);
    let is_classes = matches!(workshop.dtype(target), Dtype::Int64 | Dtype::Uint8);
    let is_smooth = workshop.argument(call, "label_smoothing") != Some(Argument::Float(0.0));
    let loss = match shape.len() {
        2 => "aten.nll_loss.default",
        4 => "aten.nll_loss2d.default",
        _ => return None,
    };
    if !is_classes || is_smooth {
        return None;
    }
    let dtype = workshop.dtype(logits);
    let chances = workshop.make(shape, dtype);
    let (softmax, mut arguments) = workshop.operator("aten.log_softmax.int");
    arguments[0] = Argument::Tensor(logits);
    arguments[1] = Argument::Int(Size::Known(1));
    arguments[2] = Argument::Dtype(dtype);
    let first = FlatCall {
        operator: softmax,
        arguments,
        results: vec![Some(chances)],
        place: call.place,
        function: None,
    };
    let (operator, mut arguments) = workshop.operator(loss);
    arguments[0] = Argument::Tensor(chances);
    arguments[1] = Argument::Tensor(target);
    for (at, name) in [(2, "weight"), (3, "reduction"), (4, "ignore_index")] {
        arguments[at] = workshop.argument(call, name)?;
    }
    for result in call.results.iter().flatten() {
        workshop.set_dtype(*result, Dtype::Float32);
    }
    let second = FlatCall { operator, arguments, results: call.results.clone(), place: call.place, function: None };
    Some(vec![first, second])
}
