//! The iterations of a loop of the program, from the lines that allocate.

use std::collections::HashMap;

use vramfit_trace::snapshot::{FrameId, Snapshot, StackId};

use crate::history::History;
use crate::steps::Steps;

/// Where the iterations of a loop begin, in events.
pub struct Iterations(Vec<u32>);

impl Iterations {
    /// The training steps.
    pub fn of_steps(steps: &Steps) -> Iterations {
        Iterations(steps.list.iter().map(|step| step.first).collect())
    }

    /// The iteration that contains `event`; the last one before it if the loop has ended.
    pub fn at(&self, event: u32) -> Option<usize> {
        self.0.partition_point(|&first| first <= event).checked_sub(1)
    }

    /// How many iterations have two more after them, so that it is known what they keep.
    pub fn judged(&self) -> Option<usize> {
        self.0.len().checked_sub(2).filter(|&judged| judged > 0)
    }

    /// The event at which the iteration after `born` is over. A variable holds its value until then.
    pub fn end_of_next(&self, born: usize) -> Option<u32> {
        self.0.get(born + 2).copied()
    }
}

/// Finds the iterations of a loop. `unit` says which statement of its body a frame is in, in order.
///
/// An iteration begins where the program goes back to an earlier statement. Where only one statement allocates, it begins
/// where the call stack that came first comes again.
pub fn iterations(snapshot: &Snapshot, history: &History, unit: impl Fn(FrameId) -> Option<usize>) -> Iterations {
    let mut units: HashMap<StackId, Option<usize>> = HashMap::new();
    let mut unit_of = |stack: StackId| {
        // The outermost frame in the loop: a recursive call is within its own statement.
        let find = || snapshot.stacks.frame_ids(stack).iter().rev().find_map(|&frame| unit(frame));
        *units.entry(stack).or_insert_with(find)
    };
    let visits: Vec<(u32, StackId, usize)> = history
        .births()
        .iter()
        .filter_map(|lifetime| Some((lifetime.birth, lifetime.stack, unit_of(lifetime.stack)?)))
        .collect();
    let Some(&(first, first_stack, first_unit)) = visits.first() else { return Iterations(Vec::new()) };
    let is_one_statement = visits.iter().all(|&(_, _, unit)| unit == first_unit);
    let mut begins = vec![first];
    for pair in visits.windows(2) {
        let ((_, _, before), (event, stack, now)) = (pair[0], pair[1]);
        if now < before || is_one_statement && stack == first_stack {
            begins.push(event);
        }
    }
    Iterations(begins)
}
