//! PyTorch's own caches of cuDNN's plans: each thread has one, and equal convolutions share a plan.

use super::problem::{Problem, ProblemMap};
use super::recorded::Spread;
use crate::memory::Plan;
use crate::ops::Thread;

/// How many threads run convolutions.
const THREADS: u32 = 2;

/// The plans that have been asked for.
#[derive(Debug, Default)]
pub struct PlanCache {
    known: ProblemMap<Known>,
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
    pub plan: Plan,
    /// Its workspace.
    pub spread: Spread,
    /// Whether it is asked for the first time.
    pub is_first: bool,
}

impl Known {
    fn used_on(&mut self, thread: Thread) -> Planned {
        let is_first = !std::mem::replace(&mut self.is_used[thread as usize], true);
        let plan = Plan::MIN.saturating_add(self.number * THREADS + thread as u32);
        Planned { plan, spread: self.spread, is_first }
    }
}

impl PlanCache {
    /// The plan for `problem` on `thread`; `find` says what it needs where it has not been asked for on either.
    pub fn get(&mut self, problem: &Problem, thread: Thread, find: fn(&Problem) -> Spread) -> Planned {
        if let Some(known) = self.known.get_mut(problem) {
            return known.used_on(thread);
        }
        let number = self.known.len() as u32;
        let mut known = Known { spread: find(problem), number, is_used: [false; THREADS as usize] };
        let planned = known.used_on(thread);
        self.known.insert(problem.clone(), known);
        planned
    }
}
