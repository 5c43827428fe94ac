//! The GPU, as far as a step's memory depends on it.

use vramfit_catalogue::{ComputeCapability, Gpu as KnownGpu};
use vramfit_cudnn::convolution::LiveAnswers;

use crate::kernels::reduce::Gpu;

/// Bytes of cuBLAS's workspaces on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlasWorkspace {
    /// Of a handle.
    pub handle: u64,
    /// Of cuBLASLt.
    pub lt: u64,
}

/// The GPU, as far as a step's memory depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its size.
    pub gpu: Gpu,
    /// Its compute capability, which decides what kernels run.
    pub compute: ComputeCapability,
    /// cuBLAS's workspaces on it.
    pub blas: BlasWorkspace,
    /// An installed cuDNN that answers for it. It lives as long as the program.
    pub cudnn: Option<&'static dyn LiveAnswers>,
}

/// An H200, as measured.
pub const H200: Machine = Machine {
    gpu: Gpu { multiprocessors: 132, threads_per_multiprocessor: 2048 },
    compute: ComputeCapability::new(9, 0),
    blas: BlasWorkspace { handle: 33_554_432, lt: 1_048_576 },
    cudnn: None,
};

impl From<&KnownGpu> for Machine {
    fn from(gpu: &KnownGpu) -> Machine {
        let workspaces = gpu.workspaces();
        Machine {
            gpu: Gpu {
                multiprocessors: i64::from(gpu.multiprocessors),
                threads_per_multiprocessor: i64::from(gpu.compute.threads_per_multiprocessor()),
            },
            compute: gpu.compute,
            blas: BlasWorkspace { handle: workspaces.blas, lt: workspaces.blas_lt },
            cudnn: None,
        }
    }
}
