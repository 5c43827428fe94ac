//! The strictest replay: under a known cap, releases and failures are predicted too, and must come as recorded.

use std::collections::HashMap;

use vramfit_allocator::{Allocator, BlockId, PendingFree, SegmentChange, Settings};
use vramfit_trace::snapshot::{Action, Device};

use crate::convert::{mempool, segment_change};
use crate::recorded_driver::{Gain, RecordedDriver};
use crate::request::judge_release;

/// Where a prediction first strayed from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// The event at which it showed.
    pub event: usize,
    /// What the recording shows up to that allocation: segments taken and given back.
    pub recorded: Vec<SegmentChange>,
    /// What was predicted.
    pub predicted: Vec<SegmentChange>,
}

/// Replays a recording that starts from nothing under the settings and the cap it was made with. Only the addresses of
/// new segments are taken from it: every segment taken, given back or refused is predicted, and the first that comes
/// otherwise than recorded is returned. A recorded `empty_cache()` is input.
pub fn first_stray(device: &Device, settings: &Settings) -> Option<Stray> {
    let mut driver = RecordedDriver::new();
    for event in &device.events {
        if matches!(event.action, Action::SegmentAlloc | Action::SegmentMap) {
            driver.gains.push_back(Gain { address: event.address, size: event.size });
        }
    }
    let mut allocator = Allocator::new(settings.clone(), driver);
    let mut live: HashMap<u64, BlockId> = HashMap::new();
    let mut pending: HashMap<u64, PendingFree> = HashMap::new();
    let mut recorded: Vec<SegmentChange> = Vec::new();
    let mut judged_until = 0;
    for (index, event) in device.events.iter().enumerate() {
        match event.action {
            Action::Alloc | Action::Oom => {
                let got = allocator.allocate(event.size, event.stream, mempool(event.pool));
                let predicted = allocator.take_changes();
                let is_as_recorded = match got {
                    Ok(id) => {
                        live.insert(event.address, id);
                        event.action == Action::Alloc && allocator.block(id).address == event.address
                    }
                    Err(_) => event.action == Action::Oom,
                };
                if !is_as_recorded || predicted != recorded {
                    return Some(Stray { event: index, recorded, predicted });
                }
                recorded.clear();
            }
            Action::FreeRequested => {
                let Some(id) = live.remove(&event.address) else { continue };
                let next = device.events.get(index + 1);
                if next.is_some_and(|next| next.action == Action::FreeCompleted && next.address == event.address) {
                    allocator.free(id);
                } else {
                    pending.insert(event.address, allocator.request_free(id));
                }
            }
            Action::FreeCompleted => {
                if let Some(free) = pending.remove(&event.address) {
                    allocator.complete_free(free);
                }
            }
            Action::Snapshot => {}
            Action::SegmentAlloc | Action::SegmentMap => recorded.extend(segment_change(event)),
            Action::SegmentFree | Action::SegmentUnmap => {
                if index >= judged_until {
                    let (is_by_program, end) = judge_release(device, index);
                    judged_until = end;
                    if is_by_program {
                        allocator.empty_cache();
                    }
                }
                recorded.extend(segment_change(event));
            }
        }
    }
    None
}
