#![doc = include_str!("../README.md")]

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
mod settings;
pub mod size;
mod statistics;

pub use allocator::{Allocator, OutOfMemory, PendingFree, SegmentAction, SegmentChange};
pub use block::{Block, BlockId, BlockUse};
pub use driver::{Driver, SimulatedDriver};
pub use layout::{LayoutPiece, LayoutSegment, LayoutUse, RestoredBlock};
pub use mempool::MempoolId;
pub use segments::Segment;
pub use settings::{Settings, SettingsError};
pub use statistics::{ByPool, Statistic, Statistics};
