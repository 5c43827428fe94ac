//! Results that a script holds after their last use: until their name is bound again, or for ever.

use std::collections::{BTreeMap, BTreeSet};

use vramfit_graph::model::TensorId;

use super::edit::Edit;
use super::lifetimes::Recorded;
use super::lines::Line;

/// More results of one kind alive at once are in a container, not under a name that is bound again.
const MOST_NAMED: usize = 4;
/// A result that is kept in so many optimizer steps is kept in all of them.
const FEWEST_KEPT: usize = 3;

/// Results of one line.
pub(super) struct Held {
    /// The line that makes them.
    pub(super) line: Line,
    /// The line after which they are not used.
    pub(super) last_line: Line,
    /// The most that are held beyond their last use at once.
    pub(super) bytes: u64,
    pub(super) edit: Edit,
}

/// A result that outlives its last use, and where it could be dropped.
#[derive(Clone, Copy)]
struct Outliving {
    id: TensorId,
    drop_at: usize,
}

/// Results that a script holds after their last use.
#[derive(Default)]
pub(super) struct AllHeld {
    /// Until their name is bound again: `del` after their last use frees them earlier.
    pub(super) until_bound_again: Vec<Held>,
    /// To the end, one more in every optimizer step: they grow.
    pub(super) to_the_end: Vec<Held>,
}

/// Finds them, line by line.
pub(super) fn all_held(recorded: &Recorded<'_>) -> AllHeld {
    let mut of_line: BTreeMap<Line, Vec<Outliving>> = BTreeMap::new();
    for (line, found) in outliving(recorded) {
        of_line.entry(line).or_default().push(found);
    }
    let mut all = AllHeld::default();
    for (line, found) in of_line {
        let is_kept = |found: &Outliving| recorded.lifetimes[found.id.0 as usize].dropped.is_none();
        let kept: Vec<Outliving> = found.iter().copied().filter(is_kept).collect();
        let made = kept.iter().filter_map(|found| recorded.lifetimes[found.id.0 as usize].made);
        let steps: BTreeSet<usize> = made.map(|at| recorded.updates_before(at)).collect();
        if steps.len() >= FEWEST_KEPT {
            all.to_the_end.extend(held(recorded, line, &kept));
        } else if found.iter().any(|found| !is_kept(found)) && most_alive(recorded, &found) <= MOST_NAMED {
            // What is made once and never dropped may be for later than the recording's end.
            all.until_bound_again.extend(held(recorded, line, &found));
        }
    }
    all
}

/// Every result on the GPU that outlives its last use, with the line of the statement that makes it.
fn outliving<'r>(recorded: &'r Recorded<'_>) -> impl Iterator<Item = (Line, Outliving)> + 'r {
    (0..recorded.tensors.len()).filter_map(move |index| {
        let id = TensorId(index as u32);
        let lifetime = recorded.lifetimes[index];
        if recorded.bytes(id) == 0 {
            return None;
        }
        let statement = recorded.statement_of(id)?;
        let drop_at = recorded.after_statement(lifetime.last_use, recorded.lines.frame(statement))?;
        let dropped = lifetime.dropped.unwrap_or(recorded.steps.len());
        let is_operator = |at: usize| recorded.call(at).is_some_and(|call| recorded.script_call(call).is_none());
        let is_earlier = (drop_at..dropped).any(is_operator);
        is_earlier.then(|| (recorded.lines.line(statement), Outliving { id, drop_at }))
    })
}

/// How many are alive at once, at most.
fn most_alive(recorded: &Recorded<'_>, found: &[Outliving]) -> usize {
    let changes = found.iter().flat_map(|found| {
        let lifetime = recorded.lifetimes[found.id.0 as usize];
        [(lifetime.made.unwrap_or(0), 1), (lifetime.dropped.unwrap_or(usize::MAX), -1)]
    });
    most(changes.collect()) as usize
}

/// The highest sum of changes in the order of their positions.
fn most(mut changes: Vec<(usize, i64)>) -> i64 {
    changes.sort_unstable();
    let mut sum = 0;
    changes
        .into_iter()
        .map(|(_, change)| {
            sum += change;
            sum
        })
        .max()
        .unwrap_or(0)
}

fn held(recorded: &Recorded<'_>, line: Line, found: &[Outliving]) -> Option<Held> {
    let statement = recorded.statement_of(found.last()?.id)?;
    let frame = recorded.lines.frame(statement);
    let last_use = recorded.lifetimes[found.last()?.id.0 as usize].last_use;
    let row = (0..=last_use).rev().find_map(|at| recorded.call(at)?.source)?;
    let last_line = recorded.lines.within(frame, row).unwrap_or_else(|| line.clone());
    let bytes = found.iter().flat_map(|found| {
        let bytes = recorded.bytes(found.id) as i64;
        let dropped = recorded.lifetimes[found.id.0 as usize].dropped.unwrap_or(usize::MAX);
        [(found.drop_at, bytes), (dropped, -bytes)]
    });
    let bytes = most(bytes.collect()).unsigned_abs();
    let drops = found.iter().map(|found| (found.id, found.drop_at)).collect();
    Some(Held { line, last_line, bytes, edit: Edit { drops, ..Edit::default() } })
}
