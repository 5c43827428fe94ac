//! How PyTorch 2.11 treats a GPU of a given compute capability.

use std::fmt;
use std::str::FromStr;

/// A compute capability, such as 8.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// 8 in 8.6.
    pub major: u8,
    /// 6 in 8.6.
    pub minor: u8,
}

/// Bytes of the workspaces that PyTorch gives cuBLAS. Every thread that uses cuBLAS has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspaces {
    /// For a cuBLAS handle.
    pub blas: u64,
    /// For cuBLASLt.
    pub blas_lt: u64,
}

impl Workspaces {
    /// The smallest that any version of PyTorch gives any GPU: one workspace for both libraries.
    pub const SMALLEST: Workspaces = Workspaces { blas: (2 * 4096 + 8 * 16) << 10, blas_lt: 0 };
    /// The largest.
    pub const LARGEST: Workspaces = Workspaces { blas: 32 << 20, blas_lt: 1 << 20 };
}

impl ComputeCapability {
    /// `new(8, 6)` is 8.6.
    pub const fn new(major: u8, minor: u8) -> ComputeCapability {
        ComputeCapability { major, minor }
    }

    /// Resident threads per multiprocessor (CUDA C++ programming guide, technical specifications).
    pub fn threads_per_multiprocessor(self) -> u32 {
        match (self.major, self.minor) {
            (7, 5) => 1024,
            (8, 6..=9) | (12, _) => 1536,
            _ => 2048,
        }
    }

    /// The workspaces of PyTorch 2.11 (`CublasHandlePool.cpp`): 32 MiB on 9.0, else two chunks of 4 MiB and eight of
    /// 16 KiB. cuBLASLt always gets 1 MiB. Later versions also give Blackwell 32 MiB, and share one workspace between
    /// the two libraries.
    pub fn workspaces(self) -> Workspaces {
        let is_large = self == ComputeCapability::new(9, 0);
        let blas = if is_large { Workspaces::LARGEST.blas } else { Workspaces::SMALLEST.blas };
        Workspaces { blas, ..Workspaces::LARGEST }
    }

    /// Whether the hardware computes in bfloat16. PyTorch emulates it on older GPUs.
    pub fn has_bfloat16(self) -> bool {
        self.major >= 8
    }

    /// Whether bitsandbytes supports the GPU: its documentation asks for 6.0.
    pub fn has_bitsandbytes(self) -> bool {
        self.major >= 6
    }

    /// Whether bitsandbytes multiplies in eight bits: its documentation asks for Turing.
    pub fn has_int8_products(self) -> bool {
        self >= ComputeCapability::new(7, 5)
    }

    /// Whether PyTorch's FlashAttention runs (`sdp_utils.cpp`: 8.0 to 12.1).
    pub fn has_flash_attention(self) -> bool {
        (ComputeCapability::new(8, 0)..=ComputeCapability::new(12, 1)).contains(&self)
    }

    /// Whether FlashAttention's backward pass supports heads wider than 192: not on 8.6 to 8.9, nor on 12.0 and 12.1.
    pub fn has_wide_flash_backward(self) -> bool {
        let small = [(8, 6), (8, 7), (8, 8), (8, 9), (12, 0), (12, 1)];
        !small.contains(&(self.major, self.minor))
    }

    /// Whether PyTorch prefers cuDNN's attention to its own: on Hopper and data centre Blackwell, with CUDA 13's cuDNN.
    /// Elsewhere it is the last choice and never selected.
    pub fn prefers_cudnn_attention(self) -> bool {
        matches!(self.major, 9 | 10)
    }

    /// Whether the memory-efficient kernel runs (5.0 to 12.1).
    pub fn has_efficient_attention(self) -> bool {
        (ComputeCapability::new(5, 0)..=ComputeCapability::new(12, 1)).contains(&self)
    }

    /// Whether torch 2.11's default wheels, built with CUDA 13.0, run on it.
    pub fn runs_cuda_13(self) -> bool {
        self >= ComputeCapability::new(7, 5)
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ComputeCapability {
    type Err = String;

    fn from_str(text: &str) -> Result<ComputeCapability, String> {
        let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let (major, minor) = parts.ok_or_else(|| format!("found `{text}`, needed a compute capability such as 8.6"))?;
        Ok(ComputeCapability { major, minor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hopper_has_workspaces_of_32_mib() {
        assert_eq!(ComputeCapability::new(9, 0).workspaces().blas, 33_554_432);
        for (major, minor) in [(6, 1), (7, 5), (8, 0), (8, 9), (10, 0), (12, 0)] {
            assert_eq!(ComputeCapability::new(major, minor).workspaces().blas, 8_519_680);
        }
    }

    #[test]
    fn attention_backends_follow_the_compute_capability() {
        let turing = ComputeCapability::new(7, 5);
        assert!(!turing.has_flash_attention() && turing.has_efficient_attention() && !turing.has_bfloat16());
        let ada = ComputeCapability::new(8, 9);
        assert!(ada.has_flash_attention() && !ada.prefers_cudnn_attention() && !ada.has_wide_flash_backward());
        let hopper = ComputeCapability::new(9, 0);
        assert!(hopper.prefers_cudnn_attention() && hopper.has_wide_flash_backward());
        assert!(ComputeCapability::new(10, 3).prefers_cudnn_attention());
        assert!(!ComputeCapability::new(12, 0).prefers_cudnn_attention());
    }
}
