//! The results of a search.

use vramfit_training::answer::{Answer, Fit};

use super::fitting_plan::Plan;
use super::frontier::FrontierPoint;
use super::shortfall::Shortfall;
use super::table::TrickRow;
use crate::error::Unbound;
use crate::max_batch::MaxBatch;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::workbench::Peaks;
use crate::written::Written;

/// The plans of one risk.
#[derive(Clone, Debug)]
pub struct Group {
    /// The largest risk of each plan's changes.
    pub risk: Risk,
    /// The cheapest plan; of smaller trainings the one with the smallest change.
    pub best: Option<Plan>,
    /// Plans that need less memory and more time, ordered by time; of smaller trainings other single changes.
    pub others: Vec<Plan>,
    /// The candidates that no other candidate of the group beats in both memory and time.
    pub frontier: Vec<FrontierPoint>,
    /// Number of combinations considered.
    pub candidates: usize,
    /// Something fits, but the same without the changes of this risk fits too and takes no more time.
    pub is_outdone: bool,
}

impl Group {
    /// A group in which nothing was found.
    pub(super) fn without_plans(risk: Risk, candidates: usize) -> Group {
        Group { risk, best: None, others: Vec::new(), frontier: Vec::new(), candidates, is_outdone: false }
    }
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The setup to start from.
    pub start: Setup,
    /// Its code; `None` if the model cannot be bound to it.
    pub start_written: Option<Written>,
    /// The answer of `vramfit estimate` for it.
    pub answer: Answer,
    /// Whether it fits unchanged.
    pub fit: Fit,
    /// The start's peaks on a GPU of unlimited memory.
    pub peaks: Peaks,
    /// Bytes it would then count against the capacity.
    pub needed: u64,
    /// Bytes its process would then take on the device, including the CUDA context.
    pub device_used: u64,
    /// Seconds per step.
    pub seconds: f64,
    /// The largest batch with the given settings; `None` if the model has no batch size.
    pub max_batch: Option<MaxBatch>,
    /// The same with the recommended plan, where that spreads the training over several GPUs.
    pub max_batch_of_plan: Option<MaxBatch>,
    /// One group per risk, the smallest first.
    pub groups: Vec<Group>,
    /// Each trick alone.
    pub tricks: Vec<TrickRow>,
    /// How much memory is missing, if nothing fits.
    pub shortfall: Option<Shortfall>,
    /// Candidates that the model could not be bound to.
    pub unbound: Vec<Unbound>,
    /// Whether the search was stopped.
    pub is_cut_short: bool,
    /// Number of simulated candidates.
    pub simulated: u64,
}

impl Outcome {
    /// All plans, group by group. The first is the recommended one.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.groups.iter().flat_map(|group| group.best.iter().chain(&group.others))
    }
}
