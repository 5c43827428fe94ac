//! What every pass through a model shares: its operators, its regions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use vramfit_graph::bind::{Bound, BoundCall, BoundStep};
use vramfit_graph::model::{Cast, Late, TensorId};

use super::region::Region;
use super::replay::Replay;
use crate::operators::{Facts, facts};
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
}

impl<'a> Passes<'a> {
    /// Of a model, with these regions; operators without a rule need what `scenario` says.
    pub fn new(bound: &'a Bound<'a>, regions: Vec<Region>, scenario: Scenario) -> Passes<'a> {
        let mut casts = BTreeMap::new();
        for (index, step) in bound.steps.iter().enumerate().filter(|_| !regions.is_empty()) {
            if let BoundStep::Call(call) = step
                && call.cast == Cast::Kept
            {
                casts.extend(call.results.iter().flatten().map(|&id| (id, index)));
            }
        }
        let late: &[Late] = if scenario == Scenario::Upper { &bound.variant.late } else { &[] };
        let operators = bound.model.operators.iter().map(|operator| facts(operator.id)).collect();
        let is_late = late.iter().map(|late| late.tensor).collect();
        let replays = bound.functions.iter().map(|it| (it.end, Rc::new(Replay::new(bound, it, scenario)))).collect();
        Passes { bound, operators, regions, scenario, casts, replays, late, is_late }
    }

    /// What is known of a call's operator.
    pub(super) fn facts(&self, call: &BoundCall<'_>) -> &'static Facts {
        self.operators[call.operator as usize]
    }
}
