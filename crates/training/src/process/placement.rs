//! Brings models and inputs to the GPU, and spreads models over ranks.

use std::rc::Rc;

use vramfit_eager::autograd::{RecurrentWeights, Tensor};

use super::Process;
use super::moves::move_inputs;
use super::passes::LivePass;
use super::ranks::{Engine, Moved, PartitionedEngine, Rank, Replica, shard, split_model};
use super::weights::{move_model, share_model};
use crate::script::{Parallel, Pass, ZeroStage};

impl Process<'_> {
    pub(super) fn move_model(&mut self, model: usize) {
        let mut first: Option<usize> = None;
        for (index, pass) in self.script.passes.iter().enumerate().filter(|(_, pass)| pass.model == model) {
            match first {
                None => {
                    let LivePass { shared, tensors, .. } = &mut self.passes[index];
                    let (frozen, table) = (shared.frozen(), &mut self.quantization_table);
                    self.parameters[model] = move_model(pass.bound, &mut self.context, tensors, frozen, table);
                    let weights = pass.bound.model.parameters.iter().enumerate();
                    let trained = weights.filter(|(_, weight)| !frozen.contains(&weight.tensor));
                    self.numbers[model] = trained.map(|(number, _)| number).collect();
                    first = Some(index);
                }
                Some(first) => {
                    let (before, after) = self.passes.split_at_mut(index);
                    share_model(pass.bound, &mut self.context, &before[first].tensors, &mut after[0].tensors);
                }
            }
        }
    }

    /// The pass that brings a model's weights.
    fn first_pass(&self, model: usize) -> Option<usize> {
        self.script.passes.iter().position(|pass| pass.model == model)
    }

    pub(super) fn replicate(&mut self, model: usize) {
        let Some(index) = self.first_pass(model) else { return };
        let pass = &self.script.passes[index];
        let Parallel::Replicated(settings) = &pass.parallel else { return };
        let count = pass.bound.model.parameters.len();
        let states = &self.passes[index].tensors[..count + pass.bound.model.buffers.len()];
        let buffers = states[count..].iter().flatten().cloned().collect();
        let states: Vec<Tensor> = states.iter().flatten().cloned().collect();
        let replica = Replica::new(&mut self.context, settings.clone(), &states, buffers, &self.parameters[model]);
        self.context.communicators = 1;
        self.ranks[model] = Some(Rank::Replica(replica));
    }

    pub(super) fn shard(&mut self, model: usize) {
        let Some(index) = self.first_pass(model) else { return };
        let pass = &self.script.passes[index];
        let Parallel::Sharded(settings) = &pass.parallel else { return };
        let LivePass { shared, tensors, .. } = &mut self.passes[index];
        let frozen = shared.frozen();
        let (parameters, shards) = shard(pass.bound, &mut self.context, tensors, frozen, settings);
        let weights = pass.bound.model.parameters.iter().enumerate();
        self.numbers[model] =
            weights.filter(|(_, weight)| !frozen.contains(&weight.tensor)).map(|(number, _)| number).collect();
        self.parameters[model] = parameters;
        self.context.communicators = if settings.replicas > 1 { 2 } else { 1 };
        self.ranks[model] = Some(Rank::Shards(Rc::new(shards)));
    }

    pub(super) fn split(&mut self, model: usize) {
        let Some(index) = self.first_pass(model) else { return };
        let pass = &self.script.passes[index];
        let Parallel::Tensor(settings) = &pass.parallel else { return };
        let layers = split_model(pass.bound, &mut self.context, &mut self.passes[index].tensors, settings.world);
        self.move_model(model);
        self.context.communicators = 1;
        self.ranks[model] = Some(Rank::Tensor(Rc::new(layers)));
    }

    pub(super) fn create_engine(&mut self, model: usize, optimizer: usize) {
        let Some(index) = self.first_pass(model) else { return };
        let pass = &self.script.passes[index];
        let Parallel::DeepSpeed(settings) = &pass.parallel else { return };
        self.move_model(model);
        self.context.recurrent_weights = RecurrentWeights::Moved;
        if settings.stage == ZeroStage::Three {
            return self.create_partitioned_engine(model, optimizer, index);
        }
        let weights = &pass.bound.model.parameters;
        let ids: Vec<usize> = self.numbers[model].iter().map(|&number| weights[number].tensor.0 as usize).collect();
        let tensors = &mut self.passes[index].tensors;
        let parameters = &mut self.parameters[model];
        let setup = self.script.optimizers.get(optimizer);
        let made = Engine::new(&mut self.context, settings.clone(), setup, parameters, tensors, &ids);
        let Some((engine, created)) = made else { return };
        if created.is_some() {
            self.optimizers[optimizer] = created;
        }
        self.context.communicators = 1;
        self.ranks[model] = Some(Rank::DeepSpeed(Rc::new(engine)));
    }

    fn create_partitioned_engine(&mut self, model: usize, optimizer: usize, index: usize) {
        let pass = &self.script.passes[index];
        let Parallel::DeepSpeed(settings) = &pass.parallel else { return };
        let LivePass { shared, tensors, .. } = &mut self.passes[index];
        let moved = Moved {
            bound: pass.bound,
            parameters: &mut self.parameters[model],
            numbers: &self.numbers[model],
            frozen: shared.frozen(),
            tensors,
        };
        let setup = self.script.optimizers.get(optimizer);
        let made = PartitionedEngine::new(&mut self.context, settings.clone(), setup, moved);
        let Some((engine, created)) = made else { return };
        if created.is_some() {
            self.optimizers[optimizer] = created;
        }
        self.context.communicators = 1;
        self.ranks[model] = Some(Rank::Partitioned(Rc::new(engine)));
    }

    pub(super) fn move_inputs(&mut self, pass: usize, micro_batches: u32) {
        let Pass { bound, parallel, .. } = &self.script.passes[pass];
        let cast_to = match parallel {
            Parallel::Sharded(settings) => settings.param_dtype,
            _ => None,
        };
        let tensors = &mut self.passes[pass].tensors;
        for inputs in [&bound.model.inputs, &bound.model.targets] {
            move_inputs(bound, &mut self.context, tensors, inputs, micro_batches, cast_to);
        }
    }

    pub(super) fn share_inputs(&mut self, from: usize, to: usize) {
        let model = self.script.passes[from].bound.model;
        for input in model.inputs.iter().chain(&model.targets) {
            let at = input.tensor.0 as usize;
            self.passes[to].tensors[at] = self.passes[from].tensors[at].clone();
        }
    }
}
