//! Where a replay differs from its recording.

use std::fmt;

use vramfit_allocator::{Allocator, BlockUse};
use vramfit_trace::snapshot::{BlockState, Device};

/// One difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The event at which it was found; `None` for the layout at the end.
    pub event: Option<usize>,
    /// What differs.
    pub kind: MismatchKind,
}

/// What differs between recording and replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchKind {
    /// The allocation got another block.
    Address {
        /// The recorded address.
        recorded: u64,
        /// The replayed one.
        replayed: u64,
    },
    /// The recording takes memory from the driver and the replay does not.
    MissingSegment {
        /// The recorded address.
        address: u64,
        /// Its bytes.
        size: u64,
    },
    /// The replay takes memory from the driver and the recording does not.
    ExtraSegment,
    /// The recording releases a segment that is not wholly free in the replay.
    Release {
        /// The recorded address.
        address: u64,
        /// Its bytes.
        size: u64,
    },
    /// A free of an address that nothing holds.
    UnknownFree {
        /// The recorded address.
        address: u64,
    },
    /// A segment at the end that is missing in the replay, or differs.
    Segment {
        /// The recorded address.
        address: u64,
    },
    /// A block at the end that is missing in the replay, or differs.
    Block {
        /// The recorded address.
        address: u64,
        /// The recorded bytes.
        recorded: u64,
        /// The replayed bytes, 0 where there is no such block.
        replayed: u64,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.event {
            Some(event) => write!(formatter, "event {event}: ")?,
            None => write!(formatter, "at the end: ")?,
        }
        match self.kind {
            MismatchKind::Address { recorded, replayed } => {
                write!(formatter, "recorded block {recorded:#x}, replayed {replayed:#x}")
            }
            MismatchKind::MissingSegment { address, size } => {
                write!(formatter, "recorded a new segment of {size} bytes at {address:#x}, replayed none")
            }
            MismatchKind::ExtraSegment => write!(formatter, "replayed a new segment, recorded none"),
            MismatchKind::Release { address, size } => {
                write!(formatter, "recorded {size} bytes at {address:#x} given back, which are in use in the replay")
            }
            MismatchKind::UnknownFree { address } => write!(formatter, "free of {address:#x}, which nothing holds"),
            MismatchKind::Segment { address } => write!(formatter, "segment {address:#x} differs"),
            MismatchKind::Block { address, recorded, replayed } => {
                write!(formatter, "block {address:#x}: recorded {recorded} bytes, replayed {replayed}")
            }
        }
    }
}

/// The differences between the layout a recording ends with and the replay's.
pub(crate) fn compare_layout<D>(device: &Device, allocator: &Allocator<D>) -> Vec<MismatchKind> {
    let mut found = Vec::new();
    let mut report = |kind| found.push(kind);
    let replayed = allocator.segments();
    for segment in &device.segments {
        let position = replayed.binary_search_by_key(&segment.address, |other| other.address);
        let Some(other) = position.ok().map(|index| &replayed[index]).filter(|other| other.size == segment.total_size)
        else {
            report(MismatchKind::Segment { address: segment.address });
            continue;
        };
        for block in &segment.blocks {
            let position = other.blocks.binary_search_by_key(&block.address, |other| other.address);
            let other = position.ok().map(|index| &other.blocks[index]);
            let usage = match block.state {
                BlockState::Allocated => BlockUse::Allocated,
                BlockState::PendingFree => BlockUse::Pending,
                BlockState::Free => BlockUse::Free,
            };
            if other.is_none_or(|other| (other.size, other.usage) != (block.size, usage)) {
                report(MismatchKind::Block {
                    address: block.address,
                    recorded: block.size,
                    replayed: other.map_or(0, |other| other.size),
                });
            }
        }
    }
    for segment in &replayed {
        if device.segments.binary_search_by_key(&segment.address, |other| other.address).is_err() {
            report(MismatchKind::Segment { address: segment.address });
        }
    }
    found
}
