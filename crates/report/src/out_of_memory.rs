//! The text of `torch.OutOfMemoryError`, in PyTorch's words.

use vramfit_allocator::OutOfMemory;

/// What the message says about the device beside the allocator's own numbers; a replay does not know most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The device's ordinal.
    pub device: usize,
    /// The GPU's memory.
    pub total: Option<u64>,
    /// What is free on it.
    pub free: Option<u64>,
    /// What the process uses, context included.
    pub process: Option<u64>,
}

/// PyTorch's message for `error`. Parts that need an unknown number of the device are left out.
pub fn message(error: &OutOfMemory, memory: &DeviceMemory) -> String {
    let mut text = format!("CUDA out of memory. Tried to allocate {}. ", size(error.segment));
    if let (Some(total), Some(free)) = (memory.total, memory.free) {
        text +=
            &format!("GPU {} has a total capacity of {} of which {} is free. ", memory.device, size(total), size(free));
    }
    if let Some(process) = memory.process {
        text += &format!("Including non-PyTorch memory, this process has {} memory in use. ", size(process));
    }
    if let Some(cap) = error.cap {
        text += &format!("{} allowed; ", size(cap));
    }
    let held = error.allocated + error.in_private_pools;
    text += &format!("Of the allocated memory {} is allocated by PyTorch, ", size(held));
    if error.in_private_pools > 0 {
        text += &format!("with {} allocated in private pools (e.g., CUDA Graphs), ", size(error.in_private_pools));
    }
    text += &format!(
        "and {} is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
         PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory \
         Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)",
        size(error.reserved.saturating_sub(held))
    );
    text
}

/// A size as PyTorch's error messages write it.
pub fn size(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..=1024 => format!("{bytes} bytes"),
        1025..=1_048_576 => format!("{:.2} KiB", value / 1024.0),
        1_048_577..=1_073_741_824 => format!("{:.2} MiB", value / 1_048_576.0),
        _ => format!("{:.2} GiB", value / 1_073_741_824.0),
    }
}
