//! `DistributedDataParallel`: a copy of the model whose gradients are reduced in buckets, as `reducer.cpp` has them.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_eager::autograd::engine::GradientHook;
use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::forward::ModuleHooks;
use vramfit_eager::memory::Category;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::buckets::{broadcast, by_size, by_size_in_order, size_of};
use super::sink::Sink;
use crate::optimizer::Parameter;
use crate::script::Replicated;

/// Bytes of the first bucket, whose gradients come first.
const FIRST_BUCKET: u64 = 1 << 20;
/// Bytes of the others.
const BUCKET: u64 = 25 << 20;

/// Gradients that are reduced together.
struct Bucket {
    memory: Tensor,
    weights: Vec<usize>,
}

/// A model wrapped in `DistributedDataParallel`.
pub(crate) struct Replica {
    settings: Replicated,
    /// The weights that are trained, by the number that hooks are called with.
    weights: Vec<(usize, Parameter)>,
    buffers: Vec<Tensor>,
    reducer: Rc<RefCell<Reducer>>,
    /// With a static graph: what the first step learns.
    sink: Option<Rc<Sink>>,
    /// Whether gradients are reduced in this micro-batch.
    reduces: bool,
    /// Whether the next forward pass broadcasts the buffers.
    broadcasts: bool,
}

/// What hooks on gradients see.
struct Reducer {
    buckets: Vec<Bucket>,
    /// The weights in the order in which their gradients were ready in the first backward pass.
    ready: Vec<usize>,
    has_rebuilt: bool,
    /// How many forward passes have begun whose gradients are reduced.
    iterations: u32,
}

impl Reducer {
    /// `mark_variable_ready`: copies a gradient into its bucket, and lets it be a view of that.
    fn copy_gradient(&self, weight: usize, gradient: &RefCell<Option<Tensor>>, are_views: bool) {
        let mut gradient = gradient.borrow_mut();
        if are_views
            && let Some(found) = gradient.as_ref()
            && let Some(bucket) = self.buckets.iter().find(|bucket| bucket.weights.contains(&weight))
            && found.storage().and_then(|storage| storage.id()) != bucket.memory.storage().and_then(|it| it.id())
        {
            *gradient = Some(bucket.memory.unsafe_view(found.shared_layout()));
        }
    }
}

impl Replica {
    /// The constructor. `states` are the model's weights, then its buffers.
    pub fn new(
        context: &mut Context,
        settings: Replicated,
        states: &[Tensor],
        buffers: Vec<Tensor>,
        parameters: &[Parameter],
    ) -> Replica {
        let is_trained = |(_, parameter): &(usize, &Parameter)| parameter.tensor.requires_grad();
        let weights: Vec<(usize, Parameter)> = parameters
            .iter()
            .enumerate()
            .filter(is_trained)
            .map(|(number, parameter)| (number, parameter.clone()))
            .collect();
        context.memory().borrow_mut().set_category(Category::Communication);
        verify(context, &weights, settings.world);
        broadcast(context, states);
        let sizes = sizes(&weights);
        // The order of use is not known yet: all gradients of a type are reduced at once.
        let mut indexes = by_size_in_order(&sizes, &[u64::MAX]);
        indexes.reverse();
        let buckets = allocate(context, &weights, indexes);
        let reducer = Reducer { buckets, ready: Vec::new(), has_rebuilt: false, iterations: 0 };
        let reducer = Rc::new(RefCell::new(reducer));
        let sink = settings.has_static_graph.then(|| Rc::new(Sink::new(context, weights.len())));
        Replica { settings, weights, buffers, reducer, sink, reduces: true, broadcasts: true }
    }

    /// `no_sync`, or its end.
    pub fn set_reduces(&mut self, reduces: bool) {
        self.reduces = reduces;
    }

    /// What the wrapper does before the model's forward pass.
    pub fn before_forward(&mut self, context: &mut Context) {
        context.memory().borrow_mut().set_category(Category::Communication);
        if context.is_grad_on() {
            self.reducer.borrow_mut().iterations += u32::from(self.reduces);
            self.rebuild(context);
        }
        if self.broadcasts && !self.buffers.is_empty() {
            broadcast(context, &self.buffers);
        }
        self.broadcasts = context.is_grad_on() && self.reduces;
    }

    /// Buckets in the order in which gradients were ready, once that is known.
    fn rebuild(&self, context: &Context) {
        let mut reducer = self.reducer.borrow_mut();
        if reducer.has_rebuilt || reducer.ready.len() < self.weights.len() {
            return;
        }
        reducer.has_rebuilt = true;
        let order = std::mem::take(&mut reducer.ready);
        let all = sizes(&self.weights);
        let ready: Vec<(Dtype, u64)> = order.iter().map(|&weight| all[weight]).collect();
        let buckets = by_size(&ready, &[FIRST_BUCKET, BUCKET]);
        // The first rank tells the others: the indexes, their number, and how many each bucket has.
        let indexes = context.storage(4 * (order.len() as u64 + 1));
        let counts = context.storage(4 * buckets.len() as u64);
        drop(counts);
        drop(indexes);
        reducer.buckets.clear();
        let weights = |bucket: Vec<usize>| bucket.into_iter().map(|position| order[position]).collect();
        reducer.buckets = allocate(context, &self.weights, buckets.into_iter().map(weights).collect());
    }

    /// The hook that is called when a weight has its gradient; `None` where nothing is reduced.
    pub fn hook(&self) -> Option<GradientHook> {
        if !self.reduces {
            return None;
        }
        let numbers: Vec<usize> = self.weights.iter().map(|(number, _)| *number).collect();
        let gradients: Vec<_> = self.weights.iter().map(|(_, weight)| Rc::clone(&weight.gradient)).collect();
        let (reducer, settings) = (Rc::clone(&self.reducer), self.settings.clone());
        Some(GradientHook(Rc::new(move |_: &mut Context, leaf: u32| {
            let Ok(weight) = numbers.binary_search(&(leaf as usize)) else { return };
            let mut reducer = reducer.borrow_mut();
            if settings.has_static_graph && reducer.iterations == 1 {
                return;
            }
            if !reducer.has_rebuilt {
                reducer.ready.push(weight);
            }
            reducer.copy_gradient(weight, &gradients[weight], settings.gradients_are_views);
        })))
    }

    /// The hooks on the model's outputs, where there are any.
    pub fn output_hooks(&self) -> Option<Rc<dyn ModuleHooks>> {
        Some(Rc::<Sink>::clone(self.sink.as_ref()?))
    }

    /// The callback at the end of a backward pass: the first with a static graph reduces all gradients.
    pub fn after_backward(&self) {
        if self.sink.as_ref().is_some_and(|sink| sink.take_reduction()) {
            let reducer = self.reducer.borrow();
            for (index, (_, weight)) in self.weights.iter().enumerate() {
                reducer.copy_gradient(index, &weight.gradient, self.settings.gradients_are_views);
            }
        }
    }

    /// Calls `look` with all memory that stays from step to step.
    pub fn each_tensor(&self, mut look: impl FnMut(&Tensor)) {
        self.reducer.borrow().buckets.iter().for_each(|bucket| look(&bucket.memory));
        self.sink.iter().for_each(|sink| look(sink.used()));
    }

    /// Whether the next step may request something else than the last.
    pub fn is_settled(&self) -> bool {
        self.reducer.borrow().has_rebuilt
    }
}

fn sizes(weights: &[(usize, Parameter)]) -> Vec<(Dtype, u64)> {
    weights.iter().map(|(_, weight)| size_of(&weight.tensor)).collect()
}

fn allocate(context: &Context, weights: &[(usize, Parameter)], buckets: Vec<Vec<usize>>) -> Vec<Bucket> {
    let filled = buckets.into_iter().filter_map(|bucket| {
        let dtype = weights[*bucket.first()?].1.tensor.dtype();
        let elements = bucket.iter().map(|&weight| weights[weight].1.tensor.layout().elements()).sum();
        Some(Bucket { memory: context.empty(Layout::contiguous(dtype, &[elements])), weights: bucket })
    });
    filled.collect()
}

/// `_verify_params_across_processes`: the ranks compare how many weights they have, then their shapes and strides.
fn verify(context: &Context, weights: &[(usize, Parameter)], world: u32) {
    let count = context.storage(8);
    let counts: Vec<_> = (0..world).map(|_| context.storage(8)).collect();
    let dims: usize = weights.iter().map(|(_, weight)| weight.tensor.shape().len()).sum();
    drop(context.storage(8 * 2 * dims as u64));
    drop(counts);
    drop(count);
}
