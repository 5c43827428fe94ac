//! Training on a simulated GPU: the loop, the optimizers, and whether the result fits.
//!
//! [`training`] records what a training loop asks of the allocator and answers it; [`optimizer`] has one file an optimizer;
//! [`answer`] bounds the peaks and decides whether they fit a GPU.

pub mod answer;
pub mod layers;
pub mod optimizer;
pub mod parallel;
pub mod training;
