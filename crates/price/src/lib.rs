//! How long a training step takes on a GPU of the catalogue, so that plans can be ranked and slowdowns told.
//!
//! A [`Clock`] is made for a GPU. [`Clock::timetable`] works out what depends on the graph alone, what each captured call
//! costs the CPU and the GPU, forward and backward; [`Timetable::step_time`] plays a step of a loop with it: which calls
//! run again for a checkpoint, how often for micro-batches, what the optimizer adds. [`Clock::step_time`] is both.
//!
//! Eager PyTorch has two clocks: the CPU hands kernels over one by one, the GPU does them in order. Both are played
//! ([`queues`]), so that the slower one decides, piece by piece. All costs were measured one operator at a time on an
//! H200; what that means for other GPUs and other CPUs is in `docs/price.md`.

mod call;
mod clock;
mod compute;
mod curve;
mod grid;
mod optimizer;
mod points;
mod queues;
mod scale;
mod tables;
mod timetable;

pub use clock::{Clock, StepTime};
pub use timetable::Timetable;
