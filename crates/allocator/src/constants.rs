//! Sizes that are fixed in PyTorch's `c10/core/AllocatorConfig.h`.

/// Every block is a multiple of this, and at least this.
pub const MINIMUM_BLOCK: u64 = 512;
/// The largest request that the small pool serves.
pub const SMALL_REQUEST: u64 = 1 << 20;
/// What the small pool asks the driver for.
pub const SMALL_SEGMENT: u64 = 2 << 20;
/// Requests from here on get a segment of their own size instead of a shared large one.
pub const OWN_SEGMENT: u64 = 10 << 20;
/// Segments of their own are rounded up to this.
pub const SEGMENT_ROUNDING: u64 = 2 << 20;
/// What the large pool asks the driver for below [`OWN_SEGMENT`], unless set otherwise.
pub const LARGE_SEGMENT: u64 = 20 << 20;
