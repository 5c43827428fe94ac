//! From a recording to everything that is found in it.

use vramfit_allocator::Settings;
use vramfit_trace::snapshot::{Action, Device, Snapshot};
use vramfit_trace::start::Start;

use crate::findings::{self, Evidence, Finding};
use crate::history::{History, OUTSIDE, layouts_at, number};
use crate::origin::Origins;
use crate::peak::{Owners, Peak, ReservedPeak, largest_hole, peak, pinned};
use crate::phases::Phases;
use crate::roles::{Role, roles};
use crate::steps::Steps;

/// What is known about one GPU of a recording.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The GPU's number.
    pub device: usize,
    /// What lived when.
    pub history: History,
    /// Whose lines the stacks are.
    pub origins: Origins,
    /// What the program was doing.
    pub phases: Phases,
    /// Its training steps.
    pub steps: Steps,
    /// What each allocation was for.
    pub roles: Vec<Role>,
    /// The peak of allocated bytes.
    pub peak: Peak,
    /// The peak of reserved bytes.
    pub reserved_peak: ReservedPeak,
    /// What is wrong, or could be better.
    pub findings: Vec<Finding>,
}

/// Explains GPU `device` of `snapshot`, recorded under `settings`. `vram` is what PyTorch may reserve, if known.
///
/// # Panics
/// If the snapshot has no such GPU.
pub fn explain(snapshot: &Snapshot, device: usize, settings: &Settings, vram: Option<u64>) -> Explanation {
    let recorded = &snapshot.devices[device];
    let start = Start::of(recorded);
    let history = History::of(recorded, settings, &start);
    let origins = Origins::of(snapshot, &recorded.events);
    let phases = Phases::of(&history, &origins);
    let steps = Steps::of(snapshot, device, &history, &origins, &phases);
    let roles = roles(&history, &phases, &steps);
    let (peak_event, _) = history.peak_allocated();
    let reserved_event = reserved_peak_event(recorded, &history);
    let mut instants = vec![peak_event, reserved_event];
    // The state before the first event comes first.
    instants.sort_by_key(|&event| event.wrapping_add(1));
    let layouts = layouts_at(recorded, settings, &start, &instants);
    let layout_at = |event: u32| {
        let index = instants.iter().position(|&instant| instant == event).unwrap_or(0);
        layouts.get(index).map_or(&[][..], Vec::as_slice)
    };
    let owners = Owners { history: &history, origins: &origins, phases: &phases, roles: &roles };
    let peak = peak(snapshot, device, owners, &steps, layout_at(peak_event));
    let reserved_peak = ReservedPeak {
        event: reserved_event,
        reserved: history.peak_reserved().1,
        allocated: match reserved_event {
            OUTSIDE => history.allocated_at_start,
            event => history.allocated[event as usize],
        },
        pinned: pinned(layout_at(reserved_event)),
        largest_hole: largest_hole(layout_at(reserved_event)),
    };
    let findings = findings::all(Evidence {
        device: recorded,
        start: &start,
        settings,
        vram,
        history: &history,
        origins: &origins,
        phases: &phases,
        steps: &steps,
        roles: &roles,
        reserved_peak,
    });
    Explanation { device, history, origins, phases, steps, roles, peak, reserved_peak, findings }
}

/// The event of the reserved peak: the allocation for which the last segment was taken, so that the segment counts
/// together with its allocation.
fn reserved_peak_event(device: &Device, history: &History) -> u32 {
    let (event, reserved) = history.peak_reserved();
    if event == OUTSIDE {
        return OUTSIDE;
    }
    let later = device.events.iter().enumerate().skip(event as usize);
    let mut until = later.take_while(|&(index, _)| history.reserved[index] == reserved);
    let allocation = until.find(|(_, event)| event.action == Action::Alloc);
    allocation.map_or(event, |(index, _)| number(index))
}
