//! Which private pool an event belongs to, for recordings that have it for segments only.
//!
//! torch 2.11 writes the pool of each final segment, but not of events. An event has the pool of the segment that was at
//! its address at the time; walking back from the end finds that segment.

use std::collections::BTreeMap;

use crate::snapshot::{Action, Device, PoolId};

/// Fills in the pools of events if the final segments show that private pools were in use. A segment that was released
/// before the end counts as the default pool's.
pub(crate) fn fill_in(device: &mut Device) {
    let has_private = device.segments.iter().any(|segment| segment.pool != PoolId::DEFAULT);
    if !has_private || device.events.iter().any(|event| event.pool != PoolId::DEFAULT) {
        return;
    }
    let mut ranges: BTreeMap<u64, (u64, PoolId)> = BTreeMap::new();
    for segment in &device.segments {
        ranges.insert(segment.address, (segment.address.saturating_add(segment.total_size), segment.pool));
    }
    for event in device.events.iter_mut().rev() {
        let range = ranges.range(..=event.address).next_back().map(|(&begin, &(end, pool))| (begin, end, pool));
        let found = range.filter(|&(_, end, _)| event.address < end);
        match event.action {
            Action::Snapshot | Action::Oom => continue,
            Action::SegmentFree => {
                ranges.insert(event.address, (event.address.saturating_add(event.size), PoolId::DEFAULT));
            }
            Action::SegmentAlloc => {
                if let Some((begin, _, _)) = found {
                    ranges.remove(&begin);
                }
            }
            _ => {}
        }
        event.pool = found.map_or(PoolId::DEFAULT, |(_, _, pool)| pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Event, Segment, StackId, StringId};

    fn event(action: Action, address: u64, size: u64) -> Event {
        let (stream, pool, stack, note) = (0, PoolId::DEFAULT, StackId::NONE, StringId(0));
        Event { action, address, size, stream, pool, time_us: 0, stack, note }
    }

    fn private(address: u64, total_size: u64) -> Segment {
        Segment {
            address,
            total_size,
            stream: 0,
            is_small: true,
            is_expandable: false,
            pool: PoolId(1, 0),
            stack: StackId::NONE,
            blocks: Vec::new(),
        }
    }

    #[test]
    fn an_event_has_the_pool_of_the_segment_that_was_there_at_the_time() {
        let events = vec![
            event(Action::SegmentAlloc, 4096, 2048),
            event(Action::Alloc, 4096, 512),
            event(Action::SegmentFree, 4096, 2048),
            event(Action::SegmentAlloc, 4096, 2048),
            event(Action::Alloc, 4608, 512),
            event(Action::Alloc, 9000, 512),
        ];
        let mut device = Device { events, segments: vec![private(4096, 2048)] };
        fill_in(&mut device);
        let pools: Vec<u64> = device.events.iter().map(|event| event.pool.0).collect();
        assert_eq!(pools, [0, 0, 0, 1, 1, 0]);
    }

    #[test]
    fn an_event_behind_a_segment_or_without_an_address_has_no_private_pool() {
        // The address of an out-of-memory event is the free memory of the GPU.
        let events = vec![event(Action::Alloc, 6143, 1), event(Action::Alloc, 6144, 1), event(Action::Oom, 4100, 512)];
        let mut device = Device { events, segments: vec![private(4096, 2048)] };
        fill_in(&mut device);
        let pools: Vec<u64> = device.events.iter().map(|event| event.pool.0).collect();
        assert_eq!(pools, [1, 0, 0]);
    }
}
