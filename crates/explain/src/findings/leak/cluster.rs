//! Growth by the line that causes it, and what it is.

use std::collections::{BTreeMap, HashMap, HashSet};

use vramfit_trace::snapshot::{FrameId, StackId};

use super::Kept;
use super::growth::{Key, for_births_in_steps};
use crate::findings::{Evidence, median};
use crate::history::{Lifetime, OUTSIDE};
use crate::origin::Activity;

/// A kept graph is at least this share of what the forward pass leaves behind.
const GRAPH_SHARE: f64 = 0.5;

/// And at least this many blocks a step.
const GRAPH_BLOCKS: u64 = 3;

/// What leaks from one line.
pub(super) struct Cluster {
    pub(super) place: Option<FrameId>,
    pub(super) kept: Kept,
    /// Its part of what the line's forward passes leave behind, or of what a step makes.
    pub(super) share: f64,
    pub(super) blocks_per_step: u64,
    pub(super) members: Vec<u32>,
}

pub(super) fn clusters(evidence: &Evidence<'_>, leaking: BTreeMap<Key, Vec<u32>>) -> Vec<Cluster> {
    let last_held = last_step(evidence);
    let mut by_place: BTreeMap<(Option<FrameId>, Kept), Vec<u32>> = BTreeMap::new();
    for (key, mut members) in leaking {
        let first = members[0] as usize;
        let activity = evidence.phases.activities[first - evidence.history.earlier];
        let place = evidence.origins.get(evidence.history.lifetimes[first].stack).caller;
        leave_out_extras(evidence, &mut members);
        add_last_step(evidence, last_held.get(&key).map_or(&[], Vec::as_slice), &mut members);
        let kept = match activity {
            Activity::Forward => Kept::Outputs,
            Activity::Backward => Kept::Gradients,
            Activity::Optimizer | Activity::Other | Activity::Unknown => Kept::Tensors,
        };
        by_place.entry((place, kept)).or_default().extend(members);
    }
    let steady = steady_steps(evidence);
    let left = left_by_passes(evidence, &steady);
    let clusters = by_place.into_iter().map(|((place, kept), mut members)| {
        members.sort_unstable();
        let blocks = per_step(evidence, &members, &steady, |_| 1);
        let part = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let share = match kept {
            Kept::Outputs => part(blocks, left.get(&place).copied().unwrap_or(0)),
            // Without frames activations look like gradients; bytes give the many small ones less weight.
            _ if !evidence.origins.has_frames => {
                let bytes = per_step(evidence, &members, &steady, |lifetime| lifetime.size);
                part(bytes, made_at_step_peaks(evidence, &steady))
            }
            _ => 1.0,
        };
        Cluster { place, kept, share, blocks_per_step: blocks, members }
    });
    clusters.collect()
}

/// Removes what a single step kept beyond what steps usually keep: a workspace that the first call made has the same stack.
fn leave_out_extras(evidence: &Evidence<'_>, members: &mut Vec<u32>) {
    let typical = median(count_by_step(evidence, members).into_values().map(|(count, _)| count).collect());
    let size = |index: u32| evidence.history.lifetimes[index as usize].requested;
    let middle = median(members.iter().map(|&index| size(index)).collect());
    let mut often: HashMap<u64, usize> = HashMap::new();
    for &index in members.iter() {
        *often.entry(size(index)).or_default() += 1;
    }
    let mut by_step: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for &index in members.iter() {
        if let Some(born) = evidence.steps.at(evidence.history.lifetimes[index as usize].birth) {
            by_step.entry(born).or_default().push(index);
        }
    }
    members.clear();
    for mut step in by_step.into_values() {
        step.sort_by_key(|&index| (std::cmp::Reverse(often[&size(index)]), size(index).abs_diff(middle), index));
        step.truncate(usize::try_from(typical).unwrap_or(usize::MAX));
        members.extend(step);
    }
    members.sort_unstable();
}

/// What the last step made and still holds, by key; no later step can judge it.
fn last_step(evidence: &Evidence<'_>) -> HashMap<Key, Vec<u32>> {
    let history = evidence.history;
    let last = evidence.steps.list[evidence.steps.list.len() - 1];
    let mut held: HashMap<Key, Vec<u32>> = HashMap::new();
    for birth in history.births_before(last.first)..history.births_before(last.end) {
        let index = history.earlier + birth;
        let lifetime = &history.lifetimes[index];
        if lifetime.death < last.end {
            continue;
        }
        let activity = evidence.phases.activities[birth];
        let keys = match lifetime.stack {
            StackId::NONE => vec![Key::Size(activity, lifetime.requested), Key::Sizes(activity)],
            stack => vec![Key::Stack(stack)],
        };
        for key in keys {
            held.entry(key).or_default().push(crate::history::number(index));
        }
    }
    held
}

/// Adds as many of the last step's own as the other steps keep.
fn add_last_step(evidence: &Evidence<'_>, held: &[u32], members: &mut Vec<u32>) {
    let typical = median(count_by_step(evidence, members).into_values().map(|(count, _)| count).collect());
    let known: HashSet<u32> = members.iter().copied().collect();
    let added = held.iter().filter(|index| !known.contains(index)).take(usize::try_from(typical).unwrap_or(usize::MAX));
    members.extend(added);
}

/// Count and bytes of the members by the step that made them.
pub(super) fn count_by_step(evidence: &Evidence<'_>, members: &[u32]) -> HashMap<usize, (u64, u64)> {
    let mut counts: HashMap<usize, (u64, u64)> = HashMap::new();
    for &index in members {
        let lifetime = &evidence.history.lifetimes[index as usize];
        if let Some(born) = evidence.steps.at(lifetime.birth) {
            let entry = counts.entry(born).or_default();
            entry.0 += 1;
            entry.1 += lifetime.size;
        }
    }
    counts
}

/// The steps in steady state: not the first, which makes what then stays, and not the last, which no later step judges.
pub(super) fn steady_steps(evidence: &Evidence<'_>) -> std::ops::Range<usize> {
    let judged = evidence.steps.list.len() - 1;
    if judged > 2 { 1..judged } else { 0..judged }
}

/// What a step keeps of the members, measured by `measure`: the median of the steady steps that keep any.
pub(super) fn per_step(
    evidence: &Evidence<'_>,
    members: &[u32],
    steady: &std::ops::Range<usize>,
    measure: impl Fn(&Lifetime) -> u64,
) -> u64 {
    let mut sums: BTreeMap<usize, u64> = BTreeMap::new();
    for &index in members {
        let lifetime = &evidence.history.lifetimes[index as usize];
        if let Some(born) = evidence.steps.at(lifetime.birth).filter(|born| steady.contains(born)) {
            *sums.entry(born).or_default() += measure(lifetime);
        }
    }
    median(sums.into_values().collect())
}

/// How many blocks the forward passes called from each line leave behind in a step.
fn left_by_passes(evidence: &Evidence<'_>, steady: &std::ops::Range<usize>) -> HashMap<Option<FrameId>, u64> {
    let mut members: HashMap<Option<FrameId>, Vec<u32>> = HashMap::new();
    let mut span = 0;
    for_births_in_steps(evidence, |index, lifetime, _| {
        let birth = index as usize - evidence.history.earlier;
        while evidence.phases.spans[span].end as usize <= birth {
            span += 1;
        }
        let is_forward = evidence.phases.activities[birth] == Activity::Forward;
        let is_left = lifetime.death == OUTSIDE || lifetime.death >= evidence.phases.spans[span].end_event;
        if is_forward && is_left {
            members.entry(evidence.origins.get(lifetime.stack).caller).or_default().push(index);
        }
    });
    members.into_iter().map(|(place, members)| (place, per_step(evidence, &members, steady, |_| 1))).collect()
}

/// Bytes that a step has made and holds at its peak.
fn made_at_step_peaks(evidence: &Evidence<'_>, steady: &std::ops::Range<usize>) -> u64 {
    let history = evidence.history;
    let made = evidence.steps.list[steady.clone()].iter().map(|step| {
        let levels = &history.allocated[step.first as usize..step.end as usize];
        let highest = levels.iter().enumerate().max_by_key(|&(index, &level)| (level, std::cmp::Reverse(index)));
        let peak = step.first + highest.map_or(0, |(index, _)| crate::history::number(index));
        let born = &history.births()[history.births_before(step.first)..history.births_before(peak + 1)];
        born.iter().filter(|lifetime| lifetime.death > peak).map(|lifetime| lifetime.size).sum()
    });
    median(made.collect())
}

/// Distinguishes graphs from outputs, and merges what belongs to one graph: its inputs and its loss are kept with it.
pub(super) fn merge(mut clusters: Vec<Cluster>, has_frames: bool) -> Vec<Cluster> {
    if !has_frames {
        for cluster in &mut clusters {
            if cluster.share >= GRAPH_SHARE && cluster.blocks_per_step >= GRAPH_BLOCKS {
                cluster.kept = Kept::Graph;
            }
        }
        return clusters;
    }
    let is_graph_like = |cluster: &Cluster| cluster.kept == Kept::Outputs && cluster.share >= GRAPH_SHARE;
    let joins = |cluster: &Cluster| is_graph_like(cluster) || matches!(cluster.kept, Kept::Tensors | Kept::Gradients);
    let blocks: u64 = clusters.iter().filter(|cluster| joins(cluster)).map(|cluster| cluster.blocks_per_step).sum();
    if !clusters.iter().any(is_graph_like) || blocks < GRAPH_BLOCKS {
        return clusters;
    }
    let (parts, mut others): (Vec<Cluster>, Vec<Cluster>) = clusters.into_iter().partition(joins);
    let mut whole =
        Cluster { place: None, kept: Kept::Graph, share: 1.0, blocks_per_step: blocks, members: Vec::new() };
    let largest = parts.iter().filter(|part| is_graph_like(part)).max_by_key(|part| part.members.len());
    whole.place = largest.and_then(|part| part.place);
    whole.members = parts.into_iter().flat_map(|part| part.members).collect();
    whole.members.sort_unstable();
    others.push(whole);
    others
}
