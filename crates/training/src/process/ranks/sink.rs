//! `DistributedDataParallel(static_graph=True)`: the first backward pass learns which weights are used, and reduces at its end.

use std::cell::Cell;
use std::rc::Rc;

use vramfit_eager::autograd::{Backward, Context, Edge, Gradients, Node, Saved, Tensor};
use vramfit_eager::forward::ModuleHooks;
use vramfit_eager::memory::Category;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::TensorId;

/// `_DDPSink`: passes copies of the model's outputs on until its own backward has run once.
pub(super) struct Sink {
    /// Which weights are used, on the GPU.
    used: Tensor,
    progress: Rc<Cell<Progress>>,
}

/// How far learning the graph has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// No backward pass has run.
    Learning,
    /// The reduction at the end of this backward pass has been requested.
    Requested,
    Done,
}

impl Sink {
    /// `_set_static_graph`.
    pub fn new(context: &Context, weights: usize) -> Sink {
        let used = context.empty(Layout::contiguous(Dtype::Int32, &[weights as i64]));
        Sink { used, progress: Rc::new(Cell::new(Progress::Learning)) }
    }

    pub fn used(&self) -> &Tensor {
        &self.used
    }

    /// Whether all gradients are reduced at the end of this backward pass.
    pub fn take_reduction(&self) -> bool {
        let is_requested = self.progress.get() == Progress::Requested;
        if is_requested {
            self.progress.set(Progress::Done);
        }
        is_requested
    }
}

impl ModuleHooks for Sink {
    fn entered(&self, _: &mut Context, _: u32, _: &[TensorId], _: &mut [Option<Tensor>]) {}

    fn left(&self, context: &mut Context, module: u32, results: &[TensorId], tensors: &mut [Option<Tensor>]) {
        if module != 0 || self.progress.get() != Progress::Learning {
            return;
        }
        context.memory().borrow_mut().set_category(Category::Activations);
        let outputs: Vec<(TensorId, Tensor)> =
            results.iter().filter_map(|id| Some((*id, tensors[id.0 as usize].clone()?))).collect();
        let copies: Vec<Tensor> =
            outputs.iter().map(|(_, output)| context.empty(output.like(output.dtype()))).collect();
        let inputs: Vec<Option<&Tensor>> = outputs.iter().map(|(_, output)| Some(output)).collect();
        let backward = SinkBackward(Rc::clone(&self.progress));
        let Some(edge) = context.record(&inputs, inputs.len(), |_| Saved::new(), backward) else { return };
        for (output, ((id, original), copy)) in outputs.iter().zip(copies).enumerate() {
            // What has no graph is returned as it is.
            if original.requires_grad() {
                tensors[id.0 as usize] = Some(copy.with_edge(Some(Edge { output, ..edge.clone() })));
            }
        }
    }
}

struct SinkBackward(Rc<Cell<Progress>>);

impl std::fmt::Debug for SinkBackward {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SinkBackward")
    }
}

impl Backward for SinkBackward {
    fn apply(&self, _: &mut Context, _: &Node, gradients: &mut Gradients) -> Gradients {
        if self.0.get() == Progress::Learning {
            self.0.set(Progress::Requested);
        }
        std::mem::take(gradients)
    }
}
