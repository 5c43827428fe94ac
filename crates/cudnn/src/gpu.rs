//! Which GPU an answer is about.

/// A GPU as far as answers distinguish GPUs. GPUs with the same chip and as many multiprocessors, such as H100 SXM and H200, are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuIdentity {
    /// Compute capability, major and minor.
    pub compute_capability: (u8, u8),
    /// Streaming multiprocessors.
    pub multiprocessors: i64,
    /// Threads that each multiprocessor can hold.
    pub threads_per_multiprocessor: i64,
}
