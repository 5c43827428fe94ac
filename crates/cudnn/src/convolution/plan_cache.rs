//! PyTorch's cache of cuDNN's plans: each thread has its own, and equal convolutions share a plan.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::fallback;
use super::problem::ConvolutionProblem;
use super::problem_map::ProblemMap;
use super::range::{Evidence, WorkspaceRange};
use super::search::Trial;
use crate::Scenario;

/// The number of a plan. Without room for its workspace PyTorch tries plans that need less, and keeps the one that it found.
pub type PlanId = NonZeroU32;

/// How many threads run convolutions.
const THREADS: u32 = 2;
/// A fallback must save at least so many bytes.
const WORTHWHILE: u64 = 4096;
/// Plans that a cache has room for at first: a typical convolutional network has as many.
const CAPACITY: usize = 128;

/// The plans that have been requested.
#[derive(Debug, Default)]
pub struct PlanCache {
    plans: ProblemMap<CachedPlan>,
    /// Workspaces of other libraries, by their bounds and their expected size.
    others: HashMap<[u64; 3], u32>,
    workspaces: Vec<Workspaces>,
}

/// The workspaces of a plan and of its fallbacks.
#[derive(Clone, Debug)]
struct Workspaces {
    own: WorkspaceRange,
    /// Bytes, 0 for none; `None` where nothing runs without the workspace.
    fallbacks: Option<Box<[u64]>>,
}

/// The workspaces of all requested plans.
#[derive(Clone, Debug, Default)]
pub struct PlanTable(Arc<[Workspaces]>);

impl PlanTable {
    fn of(&self, plan: PlanId) -> Option<&Workspaces> {
        self.0.get(((plan.get() - 1) / THREADS) as usize)
    }

    /// Bytes of a plan's own workspace under an assumption, 0 for none.
    pub fn own(&self, plan: PlanId, assumption: Assumption) -> u64 {
        self.of(plan).map_or(0, |workspaces| match assumption {
            Assumption::All(scenario) => workspaces.own.assuming(scenario),
            Assumption::Sampled(seed) => workspaces.own.sampled(random(seed, (plan.get() - 1) / THREADS)),
        })
    }

    /// Bytes of the largest workspace that cuDNN answered with a range, 0 where there is none. Guessed ones, which may be anything from
    /// nothing to their largest form, are tried at sizes in between instead.
    pub fn largest_uncertain(&self) -> u64 {
        let is_uncertain = |own: &&WorkspaceRange| own.lower != own.upper && own.evidence != Evidence::Guessed;
        let uncertain = self.0.iter().map(|workspaces| &workspaces.own).filter(is_uncertain);
        uncertain.map(|own| own.upper).max().unwrap_or(0)
    }

    /// Whether a program fails where there is no room for the workspace. cuDNN always has a plan that needs none.
    pub fn is_required(&self, plan: PlanId) -> bool {
        self.of(plan).is_some_and(|workspaces| workspaces.fallbacks.is_none())
    }

    /// Bytes of the workspace to try when there was no room for a plan's own of `bytes` and for `tried` others; 0 for one that is not
    /// tried, `None` when no other is left.
    pub fn fallback(&self, plan: PlanId, bytes: u64, tried: usize) -> Option<u64> {
        let fallback = *self.of(plan)?.fallbacks.as_ref()?.get(tried)?;
        Some(if fallback + WORTHWHILE <= bytes { fallback } else { 0 })
    }
}

/// What is assumed about workspaces that are not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// The same scenario for all.
    All(Scenario),
    /// A size sampled at random for each plan, with this seed.
    Sampled(u32),
}

/// A random number, the same for the same seed and plan.
fn random(seed: u32, plan: u32) -> u64 {
    // SplitMix64.
    let mut bits = (u64::from(seed) << 32 | u64::from(plan)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

#[derive(Debug)]
struct CachedPlan {
    workspace: WorkspaceRange,
    number: u32,
    /// The number of the trial of all plans, and its workspace.
    trial: Option<(u32, WorkspaceRange)>,
    is_used: [bool; THREADS as usize],
}

/// The plan for a convolution on a thread.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// The plan's number.
    pub plan: PlanId,
    /// The plan's workspace.
    pub workspace: WorkspaceRange,
    /// With `torch.backends.cudnn.benchmark`, when the thread requests the plan for the first time: the trial of all plans, and its
    /// workspace.
    pub trial: Option<(PlanId, WorkspaceRange)>,
}

/// The number of a plan on a thread.
fn plan_id(number: u32, thread: usize) -> PlanId {
    PlanId::MIN.saturating_add(number * THREADS + thread as u32)
}

impl CachedPlan {
    fn used_on(&mut self, thread: usize) -> Planned {
        let is_first = !std::mem::replace(&mut self.is_used[thread], true);
        let trial = self.trial.filter(|_| is_first).map(|(number, workspace)| (plan_id(number, thread), workspace));
        Planned { plan: plan_id(self.number, thread), workspace: self.workspace, trial }
    }
}

impl PlanCache {
    /// The workspaces of the plans requested so far.
    pub fn table(&self) -> PlanTable {
        PlanTable(self.workspaces.as_slice().into())
    }

    /// The plan for `problem` on `thread`. `find` is called for its workspace if no thread has requested it before, and for the trial of
    /// all plans where there is one.
    pub fn get(
        &mut self,
        problem: &ConvolutionProblem,
        thread: usize,
        find: impl FnOnce(&ConvolutionProblem) -> (WorkspaceRange, Option<Trial>),
    ) -> Planned {
        if let Some(plan) = self.plans.get_mut(problem) {
            return plan.used_on(thread);
        }
        let number = self.workspaces.len() as u32;
        if number == 0 {
            self.plans.reserve(CAPACITY);
        }
        let (own, trial) = find(problem);
        let numbered = trial.as_ref().map(|trial| (number + 1, trial.workspace));
        let mut plan = CachedPlan { workspace: own, number, trial: numbered, is_used: [false; THREADS as usize] };
        let planned = plan.used_on(thread);
        self.plans.insert(problem.clone(), plan);
        self.workspaces.push(Workspaces { own, fallbacks: Some(fallback::workspaces(problem).into()) });
        self.workspaces
            .extend(trial.map(|Trial { workspace: own, smaller }| Workspaces { own, fallbacks: Some(smaller) }));
        planned
    }

    /// The number of a workspace of another library, without which nothing runs.
    pub fn other(&mut self, workspace: WorkspaceRange) -> PlanId {
        let WorkspaceRange { expected, lower, upper, .. } = workspace;
        let number = *self.others.entry([lower, expected, upper]).or_insert_with(|| {
            self.workspaces.push(Workspaces { own: workspace, fallbacks: None });
            self.workspaces.len() as u32 - 1
        });
        PlanId::MIN.saturating_add(number * THREADS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::problem::tests::square;

    #[test]
    fn a_workspace_of_another_library_is_found_again_and_nothing_runs_without_it() {
        let mut cache = PlanCache::default();
        let problem = square([64, 64], 56, 3, 1, 1);
        let convolution = cache.get(&problem, 0, |_| (WorkspaceRange::recorded(70), None)).plan;
        let (one, other) = (cache.other(WorkspaceRange::up_to(5, 9)), cache.other(WorkspaceRange::up_to(6, 9)));
        assert_eq!(cache.other(WorkspaceRange::up_to(5, 9)), one);
        assert!(one != other && one != convolution);
        let table = cache.table();
        assert_eq!(table.largest_uncertain(), 0, "one is recorded, the others are guessed");
        cache.other(WorkspaceRange { evidence: Evidence::Asked, ..WorkspaceRange::up_to(6, 12) });
        assert_eq!(cache.table().largest_uncertain(), 12);
        let sizes =
            [Scenario::Expected, Scenario::Lower, Scenario::Upper].map(|it| table.own(one, Assumption::All(it)));
        assert_eq!(sizes, [5, 0, 9]);
        assert!(table.is_required(one) && !table.is_required(convolution));
        assert_eq!(cache.get(&problem, 1, |_| (WorkspaceRange::recorded(8), None)).workspace.expected, 70);
    }

    #[test]
    fn each_thread_tries_all_plans_once_in_the_largest_workspace_that_there_is_room_for() {
        let mut cache = PlanCache::default();
        let problem = square([64, 64], 56, 3, 1, 1);
        let find = |_: &ConvolutionProblem| {
            let trial = Trial { workspace: WorkspaceRange::recorded(90_000), smaller: [50_000, 89_999, 0].into() };
            (WorkspaceRange::recorded(7), Some(trial))
        };
        let first = cache.get(&problem, 0, find);
        let (trial, workspace) = first.trial.unwrap();
        assert!(trial != first.plan && workspace.expected == 90_000);
        assert!(cache.get(&problem, 0, find).trial.is_none());
        assert!(cache.get(&problem, 1, find).trial.is_some_and(|(other, _)| other != trial));
        let table = cache.table();
        assert_eq!(table.own(trial, Assumption::All(Scenario::Expected)), 90_000);
        assert_eq!(table.own(first.plan, Assumption::All(Scenario::Expected)), 7);
        assert_eq!(
            [0, 1, 2, 3].map(|tried| table.fallback(trial, 90_000, tried)),
            [Some(50_000), Some(0), Some(0), None]
        );
    }
}
