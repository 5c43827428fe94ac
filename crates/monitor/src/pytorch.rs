//! The part of a PyTorch process's memory that its caching allocator does not own.
//!
//! NVML counts everything a process holds, `torch.cuda.memory_reserved()` only the caching allocator's segments. The rest
//! is the CUDA context with the kernels loaded so far. It cannot be read from outside, so it is a range, measured beside
//! PyTorch's own numbers (`validation/monitor/`).

use serde::{Deserialize, Serialize};

/// Bytes of the CUDA context, as a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CudaContext {
    /// The lower bound.
    pub low: u64,
    /// The upper bound.
    pub high: u64,
}

impl CudaContext {
    /// Measured on an H200 with torch 2.11 and CUDA 13: from a first tensor to all libraries in use.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux shows what a process has loaded"))]
    pub(crate) fn measured() -> CudaContext {
        CudaContext { low: 610 << 20, high: 840 << 20 }
    }

    /// Cut to the `used` bytes of a process: its context cannot be larger.
    #[must_use]
    pub fn within(&self, used: u64) -> CudaContext {
        CudaContext { low: self.low.min(used), high: self.high.min(used) }
    }

    /// The part of `used` that PyTorch's allocator may hold, as a range.
    pub fn rest_of(&self, used: u64) -> (u64, u64) {
        (used.saturating_sub(self.high), used.saturating_sub(self.low))
    }
}
