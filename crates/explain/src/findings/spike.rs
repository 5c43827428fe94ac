//! Spikes: something short-lived that sets the peak, such as logits in fp32 or an optimizer's temporaries.

use std::collections::{HashMap, HashSet};

use vramfit_trace::snapshot::{FrameId, StackId};

use super::{Details, Evidence, Finding, Share, median};
use crate::history::{Lifetime, OUTSIDE};
use crate::origin::Activity;
use crate::roles::Role;

/// Something short-lived that sets the peak.
#[derive(Clone, Debug)]
pub struct Spike {
    /// What the program was doing when it made it.
    pub activity: Activity,
    /// Its blocks at the peak.
    pub blocks: u64,
    /// What the peak would be without it.
    pub without: u64,
    /// Whether gradients of the same size, made by the backward pass, are part of it.
    pub has_gradients: bool,
    /// The lines that made it, the largest part first.
    pub shares: Vec<Share>,
}

/// Short-lived allocations must be this share of the peak: less is normal.
const SHARE: f64 = 0.1;
/// And the peak must be lower by this share without them; otherwise memory is as high at another event.
const SAVED: f64 = 0.05;
/// What lives across phases still counts as short-lived if it lives for less than this share of its step, counted in
/// allocations: the loss's own tensors are saved for a backward pass that comes at once.
const SHORT: f64 = 0.1;
/// And if it is larger by this factor than the median of the step's tensors held at the peak. The last layers' results
/// live as briefly, but have the size of other layers' results, or four times that.
const OUTLIER_FACTOR: u64 = 8;
/// Tensors below this do not count as a step's.
const TENSOR: u64 = 1 << 16;

/// Looks at the peak.
pub(super) fn find(evidence: &Evidence<'_>) -> Option<Finding> {
    let history = evidence.history;
    let (event, peak) = history.peak_allocated();
    // Without a backward pass everything is short-lived.
    let is_training = evidence.steps.is_training || !evidence.origins.has_frames;
    if event == OUTSIDE || !is_training || evidence.steps.at(event).is_none() {
        return None;
    }
    let threshold = (SHARE * peak as f64) as u64;
    let mut groups: HashMap<Activity, Vec<usize>> = HashMap::new();
    let least = OUTLIER_FACTOR.saturating_mul(median_tensor(evidence, event));
    for index in history.live_at(event).filter(|&index| is_short_lived(evidence, index, least)) {
        let activity = match evidence.phases.activities[index - history.earlier] {
            Activity::Other => Activity::Forward,
            activity => activity,
        };
        groups.entry(activity).or_default().push(index);
    }
    // What only autograd makes and frees is part of any backward pass, and no line can be named for it.
    groups.remove(&Activity::Backward);
    let bytes = |members: &[usize]| members.iter().map(|&index| history.lifetimes[index].size).sum::<u64>();
    let (activity, members) = groups.into_iter().max_by_key(|(activity, members)| (bytes(members), *activity))?;
    if bytes(&members) < threshold {
        return None;
    }
    let alike = Alike::of(evidence, &members, least);
    let without = peak_without(evidence, &alike);
    let saved = peak.saturating_sub(without);
    if (saved as f64) < SAVED * peak as f64 {
        return None;
    }
    Some(finding(evidence, event, activity, &members, without, alike.has_gradients))
}

/// The median size of the tensors that a step has made and holds at `event`.
fn median_tensor(evidence: &Evidence<'_>, event: u32) -> u64 {
    let is_of_step = |role: Role| matches!(role, Role::Activation | Role::Data | Role::InStep);
    let live = evidence.history.live_at(event).filter(|&index| is_of_step(evidence.roles[index]));
    median(live.map(|index| evidence.history.lifetimes[index].size).filter(|&size| size >= TENSOR).collect())
}

fn is_short_lived(evidence: &Evidence<'_>, index: usize, least: u64) -> bool {
    let lifetime = &evidence.history.lifetimes[index];
    match evidence.roles[index] {
        Role::Temporary | Role::OptimizerTemporary => true,
        Role::BackwardTemporary => false,
        Role::Activation | Role::Data | Role::InStep => lifetime.size >= least && dies_early(evidence, lifetime),
        _ => false,
    }
}

fn dies_early(evidence: &Evidence<'_>, lifetime: &Lifetime) -> bool {
    let Some(step) = evidence.steps.at(lifetime.birth).map(|number| evidence.steps.list[number]) else { return false };
    let between = |first: u32, end: u32| evidence.history.births_before(end) - evidence.history.births_before(first);
    let is_over = lifetime.death != OUTSIDE && lifetime.death < step.end;
    is_over && between(lifetime.birth, lifetime.death) as f64 <= SHORT * between(step.first, step.end) as f64
}

/// What counts as the same thing in other steps: short-lived with the same stack; or made by autograd in the same size.
struct Alike {
    stacks: HashSet<StackId>,
    sizes: HashSet<u64>,
    least: u64,
    has_gradients: bool,
    members: Vec<bool>,
}

impl Alike {
    fn of(evidence: &Evidence<'_>, members: &[usize], least: u64) -> Alike {
        let lifetimes = members.iter().map(|&index| &evidence.history.lifetimes[index]);
        let stacks: HashSet<StackId> = lifetimes.clone().map(|lifetime| lifetime.stack).collect();
        // Gradients of something large are as large; sizes of scalars mean nothing.
        let largest = lifetimes.clone().map(|lifetime| lifetime.requested).max().unwrap_or(0);
        let sizes: HashSet<u64> =
            lifetimes.map(|lifetime| lifetime.requested).filter(|&size| size * 4 >= largest).collect();
        let mut alike = Alike { stacks, sizes, least, has_gradients: false, members: Vec::new() };
        alike.members = (0..evidence.history.lifetimes.len()).map(|index| alike.includes(evidence, index)).collect();
        alike
    }

    fn includes(&mut self, evidence: &Evidence<'_>, index: usize) -> bool {
        let lifetime = &evidence.history.lifetimes[index];
        if evidence.roles[index] == Role::BackwardTemporary {
            let is_gradient = self.sizes.contains(&lifetime.requested);
            self.has_gradients |= is_gradient;
            return is_gradient;
        }
        self.stacks.contains(&lifetime.stack) && is_short_lived(evidence, index, self.least)
    }
}

/// The peak without what is `alike`.
fn peak_without(evidence: &Evidence<'_>, alike: &Alike) -> u64 {
    let history = evidence.history;
    let mut changes = vec![0i64; history.allocated.len() + 1];
    for (lifetime, _) in history.lifetimes.iter().zip(&alike.members).filter(|&(_, &is_alike)| is_alike) {
        let size = i64::try_from(lifetime.size).unwrap_or(i64::MAX);
        if let Some(change) = changes.get_mut(lifetime.birth as usize) {
            *change = change.saturating_add(size);
        }
        if let Some(change) = changes.get_mut(lifetime.death as usize) {
            *change = change.saturating_sub(size);
        }
    }
    let (mut gone, mut highest) = (0i64, history.allocated_at_start);
    for (level, change) in history.allocated.iter().zip(changes) {
        gone = gone.saturating_add(change);
        highest = highest.max(level.saturating_sub(u64::try_from(gone).unwrap_or(0)));
    }
    highest
}

fn finding(
    evidence: &Evidence<'_>,
    event: u32,
    activity: Activity,
    members: &[usize],
    without: u64,
    has_gradients: bool,
) -> Finding {
    let lifetimes = || members.iter().map(|&index| &evidence.history.lifetimes[index]);
    let mut shares: HashMap<Option<FrameId>, Share> = HashMap::new();
    for lifetime in lifetimes() {
        let place = evidence.origins.get(lifetime.stack).owner;
        let share = shares.entry(place).or_insert(Share { place, activity, bytes: 0, blocks: 0 });
        share.bytes += lifetime.size;
        share.blocks += 1;
    }
    let mut shares: Vec<Share> = shares.into_values().collect();
    shares.sort_by_key(|share| (std::cmp::Reverse(share.bytes), share.place));
    let largest = lifetimes().max_by_key(|lifetime| (lifetime.size, std::cmp::Reverse(lifetime.birth)));
    let stack = largest.map_or(StackId::NONE, |lifetime| lifetime.stack);
    let place = shares.first().and_then(|share| share.place);
    let first = lifetimes().map(|lifetime| lifetime.birth).min().unwrap_or(event);
    let last = lifetimes().map(|lifetime| lifetime.death).filter(|&death| death != OUTSIDE).max().unwrap_or(event);
    Finding {
        bytes: lifetimes().map(|lifetime| lifetime.size).sum(),
        per_step: None,
        place,
        made_at: place,
        stack,
        events: (first, last),
        allocations: members.iter().map(|&index| crate::history::number(index)).collect(),
        details: Details::Spike(Spike { activity, blocks: members.len() as u64, without, has_gradients, shares }),
    }
}
