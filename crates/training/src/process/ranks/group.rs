//! The weights that one call of `fully_shard` shards: they are gathered together and their gradients reduced together.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::{Category, Storage, Stream};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::copies::{chunk_cat, split_with_sizes};
use crate::optimizer::Parameter;
use crate::script::{Reshard, Sharded};

/// A weight of which this rank has a shard.
pub(super) struct ShardedWeight {
    /// The first rank's shard, which is never padded, and its gradient.
    pub shard: Parameter,
    /// The unsharded weight, whose memory is there while it is gathered.
    pub unsharded: Tensor,
    /// The unsharded weight's gradient.
    pub gradient: Rc<RefCell<Option<Tensor>>>,
    /// The sum of gradients that were not reduced, in the type they will be reduced in.
    pub accumulated: Option<Tensor>,
    /// The shard over fewer ranks, held between forward and backward pass.
    pub post_forward_shard: Option<Storage>,
}

impl ShardedWeight {
    /// Elements of a shard.
    fn shard_elements(&self) -> u64 {
        self.shard.tensor.layout().elements() as u64
    }
}

/// What the group does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    Forward,
    BeforeBackward,
    AfterBackward,
}

/// What its weights are now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sharded over all ranks.
    Sharded,
    /// Sharded over fewer ranks.
    ShardedOver(u32),
    /// Gathered.
    Unsharded,
}

pub(super) struct Group {
    pub weights: Vec<ShardedWeight>,
    pub reshard_after_forward: Reshard,
    pub phase: Phase,
    pub state: State,
    /// The buffer of a gather that has not been copied out.
    pub gathered: Option<Storage>,
    /// Its positions in the order of forward passes.
    pub positions: Vec<usize>,
    /// What is being all-reduced over the replicas.
    pub reduced: Option<Tensor>,
}

/// The types of a group's tensors.
#[derive(Clone, Copy)]
pub(super) struct Types {
    /// Of the shards.
    pub stored: Dtype,
    /// Of the unsharded weights and their gradients.
    pub computed: Dtype,
    /// Of gradients on their way.
    pub reduced: Dtype,
}

impl Group {
    pub fn types(&self, settings: &Sharded) -> Types {
        let stored = self.weights[0].shard.tensor.dtype();
        let computed = self.weights[0].unsharded.dtype();
        Types { stored, computed, reduced: settings.reduce_dtype.unwrap_or(computed) }
    }

    /// How many elements of each weight a rank sends in the next gather.
    fn sent(&self, settings: &Sharded) -> (Vec<u64>, u64) {
        let ranks = match self.state {
            State::ShardedOver(ranks) => u64::from(ranks),
            _ => u64::from(settings.shards),
        };
        let whole = |weight: &ShardedWeight| weight.shard_elements() * u64::from(settings.shards);
        (self.weights.iter().map(|weight| whole(weight) / ranks).collect(), ranks)
    }

    /// `unshard`: all-gathers the weights into a buffer.
    pub fn unshard(&mut self, context: &Context, settings: &Sharded) {
        if self.gathered.is_some() || self.state == State::Unsharded {
            return;
        }
        let types = self.types(settings);
        let (sent, ranks) = self.sent(settings);
        let elements: u64 = sent.iter().sum();
        let bytes = types.computed.bytes();
        let before = context.memory().borrow_mut().set_stream(Stream::AllGather);
        context.memory().borrow_mut().set_category(Category::Communication);
        let mut inputs: Vec<Storage> = Vec::new();
        if settings.offloads {
            for &sent in &sent {
                let moved = context.storage(sent * types.stored.bytes());
                let is_cast = types.stored != types.computed;
                inputs.push(if is_cast { context.storage(sent * bytes) } else { moved });
            }
        } else if types.stored != types.computed {
            inputs.push(context.storage(elements * bytes));
        }
        self.gathered = Some(context.storage(elements * ranks * bytes));
        // A list frees its tensors from its end.
        while inputs.pop().is_some() {}
        context.memory().borrow_mut().set_stream(before);
    }

    /// `wait_for_unshard`: copies the all-gather's buffer into the unsharded weights. Returns the buffer.
    pub fn wait_for_unshard(&mut self, context: &Context, settings: &Sharded) -> Option<Storage> {
        let buffer = self.gathered.take()?;
        let (sent, ranks) = self.sent(settings);
        let bytes = self.types(settings).computed.bytes();
        for weight in &self.weights {
            weight.unsharded.storage().inspect(|storage| storage.resize_to_full());
        }
        context.memory().borrow_mut().set_category(Category::Communication);
        let rows: Vec<u64> = sent.iter().map(|sent| sent * bytes).collect();
        split_with_sizes(context, &rows, ranks);
        self.state = State::Unsharded;
        self.weights.iter_mut().for_each(|weight| weight.post_forward_shard = None);
        Some(buffer)
    }

    /// `reshard`.
    pub fn reshard(&mut self, context: &Context, settings: &Sharded) {
        let reshard = if self.phase == Phase::Forward { self.reshard_after_forward } else { Reshard::Yes };
        if reshard == Reshard::No || self.state != State::Unsharded {
            return;
        }
        context.memory().borrow_mut().set_category(Category::Parameters);
        for weight in &mut self.weights {
            if let Reshard::Over(ranks) = reshard {
                let whole = weight.shard_elements() * u64::from(settings.shards);
                weight.post_forward_shard =
                    Some(context.storage(whole / u64::from(ranks) * weight.unsharded.dtype().bytes()));
            }
            weight.unsharded.storage().inspect(|storage| storage.resize_to_nothing());
        }
        self.state = match reshard {
            Reshard::Over(ranks) => State::ShardedOver(ranks),
            _ => State::Sharded,
        };
    }

    /// Keeps this micro-batch's gradients, in the type they will be reduced in.
    pub fn keep_gradients(&mut self, context: &Context, settings: &Sharded) {
        let reduced = self.types(settings).reduced;
        context.memory().borrow_mut().set_category(Category::Gradients);
        for weight in &mut self.weights {
            let mut gradient = weight.gradient.borrow_mut();
            if let Some(found) = gradient.take_if(|gradient| gradient.dtype() != reduced) {
                weight.accumulated = Some(context.empty(found.like(reduced)));
            }
        }
    }

    /// Adds this micro-batch's gradients to those that were kept.
    pub fn add_gradients(&self) {
        for weight in self.weights.iter().filter(|weight| weight.accumulated.is_some()) {
            weight.gradient.borrow_mut().take();
        }
    }

    /// The weights that have a gradient, with it.
    pub fn take_gradients(&mut self) -> Vec<(usize, Tensor)> {
        let mut taken = Vec::new();
        for (index, weight) in self.weights.iter_mut().enumerate() {
            let gradient = weight.accumulated.take().or_else(|| weight.gradient.borrow_mut().take());
            taken.extend(gradient.map(|gradient| (index, gradient)));
        }
        taken
    }

    /// `foreach_reduce`: reduces gradients over the ranks. Returns the buffer that was sent.
    pub fn reduce(&mut self, context: &Context, settings: &Sharded, mut gradients: Vec<(usize, Tensor)>) -> Storage {
        let types = self.types(settings);
        let indexes: Vec<usize> = gradients.iter().map(|(index, _)| *index).collect();
        let bytes = types.reduced.bytes();
        let parts: Vec<u64> = indexes.iter().map(|&index| self.weights[index].shard_elements() * bytes).collect();
        let part: u64 = parts.iter().sum();
        context.memory().borrow_mut().set_category(Category::Communication);
        let sent = context.storage(part * u64::from(settings.shards));
        chunk_cat(context, &parts);
        // The list is cleared from its end, and a loop variable still holds its last gradient until the function returns.
        let last = gradients.pop();
        while gradients.pop().is_some() {}
        let before = context.memory().borrow_mut().set_stream(Stream::ReduceScatter);
        context.memory().borrow_mut().set_category(Category::Gradients);
        let flat = |bytes: u64, dtype: Dtype| Layout::contiguous(dtype, &[(bytes / dtype.bytes()) as i64]);
        let mut received = context.empty(flat(part, types.reduced));
        if settings.replicas > 1 {
            // What is all-reduced over the replicas is held until that is done.
            self.reduced = Some(received.clone());
            context.memory().borrow_mut().set_stream(Stream::AllReduce);
        }
        if types.reduced != types.stored {
            received = context.empty(flat(part / bytes * types.stored.bytes(), types.stored));
        }
        for &index in &indexes {
            let weight = &self.weights[index];
            let mut gradient = weight.shard.gradient.borrow_mut();
            if gradient.is_none() {
                let layout = weight.shard.tensor.shared_layout();
                *gradient =
                    Some(if settings.offloads { Tensor::on_host(layout) } else { received.unsafe_view(layout) });
            }
        }
        context.memory().borrow_mut().set_stream(before);
        drop(last);
        drop(received);
        sent
    }
}
