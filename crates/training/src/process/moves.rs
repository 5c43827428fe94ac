//! Moving weights, inputs and targets to the GPU.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use vramfit_graph::bind::{Bound, BoundTensor};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Input, TensorId};

use vramfit_eager::autograd::{Context, Tensor, engine};
use vramfit_eager::memory::Category;
use vramfit_eager::operators::is_flattened;
use vramfit_graph::layout::Layout;

use super::quantized::move_quantized;
use crate::optimizer::Parameter;

/// The tensors that exist before a pass, by id.
pub(crate) type Tensors = Vec<Option<Tensor>>;

/// `model.cuda()`; returns the weights as an optimizer takes them. Weights that the model itself has frozen are among them,
/// those in `frozen` are not. `table` is what a library that quantises weights keeps.
pub(super) fn move_model(
    bound: &Bound<'_>,
    context: &mut Context,
    tensors: &mut Tensors,
    frozen: &BTreeSet<TensorId>,
    table: &mut Option<Tensor>,
) -> Vec<Parameter> {
    let model = bound.model;
    context.memory().borrow_mut().set_category(Category::Parameters);
    let recurrent = recurrent_modules(bound);
    for &id in model.move_order.iter().chain(&bound.variant.constants) {
        if tensors[id.0 as usize].is_some() {
            continue;
        }
        let weight = model.parameters.get(id.0 as usize);
        if let Some((weight, quantization)) = weight.and_then(|weight| Some((weight, weight.quantization.as_ref()?))) {
            move_quantized(bound, context, tensors, weight, quantization, table);
            continue;
        }
        tensors[id.0 as usize] = Some(move_tensor(bound, context, id));
        if let Some(module) = recurrent.iter().find(|module| module.last() == Some(&id)) {
            flatten(context, tensors, module);
        }
    }
    let mut parameters = Vec::with_capacity(model.parameters.len());
    for weight in &model.parameters {
        if frozen.contains(&weight.tensor) {
            continue;
        }
        let slot = &mut tensors[weight.tensor.0 as usize];
        let Some(mut tensor) = slot.take() else { continue };
        let gradient = Rc::new(RefCell::new(None));
        if weight.requires_grad {
            let edge = engine::sink(Rc::clone(&gradient), tensor.shared_layout(), parameters.len() as u32);
            tensor = tensor.with_edge(Some(edge));
        }
        *slot = Some(tensor.clone());
        parameters.push(Parameter { tensor, gradient });
    }
    parameters
}

/// Gives another pass of a model that has been moved its weights and buffers; moves the pass's own constants.
pub(super) fn share_model(bound: &Bound<'_>, context: &mut Context, from: &Tensors, to: &mut Tensors) {
    let weights = bound.model.parameters.len() + bound.model.buffers.len();
    to[..weights].clone_from_slice(&from[..weights]);
    context.memory().borrow_mut().set_category(Category::Parameters);
    for &id in &bound.variant.constants {
        to[id.0 as usize] = Some(move_tensor(bound, context, id));
    }
}

/// The weights of each recurrent module, in the order of their moves.
fn recurrent_modules(bound: &Bound<'_>) -> Vec<Vec<TensorId>> {
    let is_recurrent = |class: &str| matches!(class, "LSTM" | "GRU" | "RNN");
    let model = bound.model;
    let modules = model.modules.iter().filter(|module| is_recurrent(&module.class));
    modules
        .filter_map(|module| module.path.as_deref())
        .map(|path| {
            let belongs = |name: &String| match path {
                "" => !name.contains('.'),
                _ => name
                    .strip_prefix(path)
                    .and_then(|rest| rest.strip_prefix('.'))
                    .is_some_and(|rest| !rest.contains('.')),
            };
            let weights = model.parameters.iter().filter(|weight| weight.names.iter().any(belongs));
            weights.map(|weight| weight.tensor).collect()
        })
        .collect()
}

/// `flatten_parameters`: the weights of a recurrent module move into one allocation.
fn flatten(context: &mut Context, tensors: &mut Tensors, weights: &[TensorId]) {
    let moved: Vec<Tensor> = weights.iter().filter_map(|id| tensors[id.0 as usize].take()).collect();
    let Some(dtype) = moved.first().map(Tensor::dtype) else { return };
    if moved.len() == weights.len() && is_flattened(dtype) {
        let whole = context.empty_contiguous(dtype, &[moved.iter().map(|weight| weight.layout().elements()).sum()]);
        for (id, weight) in weights.iter().zip(moved) {
            tensors[id.0 as usize] = Some(whole.unsafe_view(weight.shared_layout()));
        }
    } else {
        for (id, weight) in weights.iter().zip(moved) {
            tensors[id.0 as usize] = Some(weight);
        }
    }
}

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
    let moved = match tensor.is_on_host {
        true => Tensor::on_host(layout(tensor)),
        false => context.empty(layout(tensor)),
    };
    context.memory().borrow_mut().host_frees(moved.memory_bytes());
    moved
}

pub(crate) fn layout(tensor: &BoundTensor) -> Layout {
    Layout { dtype: tensor.dtype, shape: tensor.shape.clone(), strides: tensor.strides.clone() }
}
