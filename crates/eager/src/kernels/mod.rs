//! What CUDA kernels allocate beside their results, from the logic by which PyTorch launches them.

pub mod accumulator;
pub mod batch_norm;
pub mod cub;
pub mod embedding;
pub mod layer_norm;
pub mod reduce;
pub mod scan;
