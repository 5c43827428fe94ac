//! What every pass through a model shares: its operators, its regions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use vramfit_graph::bind::{Bound, BoundCall, BoundStep};
use vramfit_graph::model::{Cast, Late, TensorId};

use super::found_results::result_of;
use super::frozen::casts_of;
use super::module_choice::UnknownModule;
use super::region::{Region, embedding_exits};
use super::replay::Replay;
use crate::operators::{Facts, Head, LossHead, facts, find_head};
use vramfit_cudnn::Scenario;

/// What every pass through a model shares.
pub struct Passes<'a> {
    /// The model.
    pub bound: &'a Bound<'a>,
    /// What is known of each of its operators.
    operators: Vec<&'static Facts>,
    /// What is checkpointed.
    pub regions: Vec<Region>,
    /// What operators without a rule need.
    pub scenario: Scenario,
    /// The casts of weights that autocast keeps, each with the step that makes it.
    pub(super) casts: BTreeMap<TensorId, usize>,
    /// The recorded backwards of custom functions, by the step that ends the function.
    pub(super) replays: BTreeMap<usize, Rc<Replay>>,
    /// The tensors that Python may hold for longer than the steps say, by their ends; only for the upper bound.
    pub(super) late: &'a [Late],
    pub(super) is_late: BTreeSet<TensorId>,
    /// The results behind which autograd's formulas find others.
    pub(super) finds_results_of: BTreeSet<TensorId>,
    /// The weights that are not trained, though the captured model trains them.
    frozen: BTreeSet<TensorId>,
    /// Their casts under autocast, each with the step that makes it.
    pub(super) frozen_casts: BTreeMap<TensorId, usize>,
    /// The steps after which the results of a module are made to require grad.
    pub(super) made_leaves: BTreeSet<usize>,
    /// How the loss is computed, if not as captured, and where.
    pub(super) loss_head: Option<(LossHead, Head)>,
}

impl<'a> Passes<'a> {
    /// Of a model, with these regions; operators without a rule need what `scenario` says.
    pub fn new(bound: &'a Bound<'a>, regions: Vec<Region>, scenario: Scenario) -> Passes<'a> {
        let mut casts = BTreeMap::new();
        for (index, step) in bound.steps.iter().enumerate() {
            if let BoundStep::Call(call) = step
                && call.cast == Cast::Kept
            {
                casts.extend(call.results.iter().flatten().map(|&id| (id, index)));
            }
        }
        let late: &[Late] = if scenario == Scenario::Upper { &bound.variant.late } else { &[] };
        let operators: Vec<&Facts> = bound.model.operators.iter().map(|operator| facts(operator.id)).collect();
        let finds_results_of = bound.steps.iter().filter_map(|step| result_of(step, &operators)).collect();
        let is_late = late.iter().map(|late| late.tensor).collect();
        let replays = bound.functions.iter().map(|it| (it.end, Rc::new(Replay::new(bound, it, scenario)))).collect();
        let made_leaves = if regions.iter().any(|region| region.turns_cache_off) {
            embedding_exits(bound).into_iter().collect()
        } else {
            BTreeSet::new()
        };
        Passes {
            bound,
            operators,
            regions,
            scenario,
            casts,
            replays,
            late,
            is_late,
            finds_results_of,
            frozen: BTreeSet::new(),
            frozen_casts: BTreeMap::new(),
            made_leaves,
            loss_head: None,
        }
    }

    /// With weights that are not trained.
    #[must_use]
    pub fn with_frozen(self, frozen: BTreeSet<TensorId>) -> Passes<'a> {
        let frozen_casts = casts_of(self.bound, &frozen).into_iter().collect();
        Passes { frozen, frozen_casts, ..self }
    }

    /// With another way to compute the loss.
    ///
    /// # Errors
    /// The model does not end in a linear layer and a loss that can be replaced.
    pub fn with_loss_head(self, kind: LossHead) -> Result<Passes<'a>, UnknownModule> {
        let (flag, wanted) = match kind {
            LossHead::Captured => return Ok(self),
            LossHead::Chunked(chunks) => ("--chunked-loss", chunks.to_string()),
            LossHead::Liger => ("--fused-linear-loss", "liger".to_owned()),
        };
        let head = find_head(self.bound).map_err(|reason| UnknownModule {
            flag,
            wanted,
            reason: reason.to_string(),
            present: Vec::new(),
        })?;
        Ok(Passes { loss_head: Some((kind, head)), ..self })
    }

    /// The weights that are not trained, though the captured model trains them.
    pub fn frozen(&self) -> &BTreeSet<TensorId> {
        &self.frozen
    }

    /// What is known of a call's operator.
    pub(super) fn facts(&self, call: &BoundCall<'_>) -> &'static Facts {
        self.operators[call.operator as usize]
    }
}
