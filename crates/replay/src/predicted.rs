//! The strictest replay: under a known cap, releases and failures are predicted too and compared with the recording.

use std::collections::HashMap;

use vramfit_allocator::{Allocator, BlockId, PendingFree, SegmentChange, Settings};
use vramfit_trace::snapshot::{Action, Device};

use crate::convert::{mempool, segment_change};
use crate::recorded_driver::{RecordedDriver, RecordedMemory};
use crate::request::{ReleaseCause, classify_releases};

/// Where a prediction first differs from its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The allocation at which it showed, by event.
    pub event: usize,
    /// The segment changes that the recording shows since the allocation before.
    pub recorded: Vec<SegmentChange>,
    /// The segment changes that were predicted.
    pub predicted: Vec<SegmentChange>,
}

/// Replays a recording that starts from nothing under the settings and the cap it was made with. Only the addresses of
/// new segments and the calls of `empty_cache()` are taken from it. Every segment allocated, released or refused is
/// predicted; the first difference is returned.
pub fn first_divergence(device: &Device, settings: &Settings) -> Option<Divergence> {
    let mut driver = RecordedDriver::new();
    for event in &device.events {
        if matches!(event.action, Action::SegmentAlloc | Action::SegmentMap) {
            driver.upcoming.push_back(RecordedMemory { address: event.address, size: event.size });
        }
    }
    let mut allocator = Allocator::new(settings.clone(), driver);
    let mut live: HashMap<u64, BlockId> = HashMap::new();
    let mut pending: HashMap<u64, PendingFree> = HashMap::new();
    let mut recorded: Vec<SegmentChange> = Vec::new();
    let mut classified_until = 0;
    for (index, event) in device.events.iter().enumerate() {
        match event.action {
            Action::Alloc | Action::Oom => {
                let result = allocator.allocate(event.size, event.stream, mempool(event.pool));
                let predicted = allocator.take_changes();
                let is_as_recorded = match result {
                    Ok(id) => {
                        live.insert(event.address, id);
                        event.action == Action::Alloc && allocator.block(id).address == event.address
                    }
                    Err(_) => event.action == Action::Oom,
                };
                if !is_as_recorded || predicted != recorded {
                    return Some(Divergence { event: index, recorded, predicted });
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
                if index >= classified_until {
                    let releases = classify_releases(device, index);
                    classified_until = releases.end;
                    if releases.cause == ReleaseCause::EmptyCache {
                        allocator.empty_cache();
                    }
                }
                recorded.extend(segment_change(event));
            }
        }
    }
    None
}
