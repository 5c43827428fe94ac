//! Binds the model to a setup, and changes the batch of a setup.

use std::sync::{Arc, PoisonError};

use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::expression::Linear;
use vramfit_graph::model::Model;
use vramfit_graph::select::select_variant;
use vramfit_training::script::Parallel;

use super::{BoundKey, Form, Workbench};
use crate::error::{SetupError, Unbound};
use crate::forms::Adapters;
use crate::setup::Setup;

impl<'m> Workbench<'m> {
    /// The model in the setup's precision and sizes; `None` if it was not captured for them.
    pub fn bind(&self, setup: &Setup) -> Option<Arc<Bound<'m>>> {
        self.try_bind(setup).ok()
    }

    /// The model in the setup's precision and sizes.
    ///
    /// # Errors
    /// The model was not captured for this precision, mode or these sizes.
    pub fn try_bind(&self, setup: &Setup) -> Result<Arc<Bound<'m>>, SetupError> {
        let key = self.key(setup)?;
        self.bounds.try_get(key, || self.bind_uncached(setup).map(Arc::new))
    }

    /// Binds without caching. A failure is recorded for [`Workbench::unbound`].
    pub(super) fn bind_uncached(&self, setup: &Setup) -> Result<Bound<'m>, SetupError> {
        let BoundKey { variant, form, .. } = self.key(setup)?;
        let bound = bind(self.in_form(form), variant, &setup.sizes);
        let mut bound = bound.map_err(|error| self.record_unbound(setup, error.into()))?;
        let laid_out = setup.training.lay_out(&mut bound);
        laid_out.map_err(|error| self.record_unbound(setup, error.into()))?;
        Ok(bound)
    }

    fn record_unbound(&self, setup: &Setup, error: SetupError) -> SetupError {
        let key = (setup.variant, setup.sizes.as_slice().to_vec());
        self.unbound.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert_with(|| error.clone());
        error
    }

    /// Every combination of sizes and precision that was tried and could not be bound, ordered by sizes.
    pub fn unbound(&self) -> Vec<Unbound> {
        let unbound = self.unbound.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = unbound.iter().collect();
        all.sort_by_key(|((variant, sizes), _)| (sizes.clone(), variant.dtype, variant.amp));
        let named = |sizes: &[i64]| {
            let symbols = self.model.symbols.iter().zip(sizes);
            symbols.map(|(symbol, &size)| (symbol.name.clone(), size)).collect()
        };
        all.into_iter()
            .map(|((variant, sizes), reason)| Unbound {
                sizes: named(sizes),
                variant: *variant,
                reason: reason.clone(),
            })
            .collect()
    }

    pub(super) fn key(&self, setup: &Setup) -> Result<BoundKey, SetupError> {
        let form = match (setup.adapters, setup.is_in_place) {
            (Adapters::AsGiven, is_in_place) if setup.has_fused_attention => Form::FusedAttention { is_in_place },
            (Adapters::AsGiven, true) if self.in_place.is_some() => Form::InPlace,
            (Adapters::AsGiven, _) => Form::AsGiven,
            (adapters, _) => Form::Adapted(adapters),
        };
        let variant = self
            .variants
            .try_get((setup.variant, form), || select_variant(self.in_form(form), setup.variant))
            .map_err(|error| self.record_unbound(setup, error.into()))?;
        let split_over = match &setup.training.parallel {
            Parallel::Tensor(settings) => settings.world,
            _ => 1,
        };
        let has_channels_last = setup.training.has_channels_last;
        Ok(BoundKey { variant, sizes: setup.sizes.as_slice().to_vec(), form, split_over, has_channels_last })
    }

    fn in_form(&self, form: Form) -> &'m Model {
        let found = match form {
            Form::AsGiven => None,
            Form::InPlace => self.in_place,
            Form::FusedAttention { is_in_place } => self.forms.fused(is_in_place),
            Form::Adapted(adapters) => self.forms.model(adapters),
        };
        found.unwrap_or(self.model)
    }

    /// Whether a setup computes or keeps anything in bfloat16.
    pub(crate) fn uses_bfloat16(&self, setup: &Setup) -> bool {
        self.bind(setup).is_some_and(|bound| bound.tensors.iter().any(|tensor| tensor.dtype == Dtype::Bfloat16))
    }

    /// The type of the weights that are trained; `None` if they have several.
    pub(crate) fn trained_dtype(&self, setup: &Setup) -> Option<Dtype> {
        let bound = self.bind(setup)?;
        let mut weights = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
        let dtype = bound.tensor(weights.next()?.tensor).dtype;
        weights.all(|weight| bound.tensor(weight.tensor).dtype == dtype).then_some(dtype)
    }

    /// The batch of one forward pass; `None` if the model has no batch size.
    pub fn batch_of(&self, setup: &Setup) -> Option<i64> {
        self.batch.first().and_then(|&size| setup.sizes.value(size))
    }

    /// The setup with another batch; `None` if the model does not support that batch.
    pub fn with_batch(&self, setup: &Setup, batch: i64) -> Option<Setup> {
        if self.batch.is_empty() {
            return None;
        }
        Some(Setup { sizes: setup.sizes.replacing(self.model, &self.batch, batch)?, ..setup.clone() })
    }

    /// The next `count` batches above `last` that the model supports. An exported model may support only multiples of a
    /// number, or only batches from some number on.
    pub fn batches_after(&self, setup: &Setup, last: i64, count: usize) -> Vec<i64> {
        let step = self.batch.iter().fold(1_i64, |step, size| step.saturating_mul(size.factor().saturating_abs()));
        let min_of = |size: &Linear| size.at(self.model.symbols[size.symbol() as usize].range?.least);
        let min = self.batch.iter().filter_map(min_of).max().unwrap_or(1);
        let mut found = Vec::with_capacity(count);
        let mut end = last.max(min).saturating_add(step);
        let mut batch = last;
        while found.len() < count && batch < end {
            batch += 1;
            if self.with_batch(setup, batch).is_some() {
                found.push(batch);
                end = end.max(batch.saturating_add(step));
            }
        }
        found
    }
}
