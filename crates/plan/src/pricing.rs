//! Prices of setups that differ in their loop only.

use std::sync::Arc;

use vramfit_eager::forward::Region;
use vramfit_price::PricedGraph;
use vramfit_training::Loop;
use vramfit_training::optimizer::{Implementation, Recipe};

/// The settings of a loop that cost time, checkpoints aside; where gradients are freed costs none.
type LoopKey = (Recipe, u32, [bool; 2]);

/// A model at given sizes, with these modules checkpointed.
pub struct Pricing {
    graph: Arc<PricedGraph>,
    regions: Arc<[Region]>,
    known: Vec<(LoopKey, f64)>,
}

impl Pricing {
    /// With the checkpointed regions of the graph that was priced.
    pub fn new(graph: Arc<PricedGraph>, regions: Arc<[Region]>) -> Pricing {
        Pricing { graph, regions, known: Vec::new() }
    }

    /// Seconds of a step.
    pub fn seconds(&mut self, training: &Loop) -> f64 {
        let key = (training.optimizer, training.accumulate, [training.clips_gradients, training.has_fresh_inputs]);
        if let Some((_, seconds)) = self.known.iter().find(|(known, _)| *known == key) {
            return *seconds;
        }
        // The other implementations are asked for next.
        let others = [Implementation::Fused, Implementation::ForLoop];
        let [fused, for_loop] = others.map(|implementation| Recipe { implementation, ..training.optimizer });
        let recipes = [training.optimizer, fused, for_loop];
        let times = self.graph.step_times_with(&self.regions, training, recipes);
        for (recipe, time) in recipes.into_iter().zip(times) {
            self.known.push(((recipe, key.1, key.2), time.seconds));
        }
        times[0].seconds
    }
}
