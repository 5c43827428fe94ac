//! PyTorch's CUDA caching allocator as a state machine.
//!
//! [`Allocator`] serves requests as `CUDACachingAllocator.cpp` of torch 2.11 does: sizes rounded to 512 bytes, two
//! pools, best fit by size then address, the split rules of both pools, merging, expandable segments, what is given
//! back before an out-of-memory error. CUDA itself is a [`Driver`]: a simulated GPU, or a recording's own answers.

mod address_space;
mod allocator;
mod block;
mod cache;
mod constants;
mod driver;
mod expandable;
mod free_list;
mod layout;
mod mempool;
mod pool;
mod release;
mod segments;
pub mod settings;
pub mod size;
pub mod statistics;

pub use allocator::{Allocator, OutOfMemory, PendingFree, SegmentAction, SegmentChange};
pub use block::{Block, BlockId, Use};
pub use driver::{Driver, SimulatedDriver};
pub use layout::{LayoutPiece, LayoutSegment, LayoutUse, RestoredBlock};
pub use mempool::MempoolId;
pub use segments::Segment;
pub use settings::{Settings, SettingsError};
pub use statistics::{ByPool, Statistic, Statistics};
