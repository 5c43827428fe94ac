//! `torch.optim.swa_utils.AveragedModel` with `get_ema_multi_avg_fn`: a copy of the model beside it, updated after each step.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{TensorId, Weight};

use super::moves::Tensors;

/// The averaged copy of a model.
pub(crate) struct AveragedModel {
    /// Copies of weights and buffers.
    pub copies: Vec<Tensor>,
    /// The distinct element types of the weights: `update_parameters` updates one group after another.
    groups: usize,
    updates: u32,
}

impl AveragedModel {
    /// `AveragedModel(model)`: `deepcopy` copies a module's weights, then its buffers, then its children.
    pub(super) fn new(bound: &Bound<'_>, context: &mut Context, tensors: &Tensors) -> AveragedModel {
        context.memory().borrow_mut().set_category(Category::Parameters);
        let model = bound.model;
        let mut copies = Vec::with_capacity(model.move_order.len());
        for (weight, is_buffer) in copy_order(bound) {
            let Some(tensor) = &tensors[weight.0 as usize] else { continue };
            if tensor.is_on_host() {
                continue;
            }
            copies.push(context.empty(tensor.like(tensor.dtype())));
            if is_buffer {
                // `Tensor.__deepcopy__` makes a tensor of one element and gives it the copied storage.
                drop(context.empty_contiguous(tensor.dtype(), &[]));
            }
        }
        let mut dtypes: Vec<Dtype> = model.parameters.iter().map(|weight| bound.tensor(weight.tensor).dtype).collect();
        dtypes.sort();
        dtypes.dedup();
        AveragedModel { copies, groups: dtypes.len(), updates: 0 }
    }

    /// `update_parameters(model)`: the first call copies the weights, later ones move the copies towards them in place, with
    /// the number of updates as a tensor on the GPU.
    pub(super) fn update(&mut self, context: &mut Context) {
        context.memory().borrow_mut().set_category(Category::Temporary);
        if self.updates > 0 {
            for _ in 0..self.groups {
                drop(context.empty_contiguous(Dtype::Int64, &[]));
            }
        }
        self.updates += 1;
    }
}

/// A module with the tensors it holds itself.
#[derive(Default)]
struct Part<'n> {
    name: &'n str,
    weights: Vec<TensorId>,
    buffers: Vec<TensorId>,
    children: Vec<Part<'n>>,
}

impl<'n> Part<'n> {
    /// The part with this path below it, which is made if it is not there.
    fn at(&mut self, path: &'n str) -> &mut Part<'n> {
        if path.is_empty() {
            return self;
        }
        let (name, rest) = path.split_once('.').unwrap_or((path, ""));
        let index = self.children.iter().position(|child| child.name == name).unwrap_or_else(|| {
            self.children.push(Part { name, ..Part::default() });
            self.children.len() - 1
        });
        self.children[index].at(rest)
    }

    fn list(&self, order: &mut Vec<(TensorId, bool)>) {
        order.extend(self.weights.iter().map(|&id| (id, false)));
        order.extend(self.buffers.iter().map(|&id| (id, true)));
        self.children.iter().for_each(|child| child.list(order));
    }
}

/// Weights and buffers in the order in which `deepcopy` copies them, and whether each is a buffer. `model.cuda()` visits the
/// children of a module in the same order.
fn copy_order(bound: &Bound<'_>) -> Vec<(TensorId, bool)> {
    let model = bound.model;
    let mut root = Part::default();
    for &id in &model.move_order {
        let find = |list: &'_ [Weight]| list.iter().position(|weight| weight.tensor == id);
        let (weight, is_buffer) = match (find(&model.parameters), find(&model.buffers)) {
            (Some(index), _) => (&model.parameters[index], false),
            (None, Some(index)) => (&model.buffers[index], true),
            (None, None) => continue,
        };
        let Some(name) = weight.names.first() else { continue };
        let part = root.at(name.rsplit_once('.').map_or("", |(path, _)| path));
        if is_buffer { part.buffers.push(id) } else { part.weights.push(id) }
    }
    let mut order = Vec::with_capacity(model.move_order.len());
    root.list(&mut order);
    order
}
