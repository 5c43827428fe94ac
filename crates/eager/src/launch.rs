//! What launching kernels does to the process's address space.
//!
//! PyTorch's allocator never sees this memory, but it lies among its segments. As seen on an H200 with CUDA 13: the first
//! kernel that is no copy, matrix product or scan makes the context's local memory grow; the first reduction or look-up
//! takes 10 MiB; a cuBLAS handle takes 64 MiB, the first one 2 MiB beside them (`docs/cuda-addresses.md`).

use crate::memory::{Memory, SideEventKind};

const MIB: u64 = 1 << 20;

/// What an operator's kernels need beside their tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Nothing.
    Quiet,
    /// Local memory.
    Plain,
    /// Local memory, and a stack.
    WithStack,
}

impl Launch {
    /// Of an operator such as `aten.relu.default`.
    pub fn of(name: &str) -> Launch {
        let base = name.split('.').nth(1).unwrap_or(name);
        match base {
            "arange"
            | "cumsum"
            | "linear"
            | "matmul"
            | "mm"
            | "bmm"
            | "addmm"
            | "baddbmm"
            | "empty"
            | "empty_like"
            | "new_empty"
            | "empty_strided"
            | "scaled_dot_product_attention" => Launch::Quiet,
            "sum"
            | "mean"
            | "mse_loss"
            | "l1_loss"
            | "smooth_l1_loss"
            | "huber_loss"
            | "cross_entropy_loss"
            | "nll_loss"
            | "nll_loss_nd"
            | "kl_div"
            | "binary_cross_entropy"
            | "binary_cross_entropy_with_logits"
            | "embedding"
            | "embedding_bag"
            | "index"
            | "index_select"
            | "gather"
            | "any"
            | "all"
            | "amax"
            | "amin"
            | "max"
            | "min"
            | "argmax"
            | "argmin"
            | "norm"
            | "linalg_vector_norm"
            | "var"
            | "var_mean"
            | "std"
            | "logsumexp"
            | "prod" => Launch::WithStack,
            _ => Launch::Plain,
        }
    }
}

/// What has been launched so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    has_local_memory: bool,
    has_stack: bool,
    has_blas: bool,
}

impl Launched {
    /// Kernels are launched.
    pub fn add(&mut self, launch: Launch, memory: &mut Memory) {
        if launch != Launch::Quiet && !std::mem::replace(&mut self.has_local_memory, true) {
            memory.add_side_event(SideEventKind::LocalMemoryGrows);
        }
        if launch == Launch::WithStack && !std::mem::replace(&mut self.has_stack, true) {
            memory.add_side_event(SideEventKind::LibraryAllocates(10 * MIB));
        }
    }

    /// A thread makes its cuBLAS handle.
    pub fn blas_handle(&mut self, memory: &mut Memory) {
        if !std::mem::replace(&mut self.has_blas, true) {
            memory.add_side_event(SideEventKind::LibraryAllocates(2 * MIB));
        }
        memory.add_side_event(SideEventKind::LibraryAllocates(64 * MIB));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_and_scans_launch_nothing_that_counts() {
        assert_eq!(Launch::of("aten.linear.default"), Launch::Quiet);
        assert_eq!(Launch::of("aten.cumsum.default"), Launch::Quiet);
        assert_eq!(Launch::of("aten.gelu.default"), Launch::Plain);
        assert_eq!(Launch::of("aten.sum.dim_IntList"), Launch::WithStack);
    }
}
