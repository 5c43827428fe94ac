//! The catalogue of GPUs with the calibrations of this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vramfit_catalogue::{Calibration, Catalogue, Gpu};

use crate::failure::Failure;
use crate::platform;
#[cfg(feature = "simulate")]
use crate::this_gpu;

/// The GPU whose measurements are used for GPUs without any.
pub const REFERENCE: &str = "H200";

/// The catalogue with the calibrations of this machine.
pub struct KnownGpus {
    /// The calibrated catalogue.
    pub catalogue: Catalogue,
    /// The GPU of `--gpu this`.
    #[cfg(feature = "simulate")]
    this: Option<this_gpu::ThisGpu>,
}

impl KnownGpus {
    /// Loads the built-in catalogue and the user's calibrations.
    pub fn load() -> Result<KnownGpus, Failure> {
        let mut catalogue = Catalogue::built_in().map_err(|error| Failure::at("the catalogue of GPUs", error))?;
        if let Some(path) = calibrations_file() {
            for calibration in read(&path)? {
                catalogue.calibrate(&calibration);
            }
        }
        Ok(KnownGpus {
            catalogue,
            #[cfg(feature = "simulate")]
            this: None,
        })
    }

    /// The same for a command whose `--gpu` may be `this`: then the driver is asked.
    #[cfg(feature = "simulate")]
    pub fn load_for(name: Option<&str>) -> Result<KnownGpus, Failure> {
        let known = KnownGpus::load()?;
        let Some(index) = name.map(this_gpu::index).transpose()?.flatten() else { return Ok(known) };
        let this = this_gpu::find(index, &known.catalogue)?;
        Ok(KnownGpus { this: Some(this), ..known })
    }

    /// Which GPU was taken where the name leaves a choice.
    #[cfg(feature = "simulate")]
    pub fn taken(&self, name: &str) -> Option<String> {
        if let Some(this) = &self.this {
            return Some(this.note.clone());
        }
        let others: Vec<&str> = self.catalogue.other_meanings(name).into_iter().map(|gpu| gpu.name.as_str()).collect();
        let found = self.catalogue.find(name).ok().filter(|_| !others.is_empty())?;
        Some(format!("--gpu {name}: taken as the {}; there are also {}", found.name, others.join(", ")))
    }

    /// Finds a GPU by name.
    pub fn find(&self, name: &str) -> Result<&Gpu, Failure> {
        #[cfg(feature = "simulate")]
        if let Some(this) = &self.this {
            return Ok(&this.gpu);
        }
        self.catalogue.find(name).map_err(|error| {
            let hint = "`vramfit catalogue` lists all GPUs; `vramfit calibrate` adds the GPU of this machine";
            Failure::at("--gpu", error).with_hint(Some(hint))
        })
    }
}

/// The file of calibrations; `None` if the environment has no home folder.
pub fn calibrations_file() -> Option<PathBuf> {
    Some(platform::config_folder()?.join("vramfit").join("gpus.json"))
}

/// Reads calibrations; none if the file does not exist.
pub fn read(path: &Path) -> Result<Vec<Calibration>, Failure> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Failure::at(path.display(), error)),
    };
    let hint = "delete the file, or run `vramfit calibrate` again";
    let list: Vec<Calibration> =
        serde_json::from_str(&text).map_err(|error| Failure::at(path.display(), error).with_hint(Some(hint)))?;
    match list.iter().find_map(|calibration| Some((calibration, calibration.problem()?))) {
        Some((calibration, problem)) => {
            let message = format!("{}: {}: {problem}", path.display(), calibration.name);
            Err(Failure::new(message).with_hint(Some(hint)))
        }
        None => Ok(list),
    }
}
