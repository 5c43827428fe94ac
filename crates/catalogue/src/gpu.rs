//! One GPU.

use crate::compute::{ComputeCapability, Workspaces};

const GIB: f64 = (1_u64 << 30) as f64;

/// The least share of its memory that CUDA was seen to offer on any GPU of the table: a Tesla T4, with error correction.
const LEAST_SHARE: f64 = 0.91;

/// A GPU as PyTorch finds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its name, without "NVIDIA" and "GeForce".
    pub name: String,
    /// Its generation.
    pub architecture: String,
    /// Its compute capability.
    pub compute: ComputeCapability,
    /// Bytes of memory as sold.
    pub memory: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Memory bandwidth in GB/s, where it is known.
    pub bandwidth: Option<f64>,
    /// Megabytes of its second-level cache.
    pub cache: Option<f64>,
    /// What it computes.
    pub flop_rates: FlopRates,
    /// Bytes that CUDA says it has, where that is known.
    pub seen_by_cuda: Option<u64>,
    /// Where that is known from.
    pub seen_by_cuda_source: Option<String>,
    /// What a process takes beside what PyTorch reserves, where it has been measured.
    pub context: Option<Context>,
    /// cuBLAS's workspaces, where they have been measured; else what PyTorch's code says of its compute capability.
    pub measured_workspaces: Option<Workspaces>,
    /// The newest PyTorch for it, where that is known.
    pub newest: Option<Newest>,
    /// Other names.
    pub aliases: Vec<String>,
}

/// The newest PyTorch whose wheels run on a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The last release of PyTorch, or `None` where none has dropped it yet.
    pub torch: Option<String>,
    /// The CUDA of the newest wheels that have its kernels.
    pub cuda: String,
}

/// TFLOP/s by element type, dense; `None` where the GPU has no such arithmetic.
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
    /// Brain float.
    pub bf16: Option<f64>,
}

/// Bytes that a process takes on the GPU beside what PyTorch reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// CUDA's own, with PyTorch's kernels.
    pub base: u64,
    /// What cuBLAS adds for each thread that uses it.
    pub blas: u64,
    /// What cuDNN adds for each thread that uses it.
    pub dnn: u64,
}

impl Context {
    /// What a process takes in which `blas` threads have used cuBLAS and `dnn` threads cuDNN.
    pub fn bytes(&self, blas: u32, dnn: u32) -> u64 {
        self.base + u64::from(blas) * self.blas + u64::from(dnn) * self.dnn
    }
}

/// What a process may use of a GPU, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// At least this.
    pub low: u64,
    /// At most this.
    pub high: u64,
}

impl Gpu {
    /// What a process may use of its memory. Where what CUDA sees is not known, it lies between the least share seen on
    /// any other GPU and all of it.
    pub fn capacity(&self) -> Capacity {
        match self.seen_by_cuda {
            Some(bytes) => Capacity { low: bytes, high: bytes },
            None => Capacity { low: (self.memory as f64 * LEAST_SHARE) as u64, high: self.memory },
        }
    }

    /// cuBLAS's workspaces: measured ones, or those that PyTorch's code asks for.
    pub fn workspaces(&self) -> Workspaces {
        self.measured_workspaces.unwrap_or_else(|| self.compute.workspaces())
    }

    /// Whether context and workspaces have been measured on such a GPU.
    pub fn is_measured(&self) -> bool {
        self.context.is_some() && self.measured_workspaces.is_some()
    }

    /// Its memory as sold, in the vendor's GB.
    pub fn gigabytes(&self) -> f64 {
        self.memory as f64 / GIB
    }
}
