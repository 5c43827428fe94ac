//! The catalogue of GPUs with the calibrations of this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use vramfit_catalogue::{Calibration, Catalogue};
#[cfg(feature = "simulate")]
use vramfit_engine::known_gpus::KnownGpus;

use crate::failure::Failure;
use crate::platform;
#[cfg(feature = "simulate")]
use crate::this_gpu;

/// The built-in catalogue with the user's calibrations.
pub fn catalogue() -> Result<Catalogue, Failure> {
    let mut catalogue = Catalogue::built_in().map_err(|error| Failure::at("the catalogue of GPUs", error))?;
    if let Some(path) = calibrations_file() {
        for calibration in read(&path)? {
            catalogue.calibrate(&calibration);
        }
    }
    Ok(catalogue)
}

/// The GPUs that simulated runs may be for.
#[cfg(feature = "simulate")]
pub fn load() -> Result<KnownGpus, Failure> {
    Ok(KnownGpus::new(catalogue()?, None))
}

/// The same for a command whose `--gpu` may be `this`: then the driver is asked.
#[cfg(feature = "simulate")]
pub fn load_for(name: Option<&str>) -> Result<KnownGpus, Failure> {
    let catalogue = catalogue()?;
    let index = name.map(this_gpu::index).transpose()?.flatten();
    let this = index.map(|index| this_gpu::find(index, &catalogue)).transpose()?;
    Ok(KnownGpus::new(catalogue, this))
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
