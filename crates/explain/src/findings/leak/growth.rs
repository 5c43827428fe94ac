//! What is carried from step to step, and whether it piles up.

use std::collections::{BTreeMap, HashMap, HashSet};

use vramfit_trace::snapshot::StackId;

use crate::findings::{Evidence, median};
use crate::history::Lifetime;
use crate::origin::Activity;
use crate::roles::is_carried;
use crate::steps::Basis;

/// The share of the steps that must have kept something.
const STEADY: f64 = 0.5;

/// A step's gradients are at least this share of what was there before.
const GRADIENT_SHARE: f64 = 0.2;

/// All steps together make gradients at least this many times.
const GRADIENT_TURNS: f64 = 1.5;

/// What makes two allocations of different steps the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Stack(StackId),
    /// Without a stack: the size, and what the program was doing.
    Size(Activity, u64),
    /// Without a stack, and of a different size every time.
    Sizes(Activity),
}

/// What was made in a step and carried beyond the next, by key and in order of birth.
pub(super) fn carried(evidence: &Evidence<'_>, known: &HashSet<u32>) -> HashMap<Key, Vec<u32>> {
    let mut groups: HashMap<Key, Vec<u32>> = HashMap::new();
    for_births_in_steps(evidence, |index, lifetime, born| {
        if is_carried(lifetime, born, evidence.steps) && !known.contains(&index) {
            let activity = evidence.phases.activities[index as usize - evidence.history.earlier];
            let key = match lifetime.stack {
                StackId::NONE => Key::Size(activity, lifetime.requested),
                stack => Key::Stack(stack),
            };
            groups.entry(key).or_default().push(index);
        }
    });
    groups
}

pub(super) fn for_births_in_steps(evidence: &Evidence<'_>, mut act: impl FnMut(u32, &Lifetime, usize)) {
    let history = evidence.history;
    for (born, step) in evidence.steps.list.iter().enumerate() {
        let range = history.births_before(step.first)..history.births_before(step.end);
        for index in range {
            let index = history.earlier + index;
            act(crate::history::number(index), &history.lifetimes[index], born);
        }
    }
}

/// Whether the members, in order of birth, pile up over the steps.
pub(super) fn grows(evidence: &Evidence<'_>, members: &[u32]) -> bool {
    let steps = evidence.steps;
    let judged = steps.list.len() - 1;
    // For each step that made some: the step by which the first of them is freed.
    let mut ends: Vec<(usize, usize)> = Vec::new();
    for &index in members {
        let lifetime = &evidence.history.lifetimes[index as usize];
        let Some(born) = steps.at(lifetime.birth) else { continue };
        let end = steps.begun_by(lifetime.death);
        match ends.last_mut() {
            Some(last) if last.0 == born => last.1 = last.1.min(end),
            _ => ends.push((born, end)),
        }
    }
    let one_by_one = ends.windows(2).filter(|pair| {
        let ((first, first_end), (second, second_end)) = (pair[0], pair[1]);
        second_end > first_end && second_end - first_end == second - first && second_end < steps.list.len()
    });
    if one_by_one.count() * 20 > ends.len() {
        return false;
    }
    let mut together: HashMap<usize, usize> = HashMap::new();
    for &(_, end) in &ends {
        *together.entry(end).or_default() += 1;
    }
    let piled: usize = together
        .into_iter()
        .filter(|&(end, count)| count >= if end == steps.list.len() { 2 } else { 3 })
        .map(|(_, count)| count)
        .sum();
    piled >= 2 && piled as f64 >= STEADY * judged as f64
}

/// Whether the steps are really steps. If they come neither from marks nor from backward passes, they may be the layers of
/// one pass, which repeat too: then most of what they make must be freed again, gradients among it.
pub(super) fn are_steps(evidence: &Evidence<'_>, leaking: &BTreeMap<Key, Vec<u32>>) -> bool {
    match evidence.steps.basis {
        Basis::Annotations | Basis::Phases => true,
        Basis::Calls => frees_most(evidence, leaking),
        Basis::Period => frees_most(evidence, leaking) && makes_gradients(evidence),
    }
}

fn frees_most(evidence: &Evidence<'_>, leaking: &BTreeMap<Key, Vec<u32>>) -> bool {
    let size = |&index: &u32| evidence.history.lifetimes[index as usize].size;
    let kept: u64 = leaking.values().flatten().map(size).sum();
    let mut made = 0u64;
    for_births_in_steps(evidence, |_, lifetime, _| made = made.saturating_add(lifetime.size));
    kept.saturating_mul(2) <= made
}

/// Whether every step makes and drops tensors of the sizes of what was there before: gradients are as large as the
/// parameters. A layer makes only its own gradients, and all layers together each gradient once; steps make them again
/// and again. Other things that were there before, such as the optimizer's state, may be three times the parameters.
fn makes_gradients(evidence: &Evidence<'_>) -> bool {
    let (history, steps) = (evidence.history, evidence.steps);
    let first = history.earlier + history.births_before(steps.list[0].first);
    let mut lasting: HashMap<u64, u64> = HashMap::new();
    for lifetime in history.lifetimes[..first].iter().filter(|lifetime| lifetime.is_live_at_end()) {
        *lasting.entry(lifetime.requested).or_default() += 1;
    }
    let all: u64 = lasting.iter().map(|(size, count)| size.saturating_mul(*count)).sum();
    let mut made: HashMap<(usize, u64), u64> = HashMap::new();
    let mut found = vec![0u64; steps.list.len()];
    for_births_in_steps(evidence, |_, lifetime, born| {
        let Some(&count) = lasting.get(&lifetime.requested) else { return };
        let made = made.entry((born, lifetime.requested)).or_default();
        if *made < count && !is_carried(lifetime, born, steps) {
            *made += 1;
            found[born] += lifetime.requested;
        }
    });
    let in_all: u64 = found.iter().sum();
    all > 0 && median(found) as f64 >= GRADIENT_SHARE * all as f64 && in_all as f64 >= GRADIENT_TURNS * all as f64
}
