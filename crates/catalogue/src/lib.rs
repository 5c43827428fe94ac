//! NVIDIA GPUs: how much memory each has, what PyTorch's libraries take there, which kernels run.
//!
//! The GPUs themselves are one data file, `data/gpus.txt`, one a row. What follows from a compute capability alone is in
//! [`compute`]. A [`calibration`] made on a machine replaces what is not known, or not measured, of its GPU.

pub mod calibration;
pub mod compute;
pub mod gpu;
mod lookup;
mod name;
mod table;

pub use calibration::Calibration;
pub use compute::ComputeCapability;
pub use gpu::{Context, FlopRates, Gpu, Newest};
pub use lookup::{Catalogue, UnknownGpu};
pub use table::TableError;
