//! What the dicts and lists of a snapshot are condensed to.

use crate::read::pickle;
use crate::snapshot::{FrameId, StackId};

/// The heap of a snapshot.
pub(crate) type Heap = pickle::Heap<Record>;

/// What a dict or list was condensed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A trace entry: the number of the event in `Condenser::events`.
    Event(u32),
    /// A frame.
    Frame(FrameId),
    /// A list of frames.
    Stack(StackId),
}

impl Record {
    /// What it is, for error messages.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Record::Event(_) => "trace entry",
            Record::Frame(_) => "frame",
            Record::Stack(_) => "list of frames",
        }
    }
}
