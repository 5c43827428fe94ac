//! A row of the catalogue.

use crate::compute::{ComputeCapability, Workspaces};
use crate::context::{ContextBytes, EstimatedContext};

const GIB: f64 = (1_u64 << 30) as f64;

/// The smallest ratio of visible to sold memory in the table: a Tesla T4 with ECC.
const MIN_VISIBLE_SHARE: f64 = 0.91;

/// A GPU model and its known properties.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Without "NVIDIA" and "GeForce".
    pub name: String,
    /// Such as `Ampere`.
    pub architecture: String,
    /// Decides which kernels and workspaces PyTorch uses.
    pub compute: ComputeCapability,
    /// Bytes of memory as sold.
    pub memory: u64,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Memory bandwidth in GB/s, if known.
    pub bandwidth: Option<f64>,
    /// Megabytes of L2 cache, if known.
    pub cache: Option<f64>,
    /// Peak arithmetic throughput.
    pub flop_rates: FlopRates,
    /// Bytes of memory that CUDA reports, if known.
    pub seen_by_cuda: Option<u64>,
    /// The source of `seen_by_cuda`.
    pub seen_by_cuda_source: Option<String>,
    /// Memory of a process outside PyTorch's allocator, if measured.
    pub context: Option<CudaContext>,
    /// What is used if it is not: from published figures, or from the number of multiprocessors.
    pub estimated_context: EstimatedContext,
    /// cuBLAS's workspaces, if measured. Otherwise they follow from the compute capability.
    pub measured_workspaces: Option<Workspaces>,
    /// The newest PyTorch that runs on it, if known.
    pub newest: Option<NewestTorch>,
    /// Other names that `--gpu` accepts.
    pub aliases: Vec<String>,
}

/// The newest PyTorch whose wheels run on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewestTorch {
    /// The last release that supports the GPU; `None` if no release has dropped it yet.
    pub torch: Option<String>,
    /// The CUDA version of the newest wheels with kernels for it.
    pub cuda: String,
}

/// TFLOP/s by element type, without sparsity; `None` if the GPU has no such arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlopRates {
    /// Double precision.
    pub fp64: Option<f64>,
    /// Single precision, outside tensor cores.
    pub fp32: Option<f64>,
    /// Single precision in tensor cores.
    pub tf32: Option<f64>,
    /// Half precision.
    pub fp16: Option<f64>,
    /// bfloat16.
    pub bf16: Option<f64>,
}

/// GPU memory of a process outside PyTorch's allocator, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaContext {
    /// CUDA itself, with PyTorch's kernels.
    pub base: u64,
    /// Added by cuBLAS for each thread that uses it.
    pub blas: u64,
    /// Added by cuDNN for each thread that uses it.
    pub dnn: u64,
}

impl CudaContext {
    /// The total if `blas` threads have used cuBLAS and `dnn` threads cuDNN.
    pub fn bytes(&self, blas: u32, dnn: u32) -> u64 {
        self.base + u64::from(blas) * self.blas + u64::from(dnn) * self.dnn
    }
}

/// Bounds on the bytes of a GPU that a process can use; equal if the number is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Lower bound.
    pub low: u64,
    /// Upper bound.
    pub high: u64,
}

impl Gpu {
    /// The memory a process can use. If it is not known what CUDA reports, the lower bound is the smallest share that
    /// CUDA reports on any GPU of the table, and the upper bound is all memory.
    pub fn capacity(&self) -> Capacity {
        match self.seen_by_cuda {
            Some(bytes) => Capacity { low: bytes, high: bytes },
            None => Capacity { low: (self.memory as f64 * MIN_VISIBLE_SHARE) as u64, high: self.memory },
        }
    }

    /// What a process takes outside PyTorch's allocator if `blas` threads have used cuBLAS and `dnn` threads cuDNN. An
    /// estimate does not depend on that: published figures do not say which libraries were loaded.
    pub fn context_bytes(&self, blas: u32, dnn: u32) -> ContextBytes {
        match self.context.map(|context| context.bytes(blas, dnn)) {
            Some(bytes) => ContextBytes { low: bytes, expected: bytes, high: bytes },
            None => self.estimated_context.bytes,
        }
    }

    /// Whether it is built into laptops, and cannot be bought alone.
    pub fn is_laptop(&self) -> bool {
        self.name.ends_with(" Laptop")
    }

    /// Whether it is sold for desktops or laptops: a display is often connected to it.
    pub fn is_consumer(&self) -> bool {
        let words: Vec<&str> = self.name.split(' ').collect();
        match words[..] {
            ["GTX" | "TITAN", ..] => true,
            ["RTX", model, ..] => model.starts_with(|first: char| first.is_ascii_digit()) && !words.contains(&"Ada"),
            _ => false,
        }
    }

    /// cuBLAS's workspaces: the measured ones, or those of its compute capability.
    pub fn workspaces(&self) -> Workspaces {
        self.measured_workspaces.unwrap_or_else(|| self.compute.workspaces())
    }

    /// Whether context and workspaces have been measured on this model.
    pub fn is_measured(&self) -> bool {
        self.context.is_some() && self.measured_workspaces.is_some()
    }

    /// Memory as sold, in the vendor's GB.
    pub fn gigabytes(&self) -> f64 {
        self.memory as f64 / GIB
    }
}
