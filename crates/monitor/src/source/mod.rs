//! The drivers that report on GPUs: one file each, all behind one trait.

#[cfg(target_os = "linux")]
pub mod amd;
#[cfg(any(target_os = "linux", windows))]
mod nvml;

use std::sync::Arc;

use crate::platform::NoDriver;
#[cfg(any(target_os = "linux", windows))]
use crate::platform::nvml_libraries;
use crate::question::{Answer, Question};
use crate::reading::Reading;
use crate::sample::Vendor;

/// A driver. Every call may fail or hang; the sampler handles both.
pub trait Source: Send + Sync {
    /// The vendor of its GPUs.
    fn vendor(&self) -> Vendor;
    /// The driver's version.
    fn driver_version(&self) -> Reading<String>;
    /// The number of GPUs.
    fn gpu_count(&self) -> Reading<usize>;
    /// Answers one question about one GPU.
    fn ask(&self, gpu: usize, question: Question) -> Reading<Answer>;
}

/// Opens NVIDIA's driver. The call may hang.
#[cfg(any(target_os = "linux", windows))]
pub(crate) fn open_nvidia() -> Result<Arc<dyn Source>, NoDriver> {
    let mut reason = NoDriver::NoLibrary;
    for library in nvml_libraries() {
        match nvml::NvmlSource::open(library.as_os_str()) {
            Ok(source) => return Ok(Arc::new(source)),
            Err(NoDriver::NoLibrary) => {}
            Err(other) => reason = other,
        }
    }
    Err(reason)
}

/// NVML exists on Linux and Windows only.
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) fn open_nvidia() -> Result<Arc<dyn Source>, NoDriver> {
    Err(NoDriver::NoLibrary)
}

/// Opens AMD's driver if it has a GPU.
#[cfg(target_os = "linux")]
pub(crate) fn open_amd() -> Option<Arc<dyn Source>> {
    amd::AmdSource::open(amd::Roots::default()).map(|source| Arc::new(source) as Arc<dyn Source>)
}

/// AMD's driver has files to read on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_amd() -> Option<Arc<dyn Source>> {
    None
}
