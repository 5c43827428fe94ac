//! Moving tensors to the GPU: inputs and targets, and single weights.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_graph::bind::{Bound, BoundTensor};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Input, TensorId};

/// The tensors that exist before a pass, by id.
pub(crate) type Tensors = Vec<Option<Tensor>>;

/// Moves inputs or targets one after another; those of the batch before are freed when all have been moved. Of a batch of
/// several micro-batches, the tensors are slices. Those that the model itself casts to a type have their own.
pub(super) fn move_inputs(
    bound: &Bound<'_>,
    context: &mut Context,
    tensors: &mut Tensors,
    inputs: &[Input],
    micro_batches: u32,
    cast_to: Option<Dtype>,
) {
    context.memory().borrow_mut().set_category(Category::Inputs);
    let first_size = |input: &Input| bound.tensor(input.tensor).shape.first().copied();
    let samples = bound.model.inputs.iter().find_map(first_size);
    let mut move_input = |input: &Input| {
        let mut part = layout(bound.tensor(input.tensor));
        if cast_to == Some(part.dtype) {
            part.dtype = input.dtype;
        }
        if micro_batches == 1 || first_size(input) != samples || samples.is_none() {
            return context.empty(part);
        }
        let mut whole = part.clone();
        whole.shape[0] *= i64::from(micro_batches);
        context.empty(whole).unsafe_view(part)
    };
    let moved: Vec<Tensor> = inputs.iter().map(&mut move_input).collect();
    for (input, tensor) in inputs.iter().zip(moved) {
        context.memory().borrow_mut().host_frees(tensor.memory_bytes());
        tensors[input.tensor.0 as usize] = Some(tensor);
    }
}

pub(crate) fn move_tensor(bound: &Bound<'_>, context: &mut Context, id: TensorId) -> Tensor {
    let tensor = bound.tensor(id);
    if tensor.is_on_host {
        return Tensor::on_host(layout(tensor));
    }
    let moved = context.empty(layout(tensor));
    context.memory().borrow_mut().host_frees(moved.memory_bytes());
    moved
}

pub(crate) fn layout(tensor: &BoundTensor) -> Layout {
    Layout { dtype: tensor.dtype, shape: tensor.shape.clone(), strides: tensor.strides.clone() }
}
