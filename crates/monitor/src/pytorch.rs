//! What of a PyTorch process's memory is not PyTorch's to give back.
//!
//! NVML counts all a process holds; `torch.cuda.memory_reserved()` only what its caching allocator took. The rest is the
//! CUDA context with the kernels loaded so far. It cannot be read from outside, so it is given as the range measured
//! beside PyTorch's own numbers (`validation/monitor/`).

use serde::{Deserialize, Serialize};

/// Bytes of the CUDA context, as a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// At least.
    pub low: u64,
    /// At most.
    pub high: u64,
}

impl Context {
    /// The range seen on an H200 with torch 2.11 and CUDA 13: from a first tensor to all libraries in use.
    pub fn measured() -> Context {
        Context { low: 610 << 20, high: 840 << 20 }
    }

    /// The same for a process that holds so much in all: its context cannot be larger.
    #[must_use]
    pub fn within(&self, used: u64) -> Context {
        Context { low: self.low.min(used), high: self.high.min(used) }
    }

    /// The part of `used` that PyTorch's allocator may hold, as a range.
    pub fn rest_of(&self, used: u64) -> (u64, u64) {
        (used.saturating_sub(self.high), used.saturating_sub(self.low))
    }
}
