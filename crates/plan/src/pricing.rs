//! Step times of setups that differ in their loop only.

use std::sync::Arc;

use vramfit_eager::forward::Region;
use vramfit_graph::bind::Bound;
use vramfit_price::{PricedGraph, StepTime};
use vramfit_training::optimizer::{Implementation, Recipe};
use vramfit_training::script::Parallel;
use vramfit_training::{Loop, StatePlace, Traffic};

use crate::cluster::Cluster;

/// The loop settings that change the time, except checkpoints: optimizer, micro-batches, clipping, fresh inputs, copies to
/// the host, updates in the backward pass, what spreads it, where the optimizer's state is, over how many ranks the update is split. When gradients are freed
/// takes no time.
type LoopKey = (Recipe, u32, [bool; 6], StatePlace, u32);

/// A priced graph with its checkpointed regions, and the step times computed so far.
pub struct Pricing<'m> {
    graph: Arc<PricedGraph>,
    regions: Arc<[Region]>,
    known: Vec<(LoopKey, StepTime)>,
    /// What is sent, by way of spreading and micro-batches.
    sent: Vec<((Parallel, u32), Traffic)>,
    /// The GPUs that the training may be spread over, and what they send.
    spread: Option<(Cluster, Arc<Bound<'m>>)>,
}

impl<'m> Pricing<'m> {
    /// `regions` are the checkpointed regions of the priced graph.
    pub fn new(
        graph: Arc<PricedGraph>,
        regions: Arc<[Region]>,
        spread: Option<(Cluster, Arc<Bound<'m>>)>,
    ) -> Pricing<'m> {
        Pricing { graph, regions, known: Vec::new(), sent: Vec::new(), spread }
    }

    /// Seconds per step.
    pub fn seconds(&mut self, training: &Loop) -> f64 {
        let computes = self.computes(training);
        let Some((cluster, bound)) = &self.spread else { return computes.seconds };
        let key = (training.parallel.clone(), training.accumulate);
        let known = self.sent.iter().find(|(known, _)| *known == key).map(|(_, traffic)| *traffic);
        let traffic = known.unwrap_or_else(|| {
            let traffic = Traffic::of(bound, training);
            self.sent.push((key, traffic));
            traffic
        });
        computes.seconds + self.graph.passing(traffic.local) + cluster.waits(traffic, training, computes)
    }

    fn computes(&mut self, training: &Loop) -> StepTime {
        let Loop { clips_gradients, has_fresh_inputs, steps_in_backward, .. } = *training;
        let parallel = &training.parallel;
        let has_offload = training.offload.is_some();
        let spread = [parallel.offloads(), parallel.has_engine()];
        let switches = [clips_gradients, has_fresh_inputs, has_offload, steps_in_backward, spread[0], spread[1]];
        let ranks = parallel.update_ranks();
        let key = (training.optimizer, training.accumulate, switches, training.optimizer_state, ranks);
        if let Some((_, time)) = self.known.iter().find(|(known, _)| *known == key) {
            return *time;
        }
        // Searches ask for the other implementations next; computing them together is cheaper.
        let others = [Implementation::Fused, Implementation::ForLoop];
        let [fused, for_loop] = others.map(|implementation| Recipe { implementation, ..training.optimizer });
        let recipes = [training.optimizer, fused, for_loop];
        let times = self.graph.step_times_with(&self.regions, training, recipes);
        for (recipe, time) in recipes.into_iter().zip(times) {
            self.known.push(((recipe, key.1, key.2, key.3, key.4), time));
        }
        times[0]
    }
}
