//! Leaks: what every step makes and no step frees.
//!
//! Being alive at the end is not enough: parameters and optimizer state are too, but they are made once. A leak is made by
//! the same line in step after step and *carried* beyond the whole of the next step. Nor is it freed one by one, as by a
//! queue of fixed length.

use std::collections::{BTreeMap, HashMap};

use vramfit_trace::snapshot::{FrameId, StackId};

use super::{Details, Evidence, Finding, Share, median};
use crate::history::{Lifetime, OUTSIDE};
use crate::origin::Activity;
use crate::roles::is_carried;
use crate::steps::Basis;

/// What is kept from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// The step's graph: most of what its forward pass holds for the backward pass.
    Graph,
    /// One or a few of the model's results.
    Outputs,
    /// Tensors made outside the model.
    Tensors,
    /// What autograd made, such as gradients.
    Gradients,
}

/// Growth from step to step.
#[derive(Clone, Debug)]
pub struct Leak {
    /// What is kept.
    pub kept: Kept,
    /// In how many steps it was made and kept.
    pub steps: usize,
    /// Blocks kept per step.
    pub blocks_per_step: u64,
    /// The event at which the first of it was freed; `None` if most was still held at the end.
    pub released: Option<u32>,
    /// The lines that made it, the largest part first.
    pub shares: Vec<Share>,
}

/// Steps needed before anything is called growth.
const LEAST_STEPS: usize = 3;
/// The share of the steps that must have kept something.
const STEADY: f64 = 0.5;
/// A kept graph is at least this share of what the forward pass leaves behind.
const GRAPH_SHARE: f64 = 0.5;
/// And at least this many blocks a step.
const GRAPH_BLOCKS: u64 = 3;

/// A step's gradients are at least this share of what was there before.
const GRADIENT_SHARE: f64 = 0.2;
/// All steps together make gradients at least this many times.
const GRADIENT_TURNS: f64 = 1.5;

/// Growth that is small in the recording must be seen in this many steps.
const SLOW_STEPS: usize = 8;
/// And in this share of them.
const SLOW_STEADY: f64 = 0.8;

/// What makes two allocations of different steps the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    Stack(StackId),
    /// Without a stack: the size, and what the program was doing.
    Size(Activity, u64),
    /// Without a stack, and of a different size every time.
    Sizes(Activity),
}

/// Looks for leaks; what `known` findings are about is left out.
pub(super) fn find(evidence: &Evidence<'_>, known: &[Finding]) -> Vec<Finding> {
    if evidence.steps.list.len() < LEAST_STEPS {
        return Vec::new();
    }
    let known: std::collections::HashSet<u32> = known.iter().flat_map(|found| &found.allocations).copied().collect();
    let mut groups = carried(evidence, &known);
    let mut leaking: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    let mut rest: HashMap<Key, Vec<u32>> = HashMap::new();
    for (key, members) in groups.drain() {
        if grows(evidence, &members) {
            leaking.insert(key, members);
        } else if let Key::Size(activity, _) = key {
            rest.entry(Key::Sizes(activity)).or_default().extend(members);
        }
    }
    for (key, mut members) in rest {
        members.sort_unstable();
        if grows(evidence, &members) {
            leaking.insert(key, members);
        }
    }
    if !are_steps(evidence, &leaking) {
        return Vec::new();
    }
    let clusters = clusters(evidence, leaking);
    let found = merge(clusters, evidence.origins.has_frames).into_iter().map(|cluster| finding(evidence, cluster));
    let growth = |finding: &Finding| match &finding.details {
        Details::Leak(leak) => finding.per_step.unwrap_or(0).saturating_mul(leak.steps as u64),
        _ => 0,
    };
    let is_slow = |finding: &Finding| match &finding.details {
        Details::Leak(leak) => {
            let judged = evidence.steps.list.len();
            judged >= SLOW_STEPS
                && leak.steps as f64 >= SLOW_STEADY * judged as f64
                && evidence.is_material_in_time(finding.per_step.unwrap_or(0))
        }
        _ => false,
    };
    let mut found: Vec<Finding> =
        found.filter(|finding| evidence.is_material(growth(finding)) || is_slow(finding)).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.bytes));
    found
}

/// Whether the steps are really steps. If they come neither from marks nor from backward passes, they may be the layers of
/// one pass, which repeat too: then most of what they make must be freed again, gradients among it.
fn are_steps(evidence: &Evidence<'_>, leaking: &BTreeMap<Key, Vec<u32>>) -> bool {
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

/// What was made in a step and carried beyond the next, by key and in order of birth.
fn carried(evidence: &Evidence<'_>, known: &std::collections::HashSet<u32>) -> HashMap<Key, Vec<u32>> {
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

fn for_births_in_steps(evidence: &Evidence<'_>, mut act: impl FnMut(u32, &Lifetime, usize)) {
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
fn grows(evidence: &Evidence<'_>, members: &[u32]) -> bool {
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

/// What leaks from one line.
struct Cluster {
    place: Option<FrameId>,
    kept: Kept,
    /// Its part of what the line's forward passes leave behind, or of what a step makes.
    share: f64,
    blocks_per_step: u64,
    members: Vec<u32>,
}

fn clusters(evidence: &Evidence<'_>, leaking: BTreeMap<Key, Vec<u32>>) -> Vec<Cluster> {
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
    let known: std::collections::HashSet<u32> = members.iter().copied().collect();
    let added = held.iter().filter(|index| !known.contains(index)).take(usize::try_from(typical).unwrap_or(usize::MAX));
    members.extend(added);
}

/// Count and bytes of the members by the step that made them.
fn count_by_step(evidence: &Evidence<'_>, members: &[u32]) -> HashMap<usize, (u64, u64)> {
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
fn steady_steps(evidence: &Evidence<'_>) -> std::ops::Range<usize> {
    let judged = evidence.steps.list.len() - 1;
    if judged > 2 { 1..judged } else { 0..judged }
}

/// What a step keeps of the members, measured by `measure`: the median of the steady steps that keep any.
fn per_step(
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
fn merge(mut clusters: Vec<Cluster>, has_frames: bool) -> Vec<Cluster> {
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

fn finding(evidence: &Evidence<'_>, cluster: Cluster) -> Finding {
    let lifetimes = || cluster.members.iter().map(|&index| &evidence.history.lifetimes[index as usize]);
    let steady = steady_steps(evidence);
    let gone = || lifetimes().filter(|lifetime| lifetime.death != OUTSIDE);
    let is_released = gone().count() * 2 > cluster.members.len();
    let released = gone().map(|lifetime| lifetime.death).min().filter(|_| is_released);
    let mut shares: HashMap<(Option<FrameId>, Activity), Share> = HashMap::new();
    for &index in &cluster.members {
        let lifetime = &evidence.history.lifetimes[index as usize];
        let place = evidence.origins.get(lifetime.stack).owner;
        let activity = evidence.phases.activities[index as usize - evidence.history.earlier];
        let share = shares.entry((place, activity)).or_insert(Share { place, activity, bytes: 0, blocks: 0 });
        share.bytes += lifetime.size;
        share.blocks += 1;
    }
    let mut shares: Vec<Share> = shares.into_values().collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.place, share.activity));
    let largest = lifetimes().max_by_key(|lifetime| (lifetime.size, std::cmp::Reverse(lifetime.birth)));
    let stack = largest.map_or(StackId::NONE, |lifetime| lifetime.stack);
    let first = lifetimes().map(|lifetime| lifetime.birth).min().unwrap_or(0);
    let last = lifetimes().map(|lifetime| lifetime.birth).max().unwrap_or(0);
    Finding {
        bytes: lifetimes().map(|lifetime| lifetime.size).sum(),
        per_step: Some(per_step(evidence, &cluster.members, &steady, |lifetime| lifetime.size)),
        place: cluster.place,
        made_at: shares.first().and_then(|share| share.place),
        stack,
        events: (first, last),
        details: Details::Leak(Leak {
            kept: cluster.kept,
            steps: count_by_step(evidence, &cluster.members).len(),
            blocks_per_step: per_step(evidence, &cluster.members, &steady, |_| 1),
            released,
            shares,
        }),
        allocations: cluster.members,
    }
}
