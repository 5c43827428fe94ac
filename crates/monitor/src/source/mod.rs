//! Where numbers come from: one file a driver, all behind one trait.

#[cfg(target_os = "linux")]
pub mod amd;
mod no_driver;
#[cfg(any(target_os = "linux", windows))]
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
