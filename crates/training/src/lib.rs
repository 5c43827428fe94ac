//! Training on a simulated GPU: the loop, the optimizers, and whether the result fits.
//!
//! [`training`] records what a training loop asks of the allocator and answers it; [`optimizer`] has one file an optimizer;
//! [`judgement`] decides whether the answers fit a GPU.

pub mod judgement;
pub mod layers;
pub mod optimizer;
pub mod parallel;
pub mod training;
