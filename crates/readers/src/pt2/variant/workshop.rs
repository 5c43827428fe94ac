//! What opened operators ask of the variant that is being made.

use super::{Builder, Shape};
use crate::pt2::flatten::FlatCall;
use crate::pt2::open;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

impl open::Workshop for Builder<'_> {
    fn operator(&mut self, name: &str) -> (u32, Vec<Argument>) {
        let number = self.operators.number(name);
        (number, self.operators.defaults(number))
    }

    fn argument(&self, call: &FlatCall, name: &str) -> Option<Argument> {
        self.operators.argument(call.operator, name).and_then(|at| call.arguments.get(at)).cloned()
    }

    fn shape(&self, tensor: TensorId) -> Vec<Size> {
        match &self.calls.shapes[tensor.0 as usize] {
            Shape::Of(value) => self.flat.values[value.0 as usize].shape.clone(),
            Shape::Own(sizes) | Shape::Part(_, sizes) => sizes.clone(),
        }
    }

    fn dtype(&self, tensor: TensorId) -> Dtype {
        self.calls.dtypes[tensor.0 as usize]
    }

    fn requires_grad(&self, tensor: TensorId) -> bool {
        self.calls.requires_grad[tensor.0 as usize]
    }

    fn is_contiguous(&self, tensor: TensorId) -> bool {
        self.flat.values.get(tensor.0 as usize).is_none_or(|value| !value.is_view)
    }

    fn make(&mut self, shape: Vec<Size>, dtype: Dtype) -> TensorId {
        self.add(Shape::Own(shape), dtype, false)
    }

    fn make_part(&mut self, of: TensorId, shape: Vec<Size>) -> TensorId {
        self.add(Shape::Part(of, shape), self.dtype(of), false)
    }

    fn product(&mut self, sizes: &[Size]) -> Option<Size> {
        self.products.of(sizes)
    }

    fn autocast(&self) -> Option<Dtype> {
        self.autocast.last().copied().flatten()
    }

    fn set_dtype(&mut self, tensor: TensorId, dtype: Dtype) {
        self.calls.dtypes[tensor.0 as usize] = dtype;
    }
}
