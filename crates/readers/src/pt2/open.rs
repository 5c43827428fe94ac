//! Operators that are replaced by the calls that eager PyTorch makes inside them.

mod einsum;
mod loss;
mod pad;
mod small;

use super::flatten::FlatCall;
use super::precision::{is_real, wider};
use vramfit_eager::operators::{self, Autocast};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

/// What decomposing an operator needs from the code that builds the calls.
pub(super) trait Workshop {
    /// An operator's number and its arguments where none is given.
    fn operator(&mut self, name: &str) -> (u32, Vec<Argument>);
    /// A call's argument of this name.
    fn argument(&self, call: &FlatCall, name: &str) -> Option<Argument>;
    fn shape(&self, tensor: TensorId) -> Vec<Size>;
    fn dtype(&self, tensor: TensorId) -> Dtype;
    fn requires_grad(&self, tensor: TensorId) -> bool;
    /// Whether a tensor is known to be contiguous.
    fn is_contiguous(&self, tensor: TensorId) -> bool;
    /// A new contiguous tensor.
    fn make(&mut self, shape: Vec<Size>, dtype: Dtype) -> TensorId;
    /// A new view of a part of a tensor, with that one's strides.
    fn make_part(&mut self, of: TensorId, shape: Vec<Size>) -> TensorId;
    /// The product of some sizes, where there is such a number or expression.
    fn product(&mut self, sizes: &[Size]) -> Option<Size>;
    /// The lower precision, where autocast is on.
    fn autocast(&self) -> Option<Dtype>;
    fn set_dtype(&mut self, tensor: TensorId, dtype: Dtype);
}

/// An event inside an operator.
pub(super) enum Part {
    Call(FlatCall),
    /// C++ drops these.
    End(Vec<TensorId>),
}

/// Decomposes a call; `None` leaves it whole.
pub(super) type Opener<W> = fn(Inside<'_, W>) -> Option<Vec<Part>>;

/// How to decompose calls of an operator; `None` where they are kept whole.
pub(super) fn opener<W: Workshop>(name: &str) -> Option<Opener<W>> {
    Some(match name {
        "aten.einsum.default" => einsum::einsum,
        "aten.pad.default" => pad::pad,
        "aten.cross_entropy_loss.default" => loss::cross_entropy,
        "aten.rms_norm.default" => small::rms_norm,
        "aten.argsort.default" | "aten.argsort.stable" => small::argsort,
        "aten.conv1d.padding" | "aten.conv2d.padding" | "aten.conv3d.padding" => small::padded_convolution,
        "aten.embedding_bag.default" | "aten.embedding_bag.padding_idx" => small::embedding_bag,
        _ => return None,
    })
}

/// A call that is being decomposed. What is made inside lives until its end, or until it is dropped.
pub(super) struct Inside<'a, W> {
    workshop: &'a mut W,
    call: &'a FlatCall,
    parts: Vec<Part>,
    held: Vec<TensorId>,
}

impl<'a, W: Workshop> Inside<'a, W> {
    pub(super) fn new(workshop: &'a mut W, call: &'a FlatCall) -> Inside<'a, W> {
        Inside { workshop, call, parts: Vec::new(), held: Vec::new() }
    }

    /// The call's argument of this name.
    fn argument(&self, name: &str) -> Option<Argument> {
        self.workshop.argument(self.call, name)
    }

    fn tensor(&self, name: &str) -> Option<TensorId> {
        match self.argument(name) {
            Some(Argument::Tensor(tensor)) => Some(tensor),
            _ => None,
        }
    }

    fn shape(&self, tensor: TensorId) -> Vec<Size> {
        self.workshop.shape(tensor)
    }

    /// The type of a call's result: as autocast has it, or that of its arguments together.
    fn result_dtype(&self, name: &str, arguments: &[Argument]) -> Dtype {
        let named = arguments.iter().find_map(|it| if let Argument::Dtype(dtype) = it { Some(*dtype) } else { None });
        let (mut scalar, mut wide) = (None, None);
        arguments.iter().for_each(|argument| {
            argument.each_tensor(&mut |tensor| {
                let dtype = self.workshop.dtype(tensor);
                let found = if self.shape(tensor).is_empty() { &mut scalar } else { &mut wide };
                if is_real(dtype) {
                    *found = Some(found.map_or(dtype, |found| wider(found, dtype)));
                }
            })
        });
        let own = named.or(wide).or(scalar).unwrap_or(Dtype::Float32);
        match (self.workshop.autocast(), operators::facts(operators::find(name)).autocast) {
            (None, _) | (_, Autocast::Unchanged) => own,
            _ if own == Dtype::Float64 => own,
            (Some(lower), Autocast::Lower) => lower,
            (Some(lower), Autocast::Widest) => wider(own, lower),
            (Some(_), Autocast::SingleByDtype) => named.unwrap_or(Dtype::Float32),
            (Some(_), Autocast::Single) => Dtype::Float32,
        }
    }

    /// Adds a call with these first arguments.
    fn push(&mut self, name: &str, arguments: Vec<Argument>, results: Vec<Option<TensorId>>) {
        let (operator, mut all) = self.workshop.operator(name);
        let count = arguments.len().min(all.len());
        all.splice(..count, arguments);
        self.parts.push(Part::Call(FlatCall {
            operator,
            arguments: all,
            results,
            site: self.call.site,
            is_by_method: false,
        }));
    }

    /// Adds a call that makes a tensor of this shape.
    fn add(&mut self, name: &str, arguments: Vec<Argument>, shape: Vec<Size>) -> TensorId {
        let dtype = self.result_dtype(name, &arguments);
        self.add_as(dtype, name, arguments, shape)
    }

    /// Adds a call that makes a tensor of this type and shape.
    fn add_as(&mut self, dtype: Dtype, name: &str, arguments: Vec<Argument>, shape: Vec<Size>) -> TensorId {
        let result = self.workshop.make(shape, dtype);
        self.held.push(result);
        self.push(name, arguments, vec![Some(result)]);
        result
    }

    /// Adds a call that writes into a tensor.
    fn write(&mut self, name: &str, tensor: TensorId, more: &[Argument]) {
        let arguments = std::iter::once(Argument::Tensor(tensor)).chain(more.iter().cloned()).collect();
        self.push(name, arguments, vec![Some(tensor)]);
    }

    /// Drops tensors that were made inside; others are left alone.
    fn drop(&mut self, tensors: &[TensorId]) {
        let (ended, held) = self.held.iter().partition(|tensor| tensors.contains(*tensor));
        self.held = held;
        self.parts.push(Part::End(ended));
    }

    /// The parts, the last of which is a call that makes the operator's result.
    fn end(self, name: &str, arguments: Vec<Argument>) -> Option<Vec<Part>> {
        let dtype = self.result_dtype(name, &arguments);
        self.end_as(dtype, name, arguments)
    }

    /// The parts, the last of which is a call that makes the operator's result in this type.
    fn end_as(mut self, dtype: Dtype, name: &str, arguments: Vec<Argument>) -> Option<Vec<Part>> {
        let [Some(result)] = self.call.results[..] else { return None };
        self.workshop.set_dtype(result, dtype);
        self.push(name, arguments, vec![Some(result)]);
        Some(self.finish())
    }

    /// The parts, and the end of all that is still held.
    fn finish(mut self) -> Vec<Part> {
        self.parts.push(Part::End(self.held.into_iter().rev().collect()));
        self.parts
    }
}

/// The size of a missing dimension.
const ONE: Size = Size::Known(1);

/// A whole number as an argument.
fn int(value: i64) -> Argument {
    Argument::Int(Size::Known(value))
}

/// Some sizes as an argument.
fn list(sizes: &[Size]) -> Argument {
    Argument::List(sizes.iter().map(|size| Argument::Int(*size)).collect())
}

/// Some whole numbers as an argument.
fn ints(values: &[usize]) -> Argument {
    Argument::List(values.iter().map(|value| int(*value as i64)).collect())
}
