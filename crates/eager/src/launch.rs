//! What launching kernels does to the process's address space.
//!
//! PyTorch's allocator never sees this memory, but it is located between its segments. As seen on an H200 with CUDA 13: the
//! first kernel that is no copy, matrix product or scan makes the context's local memory grow; the first reduction or
//! look-up takes 10 MiB; a cuBLAS handle takes 64 MiB, the first one pinned host memory too (`docs/cuda-addresses.md`).

use crate::memory::{Memory, SideEventKind};

const MIB: u64 = 1 << 20;

/// What an operator's kernels need beside their tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Nothing: copies, matrix products, scans, or no kernel at all.
    Nothing,
    /// Local memory.
    LocalMemory,
    /// Local memory, and a stack.
    LocalMemoryAndStack,
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
        if launch != Launch::Nothing && !std::mem::replace(&mut self.has_local_memory, true) {
            memory.add_side_event(SideEventKind::LocalMemoryGrows);
        }
        if launch == Launch::LocalMemoryAndStack && !std::mem::replace(&mut self.has_stack, true) {
            memory.add_side_event(SideEventKind::LibraryAllocates(10 * MIB));
        }
    }

    /// A thread makes its cuBLAS handle.
    pub fn blas_handle(&mut self, memory: &mut Memory) {
        if !std::mem::replace(&mut self.has_blas, true) {
            memory.add_side_event(SideEventKind::HostPins(1 << 10));
        }
        memory.add_side_event(SideEventKind::LibraryAllocates(64 * MIB));
    }
}
