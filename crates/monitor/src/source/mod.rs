//! Where numbers come from: one file a driver, all behind one trait.

pub mod amd;
mod no_driver;
pub mod nvml;

pub use no_driver::NoDriver;

use crate::question::{Answer, Question};
use crate::reading::Reading;
use crate::sample::Vendor;

/// A driver that knows GPUs. Every call may fail and may hang; the sampler deals with both.
pub trait Source: Send + Sync {
    /// Whose driver it is.
    fn vendor(&self) -> Vendor;
    /// Its version.
    fn driver_version(&self) -> Reading<String>;
    /// How many GPUs it has.
    fn gpu_count(&self) -> Reading<usize>;
    /// One answer about one GPU.
    fn ask(&self, gpu: usize, question: Question) -> Reading<Answer>;
}
