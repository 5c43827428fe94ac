//! Moving weights, inputs and targets to the GPU.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_graph::bind::{Bound, BoundTensor};
use vramfit_graph::model::Input;

use crate::engine;
use crate::memory::{Category, Happening};
use crate::ops::Context;
use crate::optimizer::Parameter;
use crate::tensor::{Layout, Tensor};

/// Tensors that exist before a pass, by number.
pub(super) type Tensors = Vec<Option<Tensor>>;

/// As `model.cuda()`; returns the weights as the optimizer takes them, frozen ones too.
pub(super) fn move_model(bound: &Bound<'_>, context: &mut Context, tensors: &mut Tensors) -> Vec<Parameter> {
    let model = bound.model;
    context.memory().borrow_mut().set_category(Category::Parameters);
    for &id in model.move_order.iter().chain(&bound.variant.constants) {
        let tensor = bound.tensor(id);
        tensors[id.0 as usize] = Some(match tensor.is_on_host {
            true => Tensor::on_host(layout(tensor)),
            false => context.empty(layout(tensor)),
        });
        context.memory().borrow_mut().tell(Happening::HostFrees(layout(tensor).bytes()));
    }
    let mut parameters = Vec::with_capacity(model.parameters.len());
    for weight in &model.parameters {
        let place = &mut tensors[weight.tensor.0 as usize];
        let Some(mut tensor) = place.take() else { continue };
        let gradient = Rc::new(RefCell::new(None));
        if weight.requires_grad {
            let edge = engine::sink(Rc::clone(&gradient), tensor.layout(), 0);
            tensor = tensor.with_edge(Some(edge));
        }
        *place = Some(tensor.clone());
        parameters.push(Parameter { tensor, gradient });
    }
    parameters
}

/// Moves inputs or targets one after another; those that were there before go when all have been moved.
pub(super) fn move_inputs(bound: &Bound<'_>, context: &mut Context, tensors: &mut Tensors, inputs: &[Input]) {
    context.memory().borrow_mut().set_category(Category::Inputs);
    let moved: Vec<Tensor> = inputs.iter().map(|input| context.empty(layout(bound.tensor(input.tensor)))).collect();
    for (input, tensor) in inputs.iter().zip(moved) {
        context.memory().borrow_mut().tell(Happening::HostFrees(tensor.layout().bytes()));
        tensors[input.tensor.0 as usize] = Some(tensor);
    }
}

fn layout(tensor: &BoundTensor) -> Layout {
    Layout { dtype: tensor.dtype, shape: tensor.shape.clone(), strides: tensor.strides.clone() }
}
