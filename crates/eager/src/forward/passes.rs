//! What every pass through a model shares: its operators' rules, its regions.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_graph::bind::{Bound, BoundCall, BoundStep};
use vramfit_graph::model::{Cast, Late, TensorId};

use crate::forward::Region;
use crate::launch::Launch;
use crate::ops::{Rule, rule};
use vramfit_cudnn::Scenario;

/// What every pass through a model shares.
pub struct Passes<'a> {
    /// The model.
    pub bound: &'a Bound<'a>,
    /// Its operators' rules.
    pub(super) rules: Rules,
    /// What is checkpointed.
    pub regions: Vec<Region>,
    /// What operators without a rule need.
    pub scenario: Scenario,
    /// The casts of weights that autocast keeps, each with the step that makes it.
    pub(super) casts: BTreeMap<TensorId, usize>,
    /// The tensors that live on after Python is said to let go of them, where the most is asked for, by their ends.
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
        let is_late = late.iter().map(|late| late.tensor).collect();
        Passes { bound, rules: Rules::new(bound), regions, scenario, casts, late, is_late }
    }
}

/// The rule of each operator of a model, found once.
pub(super) struct Rules(Vec<Known>);

/// What is known of an operator.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub rule: Option<Rule>,
    pub launch: Launch,
    /// Whether cuDNN computes it, forward and backward, so that its handle is made.
    pub uses_dnn: bool,
    pub is_in_place: bool,
}

impl Rules {
    /// Finds them.
    fn new(bound: &Bound<'_>) -> Rules {
        let known = |name: &str| Known {
            rule: rule(name),
            launch: Launch::of(name),
            uses_dnn: uses_dnn(name),
            is_in_place: is_in_place(name),
        };
        Rules(bound.model.operators.iter().map(|operator| known(&operator.name)).collect())
    }

    /// What is known of a call's operator.
    pub fn of(&self, call: &BoundCall<'_>) -> Known {
        self.0[call.operator as usize]
    }
}

/// Whether an operator is computed by cuDNN: convolutions and recurrent networks.
fn uses_dnn(name: &str) -> bool {
    let base = name.split('.').nth(1).unwrap_or(name);
    base.contains("conv") || matches!(base, "lstm" | "gru" | "rnn_tanh" | "rnn_relu" | "_cudnn_rnn")
}

/// Whether an operator writes into its first argument.
fn is_in_place(name: &str) -> bool {
    name.split('.').nth(1).is_some_and(|base| base.ends_with('_') && !base.ends_with("__"))
}
