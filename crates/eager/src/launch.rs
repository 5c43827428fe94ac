//! What launching kernels does to the process's address space.
//!
//! PyTorch's allocator never sees this memory, but it is located between its segments. As seen on an H200 with CUDA 13: the
//! first kernel takes 2 MiB; the first that needs it makes the context's local memory grow; the first reduction or
//! look-up takes 10 MiB; a cuBLAS handle takes 64 MiB, a cuDNN handle a few pieces, the first one of either pinned host memory too
//! (`docs/cuda-addresses.md`).

use crate::memory::{Memory, SideEventKind};

const MIB: u64 = 1 << 20;
/// What CUDA takes at a time for itself.
const PIECE: u64 = 2 * MIB;
/// How many pieces the first cuDNN handle of a process takes, and one of another thread. What is larger fills whole chunks.
const DNN_PIECES: usize = 5;
const DNN_PIECES_LATER: usize = 4;

/// What an operator's kernels need beside their tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Nothing: no kernel, such as copies between host and GPU.
    Nothing,
    /// A copy on the GPU: a kernel only where elements change their type or order.
    Copy,
    /// No local memory: matrix products, scans, random numbers.
    Kernel,
    /// Local memory.
    LocalMemory,
    /// Local memory, and a stack.
    LocalMemoryAndStack,
}

/// What has been launched so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    has_kernel: bool,
    has_local_memory: bool,
    has_stack: bool,
    has_library: bool,
    /// On the main thread, and on that of backward passes.
    has_dnn: [bool; 2],
}

impl Launched {
    /// Kernels are launched.
    pub fn add(&mut self, launch: Launch, memory: &mut Memory) {
        if launch == Launch::Nothing {
            return;
        }
        if !std::mem::replace(&mut self.has_kernel, true) {
            memory.add_side_event(SideEventKind::LibraryAllocates(PIECE));
        }
        let needs_local_memory = matches!(launch, Launch::LocalMemory | Launch::LocalMemoryAndStack);
        if needs_local_memory && !std::mem::replace(&mut self.has_local_memory, true) {
            memory.add_side_event(SideEventKind::LocalMemoryGrows);
        }
        if launch == Launch::LocalMemoryAndStack && !std::mem::replace(&mut self.has_stack, true) {
            memory.add_side_event(SideEventKind::LibraryAllocates(10 * MIB));
        }
    }

    /// A thread makes its cuBLAS handle.
    pub fn blas_handle(&mut self, memory: &mut Memory) {
        self.pins(memory);
        memory.add_side_event(SideEventKind::LibraryAllocates(64 * MIB));
    }

    /// A thread makes its cuDNN handle, if it has none.
    pub fn dnn_handle(&mut self, thread: usize, memory: &mut Memory) {
        if std::mem::replace(&mut self.has_dnn[thread], true) {
            return;
        }
        self.pins(memory);
        let pieces = if self.has_dnn == [true; 2] { DNN_PIECES_LATER } else { DNN_PIECES };
        for _ in 0..pieces {
            memory.add_side_event(SideEventKind::LibraryAllocates(PIECE));
        }
    }

    /// The first handle of a library pins host memory.
    fn pins(&mut self, memory: &mut Memory) {
        if !std::mem::replace(&mut self.has_library, true) {
            memory.add_side_event(SideEventKind::HostPins(1 << 10));
        }
    }
}
