//! The GPUs that `--gpu` may name.

use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_report::failure::Failure;

/// The GPU whose measurements are used for GPUs without any.
pub const REFERENCE: &str = "H200";

/// The GPUs that answers may be for.
pub struct KnownGpus {
    /// All that can be named.
    pub catalogue: Catalogue,
    this: Option<ThisGpu>,
}

/// A GPU of this machine.
pub struct ThisGpu {
    /// Its row, with what is free now as its capacity.
    pub gpu: Gpu,
    /// Which it is, and what others hold.
    pub note: String,
}

impl KnownGpus {
    /// The GPUs of a catalogue, and the one that `--gpu this` means if that was asked for.
    pub fn new(catalogue: Catalogue, this: Option<ThisGpu>) -> KnownGpus {
        KnownGpus { catalogue, this }
    }

    /// Which GPU was taken where the name leaves a choice.
    pub fn taken(&self, name: &str) -> Option<String> {
        if let Some(this) = &self.this {
            return Some(this.note.clone());
        }
        let others: Vec<&str> = self.catalogue.other_meanings(name).into_iter().map(|gpu| gpu.name.as_str()).collect();
        let found = self.catalogue.find(name).ok().filter(|_| !others.is_empty())?;
        Some(format!("--gpu {name}: taken as the {}; there are also {}", found.name, others.join(", ")))
    }

    /// Finds a GPU by name.
    ///
    /// # Errors
    /// There is no such GPU.
    pub fn find(&self, name: &str) -> Result<&Gpu, Failure> {
        if let Some(this) = &self.this {
            return Ok(&this.gpu);
        }
        self.catalogue.find(name).map_err(|error| {
            let hint = match vramfit_report::size::parse(name) {
                Ok(_) => format!(
                    "a size is given with --vram: what PyTorch may reserve, such as `--vram {}`",
                    name.replace(' ', "")
                ),
                Err(_) => {
                    "`vramfit catalogue` lists all GPUs; `vramfit calibrate` adds the GPU of this machine".to_owned()
                }
            };
            Failure::at("--gpu", error).with_hint(Some(hint))
        })
    }
}
