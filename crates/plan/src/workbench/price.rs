//! Step times of setups.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use vramfit_training::visit;

use super::{Recomputed, Workbench};
use crate::error::SetupError;
use crate::pricing::Pricing;
use crate::setup::Setup;

impl<'m> Workbench<'m> {
    /// Seconds per step; `None` if the setup cannot be simulated.
    pub fn seconds(&self, setup: &Setup) -> Option<f64> {
        self.try_seconds(setup).ok()
    }

    /// Seconds per step.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn try_seconds(&self, setup: &Setup) -> Result<f64, SetupError> {
        let key = (self.key(setup)?, Recomputed::of(setup));
        if let Some(pricing) = self.pricings.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            return Ok(pricing.seconds(&setup.training));
        }
        let mut pricing = self.pricing(setup)?;
        let seconds = pricing.seconds(&setup.training);
        self.pricings.lock().unwrap_or_else(PoisonError::into_inner).insert(key, pricing);
        Ok(seconds)
    }

    /// Prices the setup and all setups that differ from it only in loop settings other than checkpoints.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn pricing(&self, setup: &Setup) -> Result<Pricing<'m>, SetupError> {
        let key = self.key(setup)?;
        let bound = self.try_bind(setup)?;
        let regions_key = (key.variant, key.form, Recomputed::of(setup));
        let graph = self.priced_graphs.try_get(key, || Ok::<_, SetupError>(Arc::new(self.cost_model.price(&bound))))?;
        let graph = match setup.training.offload {
            None => graph,
            Some(memory) => {
                let visits = visit(&bound, &setup.training, self.machine())?;
                Arc::new(graph.with_saved_on_host(&visits, memory))
            }
        };
        let regions = self.regions.try_get(regions_key, || graph.regions(&bound, &setup.training).map(Into::into))?;
        Ok(Pricing::new(graph, regions, self.cluster.map(|cluster| (cluster, bound))))
    }

    /// The time per trained element over that of `start`: above 1 is slower.
    pub fn slowdown(&self, start: &Setup, setup: &Setup) -> Option<f64> {
        Some(
            self.seconds_per_element(setup, self.seconds(setup)?)
                / self.seconds_per_element(start, self.seconds(start)?),
        )
    }

    /// The time per trained element if a step takes `seconds`.
    pub fn seconds_per_element(&self, setup: &Setup, seconds: f64) -> f64 {
        seconds / self.elements(setup)
    }

    /// Elements that a step trains on: the product of an input's sizes, summed over the inputs.
    pub(crate) fn elements(&self, setup: &Setup) -> f64 {
        let sizes = setup.sizes.as_slice();
        let product =
            |symbols: &BTreeSet<u32>| -> f64 { symbols.iter().map(|&symbol| sizes[symbol as usize] as f64).product() };
        self.input_symbols.iter().map(product).sum::<f64>() * f64::from(setup.training.accumulate)
    }
}
