//! `parallelize_module`: linear layers of which each rank has columns or rows, and the sums over ranks around them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use vramfit_eager::autograd::{Backward, Context, Edge, Gradients, Node, Saved, Tensor};
use vramfit_eager::forward::ModuleHooks;
use vramfit_eager::launch::Launch;
use vramfit_eager::memory::{Category, Storage};
use vramfit_eager::tensor_parallel::{LayerSplit, split_layers, weights_of};
use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;

use crate::process::moves::{Tensors, layout, move_tensor};

/// The hooks on split layers.
pub(crate) struct SplitLayers {
    layers: BTreeMap<u32, LayerSplit>,
    /// What the open module was given.
    given: RefCell<Option<(TensorId, Tensor)>>,
}

/// `parallelize_module` on a model in the CPU's memory: each weight goes to the GPU whole, and this rank's part of it stays.
pub(crate) fn split_model(bound: &Bound<'_>, context: &mut Context, tensors: &mut Tensors, world: u32) -> SplitLayers {
    let layers = split_layers(bound);
    for (&module, &split) in &layers {
        let [weight, bias] = weights_of(bound.model, module);
        for (index, is_bias) in [(weight, false), (bias, true)] {
            let Some(index) = index else { continue };
            let id = bound.model.parameters[index].tensor;
            context.memory().borrow_mut().set_category(Category::Parameters);
            let is_whole = is_bias && split == LayerSplit::Rows;
            tensors[id.0 as usize] = Some(if is_whole {
                move_tensor(bound, context, id)
            } else {
                scattered(bound, context, id, split, world)
            });
        }
    }
    SplitLayers { layers, given: RefCell::default() }
}

/// `distribute_tensor`: the whole weight, cut into parts, of which one is kept.
fn scattered(bound: &Bound<'_>, context: &mut Context, id: TensorId, split: LayerSplit, world: u32) -> Tensor {
    let bytes = bound.tensor(id).bytes;
    let whole = context.storage(bytes * u64::from(world));
    // Rows are not contiguous in the whole weight: they are copied.
    let copies = if split == LayerSplit::Rows { world } else { 0 };
    let mut parts: Vec<Storage> = (0..copies).map(|_| context.storage(bytes)).collect();
    if copies > 0 {
        context.launched(Launch::LocalMemory);
    }
    let part = context.empty(layout(bound.tensor(id)));
    while parts.pop().is_some() {}
    drop(whole);
    // The weight in the CPU's memory is freed.
    context.memory().borrow_mut().host_frees(bytes * u64::from(world));
    part
}

impl ModuleHooks for SplitLayers {
    fn entered(&self, context: &mut Context, module: u32, given: &[TensorId], tensors: &mut [Option<Tensor>]) {
        match self.layers.get(&module) {
            Some(LayerSplit::Columns) => {
                let Some(&id) = given.first() else { return };
                let Some(input) = tensors[id.0 as usize].clone() else { return };
                if let Some(edge) = context.record(&[Some(&input)], 1, |_| Saved::new(), SumOfGradients) {
                    tensors[id.0 as usize] =
                        Some(input.view(input.shared_layout()).with_edge(Some(Edge { output: 0, ..edge })));
                    *self.given.borrow_mut() = Some((id, input));
                }
            }
            Some(LayerSplit::Rows) => context.adds_bias_share = true,
            None => {}
        }
    }

    fn left(&self, context: &mut Context, module: u32, results: &[TensorId], tensors: &mut [Option<Tensor>]) {
        match self.layers.get(&module) {
            Some(LayerSplit::Columns) => {
                if let Some((id, input)) = self.given.borrow_mut().take()
                    && let Some(slot) = tensors[id.0 as usize].as_mut()
                {
                    *slot = input;
                }
            }
            Some(LayerSplit::Rows) => {
                context.adds_bias_share = false;
                // `all_reduce` adds up a copy.
                for TensorId(id) in results {
                    if let Some(partial) = tensors[*id as usize].take() {
                        let sum = context.empty(partial.like(partial.dtype()));
                        tensors[*id as usize] = Some(sum.with_edge(partial.edge().cloned()));
                    }
                }
            }
            None => {}
        }
    }
}

/// Adds up the gradients of what all ranks were given: `all_reduce` of a copy.
#[derive(Debug)]
struct SumOfGradients;

impl Backward for SumOfGradients {
    fn apply(&self, context: &mut Context, _: &Node, gradients: &mut Gradients) -> Gradients {
        let mut summed = std::mem::take(gradients);
        for gradient in summed.iter_mut().flatten() {
            *gradient = context.empty(gradient.like(gradient.dtype()));
        }
        summed
    }
}
