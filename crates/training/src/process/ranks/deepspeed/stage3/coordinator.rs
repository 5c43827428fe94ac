//! Gathers weights before modules use them and frees them afterwards, as `PartitionedParameterCoordinator` does.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use vramfit_eager::autograd::Context;
use vramfit_eager::memory::{Category, Storage, Stream};
use vramfit_graph::dtype::Dtype;

use super::trace::{Trace, Weights};
use super::weights::{Partitioned, Status, Weight};
use crate::script::{DeepSpeed, Gathering};

/// An all-gather that runs.
struct Gather {
    /// Its weights, in their order.
    weights: Vec<usize>,
    /// Where several weights arrive; one arrives in its own memory.
    buffer: Option<Storage>,
}

pub(super) struct Coordinator {
    pub partitioned: Partitioned,
    world: i64,
    /// Whether all-gathers have a stream of their own.
    overlaps: bool,
    gathering: Gathering,
    /// Whether this rank's parts come from the CPU.
    offloads: bool,
    trace: Trace,
    /// By weight: the all-gather that it is on its way with. A buffer is freed with the last of them.
    in_flight: BTreeMap<usize, Rc<Gather>>,
    /// Elements of gathered weights.
    available: i64,
    /// The modules whose backward pass is under way.
    backward: Vec<u32>,
    /// Frozen weights that a recomputed region gathered, by the module whose backward pass was under way: its end frees them.
    recomputed: BTreeMap<u32, BTreeSet<usize>>,
}

impl Coordinator {
    pub fn new(partitioned: Partitioned, settings: &DeepSpeed) -> Coordinator {
        Coordinator {
            partitioned,
            world: i64::from(settings.world),
            overlaps: settings.overlaps,
            gathering: settings.gathering,
            offloads: settings.offloads_weights,
            trace: Trace::default(),
            in_flight: BTreeMap::new(),
            available: 0,
            backward: Vec::new(),
            recomputed: BTreeMap::new(),
        }
    }

    /// Whether a pass requests what the pass before it did.
    pub fn is_settled(&self) -> bool {
        self.trace.is_complete()
    }

    fn stream(&self) -> Stream {
        if self.overlaps { Stream::AllGather } else { Stream::Compute }
    }

    /// `reset_step`, when the model is called.
    pub fn begin_pass(&mut self, context: &Context) {
        self.drop_in_flight(context);
        context.memory().borrow_mut().set_category(Category::Communication);
        for length in self.trace.begin(&self.partitioned, self.partitioned.weights.len()) {
            // The first rank's length, then its list, is sent to the others.
            drop(context.empty_contiguous(Dtype::Int64, &[]));
            drop(context.empty_contiguous(Dtype::Int64, &[length as i64]));
        }
        self.available = 0;
    }

    /// `_clean_inflight_param_registry`.
    fn drop_in_flight(&mut self, context: &Context) {
        for (weight, gather) in std::mem::take(&mut self.in_flight) {
            self.wait(context, &gather);
            self.release(weight);
        }
    }

    /// `fetch_sub_module`, before a module's forward or backward pass.
    pub fn fetch(&mut self, context: &Context, module: u32, is_forward: bool) {
        if self.trace.call(module) {
            self.drop_in_flight(context);
        }
        if !is_forward && !self.backward.contains(&module) {
            self.backward.push(module);
        }
        let own = self.partitioned.of_module(module).to_vec();
        self.gather(context, &own);
        for weight in own {
            self.partitioned.weights[weight].modules.insert(module);
            if is_forward {
                self.note_recomputed(weight);
            }
            if let Some(gather) = self.in_flight.remove(&weight) {
                self.wait(context, &gather);
            }
        }
        let room = self.gathering.ahead.min(self.gathering.live - self.available);
        let ahead = self.trace.ahead(&self.partitioned, module, room);
        self.gather(context, &ahead);
        self.trace.advance();
        if is_forward {
            self.gather_external(context, module);
        }
    }

    /// `update_recompute_parameters`, of a weight that a forward pass uses: within a backward pass that is a recomputed region's.
    fn note_recomputed(&mut self, index: usize) {
        let weight = &mut self.partitioned.weights[index];
        if let Some(&owner) = self.backward.last()
            && !weight.is_trained
        {
            weight.modules.insert(owner);
            self.recomputed.entry(owner).or_default().insert(index);
        }
    }

    /// Reading a weight that is absent gathers it, on the stream that computes. Modules read such weights when they are called.
    fn gather_external(&mut self, context: &Context, module: u32) {
        for index in self.partitioned.find_external(module) {
            self.gather_at_once(context, &[index]);
        }
    }

    /// `_allgather_params_sequential` and `_allgather_params_coalesced`, of those that are absent: a weight arrives in its own memory, with
    /// the last part's padding. Of a single weight the part comes from the CPU when the memory is there, of several all parts come before.
    fn gather_at_once(&mut self, context: &Context, weights: &[usize]) {
        let is_absent = |weight: &usize| self.partitioned.is_absent(*weight);
        let absent: Vec<usize> = weights.iter().copied().filter(is_absent).collect();
        let is_single = absent.len() == 1;
        let mut parts = if is_single { Vec::new() } else { self.upload(context, &absent) };
        for &index in &absent {
            let weight = &mut self.partitioned.weights[index];
            weight.fill(weight.part * self.world);
            weight.status = Status::Present;
        }
        if is_single {
            parts = self.upload(context, &absent);
        }
        // A local variable holds the last part longer than its list.
        let last = parts.pop();
        parts.into_iter().rev().for_each(drop);
        drop(last);
    }

    /// Copies of this rank's parts on the GPU, where they are on the CPU.
    fn upload(&self, context: &Context, weights: &[usize]) -> Vec<Storage> {
        if !self.offloads {
            return Vec::new();
        }
        context.memory().borrow_mut().set_category(Category::Communication);
        weights.iter().map(|&weight| self.partitioned.weights[weight].uploaded_part(context)).collect()
    }

    /// `all_gather_coalesced` of those that are absent.
    fn gather(&mut self, context: &Context, weights: &[usize]) {
        let mut absent: Vec<usize> =
            weights.iter().copied().filter(|&weight| self.partitioned.is_absent(weight)).collect();
        if absent.is_empty() {
            return;
        }
        absent.sort_unstable();
        let before = context.memory().borrow_mut().set_stream(self.stream());
        context.memory().borrow_mut().set_category(Category::Communication);
        let whole = |weight: &Weight| weight.part * self.world;
        let all = &self.partitioned.weights;
        let buffer = match *absent {
            [only] => {
                all[only].fill(whole(&all[only]));
                None
            }
            _ => {
                let bytes = absent.iter().map(|&weight| all[weight].bytes(whole(&all[weight]))).sum();
                Some(context.storage(bytes))
            }
        };
        // The rank's parts are copied from here into the message, which does not wait for the others.
        self.upload(context, &absent).into_iter().rev().for_each(drop);
        let all = &mut self.partitioned.weights;
        for &weight in &absent {
            all[weight].status = Status::InFlight;
            self.available += all[weight].elements();
        }
        let gather = Rc::new(Gather { weights: absent.clone(), buffer });
        self.in_flight.extend(absent.into_iter().map(|weight| (weight, Rc::clone(&gather))));
        context.memory().borrow_mut().set_stream(before);
    }

    /// `wait`: weights that were gathered together are copied out of the buffer.
    fn wait(&mut self, context: &Context, gather: &Gather) {
        let before = context.memory().borrow_mut().set_stream(self.stream());
        for &weight in &gather.weights {
            let weight = &mut self.partitioned.weights[weight];
            if weight.status == Status::InFlight {
                if gather.buffer.is_some() {
                    weight.fill(weight.elements());
                }
                weight.status = Status::Present;
            }
        }
        context.memory().borrow_mut().set_stream(before);
    }

    /// `release_sub_module`, after a module's forward or backward pass.
    pub fn release_module(&mut self, module: u32, is_forward: bool) {
        let mut released = self.trace.released(&self.partitioned, module, self.gathering.reuse_distance);
        let mut used = self.partitioned.of_module(module).to_vec();
        if !is_forward {
            self.backward.retain(|&open| open != module);
            let recomputed = self.recomputed.remove(&module).unwrap_or_default();
            released.extend(recomputed.iter().filter(|&&weight| !self.partitioned.persists(weight)));
            used.extend(recomputed);
        }
        for weight in used {
            self.partitioned.weights[weight].modules.remove(&module);
            if released.contains(&weight) {
                self.release(weight);
            }
        }
    }

    fn release(&mut self, weight: usize) {
        let weight = &mut self.partitioned.weights[weight];
        if weight.status == Status::Present && weight.modules.is_empty() {
            weight.empty();
            self.available -= weight.elements();
        }
    }

    /// `release_backward_leftovers`: modules without an input that requires a gradient.
    pub fn release_leftovers(&mut self) {
        while let Some(module) = self.backward.pop() {
            let recomputed = self.recomputed.remove(&module).unwrap_or_default();
            for weight in self.partitioned.of_module(module).iter().copied().chain(recomputed).collect::<Vec<_>>() {
                self.partitioned.weights[weight].modules.remove(&module);
                if !self.partitioned.persists(weight) {
                    self.release(weight);
                }
            }
        }
    }

    /// `release_and_reset_all`, before an update.
    pub fn release_all(&mut self, context: &Context) {
        for weight in 0..self.partitioned.weights.len() {
            if let Some(gather) = self.in_flight.remove(&weight) {
                self.wait(context, &gather);
            }
            self.partitioned.weights[weight].modules.clear();
            self.release(weight);
        }
    }

    /// The end of `_post_step`: small weights stay gathered until the next update.
    pub fn gather_persistent(&mut self, context: &Context) {
        let all = 0..self.partitioned.weights.len();
        let persistent: Vec<usize> = all.filter(|&index| self.partitioned.persists(index)).collect();
        self.gather_at_once(context, &persistent);
    }
}
