//! How long a training step takes on a GPU of the catalogue, so that plans can be ranked and slowdowns told.
//!
//! A [`Clock`] is made for a GPU. [`Clock::timetable`] works out what depends on the graph alone, how long each captured
//! call keeps the GPU busy, forward and backward; [`Timetable::step_time`] puts a step of a loop together from it: which
//! calls run again for a checkpoint, how often for micro-batches, what the optimizer adds. [`Clock::step_time`] is both.

mod clock;
mod operator;
mod optimizer;
mod roofline;
mod timetable;

pub use clock::{Clock, StepTime};
pub use timetable::Timetable;
