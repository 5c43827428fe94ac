//! Sizes that are fixed in PyTorch's `c10/core/AllocatorConfig.h`.

/// Every block is a multiple of this, and at least this.
pub const MINIMUM_BLOCK: u64 = 512;
/// The largest block that the small pool serves.
pub const SMALL_REQUEST: u64 = 1 << 20;
/// The size of the small pool's segments.
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// Blocks of at least this size get a segment of their own instead of a shared one.
pub const OWN_SEGMENT: u64 = 10 << 20;
/// Segments of their own are rounded up to this.
pub const SEGMENT_ROUNDING: u64 = 2 << 20;
/// The size of the large pool's shared segments, unless `large_segment_size_mb` is set.
pub const LARGE_SEGMENT: u64 = 20 << 20;
