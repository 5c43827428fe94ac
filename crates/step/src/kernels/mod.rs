//! What CUDA kernels allocate beside their results, from the logic by which PyTorch launches them.

pub mod reduce;
pub mod scan;
