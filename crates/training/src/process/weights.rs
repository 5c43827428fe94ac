//! Moving a model's weights to the GPU.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor, engine};
use vramfit_eager::memory::Category;
use vramfit_eager::operators::is_flattened;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;

use super::moves::{Tensors, move_tensor};
use super::quantized::move_quantized;
use crate::optimizer::Parameter;

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
    let model = bound.model;
    let modules = model.modules.iter().filter(|module| module.is_recurrent());
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
