//! The identity of a memory pool.

/// PyTorch's `MempoolId_t`: `(0, 0)` is the default pool, others are private (CUDA graphs, `torch.cuda.MemPool`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MempoolId(pub u64, pub u64);

impl MempoolId {
    /// The pool that serves every allocation outside CUDA graph captures and `torch.cuda.use_mem_pool`.
    pub const DEFAULT: MempoolId = MempoolId(0, 0);
}
