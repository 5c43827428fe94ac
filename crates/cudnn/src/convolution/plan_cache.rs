//! PyTorch's own caches of cuDNN's plans: each thread has one, and equal convolutions share a plan.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::alternatives::lesser_plans;
use super::problem::{Problem, ProblemMap};
use super::recorded::Spread;
use crate::Scenario;

/// A plan of cuDNN's by its number. Without room for its workspace PyTorch goes on to plans that need less, and keeps to what
/// it has found from then on.
pub type PlanId = NonZeroU32;

/// How many threads run convolutions.
const THREADS: u32 = 2;
/// A plan that needs hardly less is no help.
const MUCH: u64 = 4096;

/// Room for so many plans is made at first: a model of some size has as many.
const PLANS: usize = 128;

/// The plans that have been asked for.
#[derive(Debug, Default)]
pub struct PlanCache {
    known: ProblemMap<Known>,
    workspaces: Vec<Workspaces>,
}

/// How many plans are tried after the first, before one that needs no workspace.
pub(super) const LESSER: usize = 2;

/// What is known of the workspaces of a plan and of those that come after it.
#[derive(Clone, Copy, Debug)]
struct Workspaces {
    /// Of its own.
    own: Spread,
    /// Bytes of those that come after it, 0 where there is none.
    lesser: [u64; LESSER],
}

/// The workspaces of all plans that were asked for.
#[derive(Clone, Debug, Default)]
pub struct PlanTable(Arc<[Workspaces]>);

impl PlanTable {
    fn of(&self, plan: PlanId) -> Option<&Workspaces> {
        self.0.get(((plan.get() - 1) / THREADS) as usize)
    }

    /// Bytes of a plan's own workspace, as assumed; 0 for none.
    pub fn own(&self, plan: PlanId, assumption: Assumption) -> u64 {
        self.of(plan).map_or(0, |workspaces| match assumption {
            Assumption::All(scenario) => workspaces.own.assuming(scenario),
            Assumption::Drawn(series) => workspaces.own.drawn(lot(series, (plan.get() - 1) / THREADS)),
        })
    }

    /// What is left to try once there is no room for a plan's own workspace, of `bytes`; 0 for nothing.
    pub fn instead_of(&self, plan: PlanId, bytes: u64) -> [u64; LESSER] {
        let lesser = self.of(plan).map_or([0; LESSER], |workspaces| workspaces.lesser);
        lesser.map(|lesser| if lesser + MUCH <= bytes { lesser } else { 0 })
    }
}

/// What workspaces are assumed to be that are not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// The same for all.
    All(Scenario),
    /// For each plan drawn by lot, in this series of lots.
    Drawn(u32),
}

/// A number by chance, the same each time it is asked for.
fn lot(series: u32, number: u32) -> u64 {
    // The steps of SplitMix64: every bit of the result depends on every bit that is given.
    let mut bits = (u64::from(series) << 32 | u64::from(number)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

#[derive(Debug)]
struct Known {
    spread: Spread,
    number: u32,
    is_used: [bool; THREADS as usize],
}

/// The plan for a convolution on a thread.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    /// Its number.
    pub plan: PlanId,
    /// Its workspace.
    pub spread: Spread,
    /// Whether it is asked for the first time.
    pub is_first: bool,
}

impl Known {
    fn used_on(&mut self, thread: usize) -> Planned {
        let is_first = !std::mem::replace(&mut self.is_used[thread], true);
        let plan = PlanId::MIN.saturating_add(self.number * THREADS + thread as u32);
        Planned { plan, spread: self.spread, is_first }
    }
}

impl PlanCache {
    /// The workspaces of the plans that were asked for.
    pub fn table(&self) -> PlanTable {
        PlanTable(self.workspaces.as_slice().into())
    }

    /// The plan for `problem` on `thread`; `find` says what it needs where it has not been asked for on either.
    pub fn get(&mut self, problem: &Problem, thread: usize, find: impl FnOnce(&Problem) -> Spread) -> Planned {
        if let Some(known) = self.known.get_mut(problem) {
            return known.used_on(thread);
        }
        let number = self.known.len() as u32;
        if number == 0 {
            self.known.reserve(PLANS);
        }
        let own = find(problem);
        let mut known = Known { spread: own, number, is_used: [false; THREADS as usize] };
        let planned = known.used_on(thread);
        self.known.insert(problem.clone(), known);
        self.workspaces.push(Workspaces { own, lesser: lesser_plans(problem) });
        planned
    }
}
