//! The cost model of one GPU.

use vramfit_catalogue::Gpu;
use vramfit_eager::forward::UnknownModule;
use vramfit_graph::bind::Bound;
use vramfit_training::Loop;

use crate::priced_graph::PricedGraph;
use crate::scale::Scale;
use crate::step_time::StepTime;

/// Predicts step times on one GPU.
#[derive(Clone, Debug)]
pub struct CostModel {
    scale: Scale,
}

impl CostModel {
    /// The cost model of a GPU in the catalogue.
    pub fn new(gpu: &Gpu) -> CostModel {
        CostModel { scale: Scale::of(gpu) }
    }

    /// Whether the times were measured on this GPU model. On others they are scaled, and rough.
    pub fn is_measured(&self) -> bool {
        self.scale.is_measured()
    }

    /// Prices every call of a bound graph. The result can be reused for loops that differ in their settings.
    pub fn price(&self, bound: &Bound<'_>) -> PricedGraph {
        PricedGraph::new(self.scale, bound)
    }

    /// The time of one step of the loop.
    ///
    /// # Errors
    /// The model has no module of a name in the loop's checkpoint setting.
    pub fn step_time(&self, bound: &Bound<'_>, options: &Loop) -> Result<StepTime, UnknownModule> {
        self.price(bound).step_time(bound, options)
    }
}
