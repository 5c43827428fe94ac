//! Graphs kept by an evaluation: without `no_grad`, a forward pass leaves behind what only a backward pass would need.

use std::collections::BTreeMap;

use vramfit_trace::snapshot::FrameId;

use super::passes::{Pass, Saved, evaluations, inner, passes};
use super::{Details, Evidence, Finding, median};
use crate::history::{OUTSIDE, number};
use crate::origin::Activity;

/// An evaluation that keeps its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphKept {
    /// Calls of the model that keep it.
    pub passes: usize,
    /// Bytes that one call keeps.
    pub per_pass: u64,
    /// Blocks that one call keeps.
    pub blocks_per_pass: u64,
    /// The event at which the last of it was freed; `None` if some is still held at the end.
    pub released: Option<u32>,
}

/// An evaluation that keeps this share of what training saves counts as one without `no_grad`.
const SAVED_SHARE: f64 = 0.7;
/// Without a training to compare with: the share of everything it makes.
const LEFT_SHARE: f64 = 0.5;
/// Blocks needed to distinguish a graph from outputs.
const LEAST_BLOCKS: f64 = 3.0;
/// Without a training: calls needed, since a first training step may have several before its backward pass.
const LEAST_PASSES: usize = 3;

/// Looks for evaluations that keep their graphs, one finding a line that calls the model.
pub(super) fn find(evidence: &Evidence<'_>) -> Vec<Finding> {
    if !evidence.origins.has_frames {
        return Vec::new();
    }
    let backwards = evidence.phases.spans.iter().filter(|span| span.activity == Activity::Backward).count();
    let passes = passes(evidence);
    let is_evaluation = match backwards {
        0 => vec![true; passes.len()],
        _ => evaluations(&passes, backwards + 1),
    };
    let saved = Saved::learn(evidence, &passes, &is_evaluation);
    let mut by_place: BTreeMap<Option<FrameId>, Vec<&Pass>> = BTreeMap::new();
    for (pass, _) in passes.iter().zip(&is_evaluation).filter(|&(_, &is_evaluation)| is_evaluation) {
        let first = &evidence.history.births()[pass.births.start as usize];
        by_place.entry(evidence.origins.get(first.stack).caller).or_default().push(pass);
    }
    let least = if backwards == 0 { LEAST_PASSES } else { 2 };
    let mut found: Vec<Finding> = Vec::new();
    for (place, passes) in by_place {
        let keeping = passes.iter().filter(|pass| is_graph(evidence, pass, &pass.left, &saved)).count();
        if keeping >= least && keeping * 2 >= passes.len() {
            let kept = passes.iter().map(|pass| kept_by(evidence, pass, &saved));
            found.push(finding(evidence, place, &kept.filter(|kept| !kept.is_empty()).collect::<Vec<_>>()));
        }
    }
    found.retain(|finding| evidence.is_material(finding.bytes));
    found.sort_by_key(|finding| std::cmp::Reverse(finding.bytes));
    found
}

/// Whether `kept` is so much of what the pass makes that it must be its graph.
fn is_graph(evidence: &Evidence<'_>, pass: &Pass, kept: &[u32], saved: &Saved) -> bool {
    let earlier = number(evidence.history.earlier);
    let shares: Vec<f64> = pass.births.clone().filter_map(|birth| saved.share(inner(evidence, birth))).collect();
    if shares.len() * 2 >= pass.births.len() {
        let expected: f64 = shares.iter().sum();
        let is_known = |index: u32| saved.share(inner(evidence, index - earlier)).is_some();
        let kept = kept.iter().filter(|&&index| is_known(index)).count();
        return expected >= LEAST_BLOCKS && kept as f64 >= SAVED_SHARE * expected;
    }
    kept.len() as f64 > LEAST_BLOCKS && kept.len() as f64 >= LEFT_SHARE * pass.births.len() as f64
}

/// What a pass keeps: what it leaves behind, or, if the next allocation comes only after all was freed, as after the last
/// pass of an evaluation, what it held when it made its last allocation.
fn kept_by(evidence: &Evidence<'_>, pass: &Pass, saved: &Saved) -> Vec<u32> {
    if is_graph(evidence, pass, &pass.left, saved) {
        return pass.left.clone();
    }
    let history = evidence.history;
    let last = history.births()[pass.births.end as usize - 1].birth;
    let made = pass.births.clone().map(|birth| birth + number(history.earlier));
    let held: Vec<u32> = made.filter(|&index| history.lifetimes[index as usize].death > last).collect();
    if is_graph(evidence, pass, &held, saved) { held } else { Vec::new() }
}

fn finding(evidence: &Evidence<'_>, place: Option<FrameId>, passes: &[Vec<u32>]) -> Finding {
    let history = evidence.history;
    let mut allocations: Vec<u32> = passes.iter().flatten().copied().collect();
    allocations.sort_unstable();
    let lifetimes = || allocations.iter().map(|&index| &history.lifetimes[index as usize]);
    let largest = lifetimes().max_by_key(|lifetime| lifetime.size);
    let stack = largest.map_or_else(Default::default, |lifetime| lifetime.stack);
    let last_death = lifetimes().map(|lifetime| lifetime.death).max().unwrap_or(OUTSIDE);
    let (peak, at) = peak_of(evidence, &allocations);
    let bytes = |kept: &Vec<u32>| kept.iter().map(|&index| history.lifetimes[index as usize].size).sum();
    let first = lifetimes().map(|lifetime| lifetime.birth).min().unwrap_or(0);
    Finding {
        bytes: peak,
        per_step: None,
        place,
        made_at: evidence.origins.get(stack).owner,
        stack,
        events: (first, at),
        details: Details::GraphKept(GraphKept {
            passes: passes.len(),
            per_pass: median(passes.iter().map(bytes).collect()),
            blocks_per_pass: median(passes.iter().map(|kept| kept.len() as u64).collect()),
            released: (last_death != OUTSIDE).then_some(last_death),
        }),
        allocations,
    }
}

/// The peak bytes of `allocations` held at once, and its event.
fn peak_of(evidence: &Evidence<'_>, allocations: &[u32]) -> (u64, u32) {
    let mut changes: Vec<(u32, bool, u64)> = Vec::with_capacity(allocations.len() * 2);
    for &index in allocations {
        let lifetime = &evidence.history.lifetimes[index as usize];
        changes.push((lifetime.birth, true, lifetime.size));
        if lifetime.death != OUTSIDE {
            changes.push((lifetime.death, false, lifetime.size));
        }
    }
    changes.sort_unstable();
    let (mut held, mut most, mut at) = (0u64, 0, 0);
    for (event, is_birth, size) in changes {
        held = if is_birth { held + size } else { held - size };
        if held > most {
            (most, at) = (held, event);
        }
    }
    (most, at)
}
