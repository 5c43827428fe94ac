//! Measurements of this machine's GPU, made by `vramfit calibrate`.

use serde::{Deserialize, Serialize};

use crate::compute::{ComputeCapability, Workspaces};
use crate::context::ContextTable;
use crate::gpu::{CudaContext, FlopRates, Gpu};

/// A measured GPU. A value is `None` if it could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// The driver's name for it.
    pub name: String,
    /// Such as `8.6`.
    pub compute_capability: String,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Resident threads per multiprocessor.
    #[serde(default)]
    pub threads_per_multiprocessor: u32,
    /// Bytes of memory that CUDA reports.
    pub capacity: u64,
    /// Bytes of the CUDA context before any library is used.
    pub context: Option<u64>,
    /// Bytes that cuBLAS adds on Python's thread.
    pub blas_context: Option<u64>,
    /// Bytes that cuBLAS adds on autograd's thread.
    pub blas_backward_context: Option<u64>,
    /// Bytes that cuDNN adds on Python's thread.
    pub dnn_context: Option<u64>,
    /// Bytes that cuDNN adds on autograd's thread.
    pub dnn_backward_context: Option<u64>,
    /// Bytes of a cuBLAS handle's workspace.
    pub blas_workspace: u64,
    /// Bytes of cuBLASLt's workspace.
    pub blas_lt_workspace: u64,
    /// How the context was measured: for the process, or for the whole device.
    #[serde(default)]
    pub method: String,
    /// PyTorch version.
    #[serde(default)]
    pub torch: String,
    /// CUDA version.
    #[serde(default)]
    pub cuda: Option<String>,
    /// cuDNN version.
    #[serde(default)]
    pub cudnn: Option<u64>,
}

impl Calibration {
    /// The first invalid value, if any.
    pub fn problem(&self) -> Option<String> {
        let compute: Result<ComputeCapability, String> = self.compute_capability.parse();
        match compute {
            Err(problem) => Some(format!("compute_capability: {problem}")),
            Ok(_) if self.capacity == 0 => {
                Some("capacity: found 0, needed the bytes of memory that CUDA reports".into())
            }
            Ok(_) if self.multiprocessors == 0 => Some("multiprocessors: found 0, needed a count".into()),
            Ok(_) => None,
        }
    }

    fn measured_context(&self) -> Option<CudaContext> {
        // A library takes nearly the same amount on either thread: use the larger one.
        let larger = |first: Option<u64>, second: Option<u64>| Some(first?.max(second?));
        Some(CudaContext {
            base: self.context?,
            blas: larger(self.blas_context, self.blas_backward_context)?,
            dnn: larger(self.dnn_context, self.dnn_backward_context)?,
        })
    }

    pub(crate) fn apply(&self, gpu: &mut Gpu) {
        gpu.seen_by_cuda = Some(self.capacity);
        gpu.seen_by_cuda_source = Some("calibrated".into());
        gpu.multiprocessors = self.multiprocessors;
        gpu.context = self.measured_context().or(gpu.context);
        gpu.measured_workspaces = Some(Workspaces { blas: self.blas_workspace, blas_lt: self.blas_lt_workspace });
    }

    pub(crate) fn to_gpu(&self, contexts: &ContextTable) -> Gpu {
        let compute = self.compute_capability.parse().unwrap_or(ComputeCapability::new(0, 0));
        let mut gpu = Gpu {
            name: self.name.clone(),
            architecture: "-".into(),
            compute,
            memory: self.capacity,
            multiprocessors: self.multiprocessors,
            bandwidth: None,
            cache: None,
            flop_rates: FlopRates::default(),
            seen_by_cuda: None,
            seen_by_cuda_source: None,
            context: None,
            estimated_context: contexts.estimate(compute, self.multiprocessors),
            measured_workspaces: None,
            newest: None,
            aliases: Vec::new(),
        };
        self.apply(&mut gpu);
        gpu
    }
}
