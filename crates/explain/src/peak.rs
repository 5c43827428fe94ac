//! The peak of allocated bytes, and who held them.

use std::collections::HashMap;

use vramfit_allocator::{BlockUse, Segment};
use vramfit_trace::snapshot::{FrameId, Snapshot, StackId, StringId};

use crate::history::{History, OUTSIDE};
use crate::origin::{Activity, Origins};
use crate::phases::Phases;
use crate::roles::Role;
use crate::steps::Steps;
use crate::steps::annotated::open_at;

/// The peak of allocated bytes.
#[derive(Clone, Debug)]
pub struct Peak {
    /// The event after which it was reached; [`OUTSIDE`] if before the first.
    pub event: u32,
    /// Microseconds after the first event, if times were recorded.
    pub time_us: Option<i64>,
    /// The step in which it was, the unfinished one included.
    pub step: Option<usize>,
    /// What the program was doing.
    pub activity: Activity,
    /// The ranges that the program had marked and that were open, the outermost first.
    pub marks: Vec<StringId>,
    /// Bytes held.
    pub allocated: u64,
    /// Bytes reserved at that instant.
    pub reserved: u64,
    /// The bytes requested among those held; the rest is rounding and unsplit tails.
    pub requested: u64,
    /// Bytes of the largest free block.
    pub largest_hole: u64,
    /// Who held it, the largest first.
    pub holders: Vec<Holder>,
}

/// The peak of reserved bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedPeak {
    /// The event after which it was reached.
    pub event: u32,
    /// Bytes reserved.
    pub reserved: u64,
    /// Bytes held at that instant.
    pub allocated: u64,
    /// Free bytes in segments that live blocks share: those cannot be given back. The other free bytes are whole segments.
    pub pinned: u64,
    /// Bytes of the largest free block.
    pub largest_hole: u64,
}

impl ReservedPeak {
    /// Bytes reserved, yet not held.
    pub fn stranded(&self) -> u64 {
        self.reserved.saturating_sub(self.allocated)
    }
}

/// Blocks that one line of the program holds for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user's line.
    pub owner: Option<FrameId>,
    /// What they are for.
    pub role: Role,
    /// What the program was doing when it made them; `None` for what is older than the recording.
    pub activity: Option<Activity>,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// The stack of the largest of them.
    pub stack: StackId,
    /// Bytes of that one.
    pub largest: u64,
}

/// Everything needed to find out who an allocation belongs to.
#[derive(Clone, Copy)]
pub struct Owners<'a> {
    /// What lived when.
    pub history: &'a History,
    /// Whose lines the stacks are.
    pub origins: &'a Origins,
    /// What the program was doing.
    pub phases: &'a Phases,
    /// What each allocation was for.
    pub roles: &'a [Role],
}

impl Owners<'_> {
    /// What the program was doing when it made allocation `index`.
    pub fn activity(&self, index: usize) -> Option<Activity> {
        index.checked_sub(self.history.earlier).map(|index| self.phases.activities[index])
    }

    /// Groups allocations by line and purpose, the largest group first.
    pub fn group(&self, indices: impl Iterator<Item = usize>) -> Vec<Holder> {
        let mut groups: HashMap<(Option<FrameId>, Role), Holder> = HashMap::new();
        for index in indices {
            let lifetime = &self.history.lifetimes[index];
            let role = self.roles[index];
            // The line that happened to need a library first did not ask for its workspace.
            let owner = if role == Role::Library { None } else { self.origins.get(lifetime.stack).owner };
            let holder = groups.entry((owner, role)).or_insert(Holder {
                owner,
                role,
                activity: self.activity(index),
                bytes: 0,
                blocks: 0,
                stack: lifetime.stack,
                largest: 0,
            });
            holder.bytes += lifetime.size;
            holder.blocks += 1;
            if lifetime.size > holder.largest {
                (holder.largest, holder.stack) = (lifetime.size, lifetime.stack);
            }
        }
        let mut holders: Vec<Holder> = groups.into_values().collect();
        holders.sort_by_key(|holder| (std::cmp::Reverse(holder.bytes), holder.owner, holder.role));
        holders
    }
}

/// The peak of GPU `device`; `layout` is its memory at that moment.
pub fn peak(snapshot: &Snapshot, device: usize, owners: Owners<'_>, steps: &Steps, layout: &[Segment]) -> Peak {
    let history = owners.history;
    let (event, allocated) = history.peak_allocated();
    let live = || history.live_at(event);
    let events = &snapshot.devices[device].events;
    let time = |index: u32| events.get(index as usize).map(|event| event.time_us).filter(|&time| time > 0);
    let activity = owners.phases.span_at(event).map_or(Activity::Unknown, |span| span.activity);
    Peak {
        event,
        time_us: time(event).zip(time(0)).map(|(now, first)| now - first),
        step: steps.number_at(event),
        activity,
        marks: time(event).map_or_else(Vec::new, |time| open_at(snapshot, device, time)),
        allocated,
        reserved: match event {
            OUTSIDE => history.reserved_at_start,
            _ => history.reserved[event as usize],
        },
        requested: live().map(|index| history.lifetimes[index].requested).fold(0, u64::saturating_add),
        largest_hole: largest_hole(layout),
        holders: owners.group(live()),
    }
}

/// Free bytes in segments that are not free as a whole.
pub fn pinned(layout: &[Segment]) -> u64 {
    let free = |segment: &Segment| -> u64 {
        segment.blocks.iter().filter(|block| block.usage == BlockUse::Free).map(|block| block.size).sum()
    };
    layout
        .iter()
        .map(|segment| (segment.size, free(segment)))
        .filter(|(size, free)| free < size)
        .map(|(_, free)| free)
        .sum()
}

/// Bytes of the largest free block.
pub fn largest_hole(layout: &[Segment]) -> u64 {
    let blocks = layout.iter().flat_map(|segment| &segment.blocks);
    blocks.filter(|block| block.usage == BlockUse::Free).map(|block| block.size).max().unwrap_or(0)
}
