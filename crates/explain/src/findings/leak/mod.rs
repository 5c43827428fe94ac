//! Leaks: what every step makes and no step frees.
//!
//! Being alive at the end is not enough: parameters and optimizer state are too, but they are made once. A leak is made by
//! the same line in step after step and *carried* beyond the whole of the next step. Nor is it freed one by one, as by a
//! queue of fixed length.

mod cluster;
mod growth;

use std::collections::{BTreeMap, HashMap, HashSet};

use vramfit_trace::snapshot::{FrameId, StackId};

use super::{Details, Evidence, Finding, Share};
use crate::history::OUTSIDE;
use crate::origin::Activity;
use cluster::{Cluster, clusters, count_by_step, merge, per_step, steady_steps};
use growth::{Key, are_steps, carried, grows};

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

/// Growth that is small in the recording must be seen in this many steps.
const SLOW_STEPS: usize = 8;
/// And in this share of them.
const SLOW_STEADY: f64 = 0.8;

/// Looks for leaks; what `known` findings are about is left out.
pub(super) fn find(evidence: &Evidence<'_>, known: &[Finding]) -> Vec<Finding> {
    if evidence.steps.list.len() < LEAST_STEPS {
        return Vec::new();
    }
    let known: HashSet<u32> = known.iter().flat_map(|found| &found.allocations).copied().collect();
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
