//! Finds a GPU by name.

use crate::calibration::Calibration;
use crate::gpu::Gpu;
use crate::name::{distance, plain};
use crate::table::{TableError, read};

const BUILT_IN: &str = include_str!("../data/gpus.txt");
const SHOWN: usize = 5;

/// All known GPUs.
#[derive(Clone, Debug)]
pub struct Catalogue {
    gpus: Vec<Gpu>,
}

/// A name that no GPU has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found no GPU named `{name}` in the catalogue, needed one such as {}", .nearest.join(", "))]
pub struct UnknownGpu {
    /// What was asked for.
    pub name: String,
    /// The names nearest to it, the nearest first.
    pub nearest: Vec<String>,
}

impl Catalogue {
    /// The table that is compiled in.
    ///
    /// # Errors
    /// The table has a row that is not as it should be, which the crate's tests exclude.
    pub fn built_in() -> Result<Catalogue, TableError> {
        Ok(Catalogue { gpus: read(BUILT_IN)? })
    }

    /// The GPUs in the table's order: by compute capability.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// The GPU that has this name; case, spaces and the vendor's words do not matter.
    ///
    /// # Errors
    /// No GPU has it.
    pub fn find(&self, name: &str) -> Result<&Gpu, UnknownGpu> {
        self.position(name).map(|index| &self.gpus[index]).ok_or_else(|| self.unknown(name))
    }

    /// Puts in what was measured on a machine: into the row of that GPU, or as a new one.
    pub fn calibrate(&mut self, calibration: &Calibration) {
        let name = if calibration.name.is_empty() { "unnamed" } else { &calibration.name };
        match self.position(name) {
            Some(index) => calibration.apply(&mut self.gpus[index]),
            None => {
                let mut gpu = calibration.to_gpu();
                // Wheels have kernels for compute capabilities, not for GPUs.
                let like = self.gpus.iter().find(|known| known.compute == gpu.compute);
                gpu.newest = like.and_then(|known| known.newest.clone());
                self.gpus.push(gpu);
            }
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        let wanted = plain(name);
        let has = |name: &str| plain(name) == wanted;
        let by_name = self.gpus.iter().position(|gpu| has(&gpu.name));
        by_name.or_else(|| self.gpus.iter().position(|gpu| gpu.aliases.iter().any(|alias| has(alias))))
    }

    fn unknown(&self, name: &str) -> UnknownGpu {
        let wanted = plain(name);
        // Names that hold what was asked for come first: `GTX 1060` is near to its two variants.
        let rank = |gpu: &&Gpu| {
            let known = plain(&gpu.name);
            let holds = !wanted.is_empty() && (known.starts_with(&wanted) || wanted.starts_with(&known));
            // `3060` alone: a number that stands within names.
            let is_part = wanted.len() > 2 && known.contains(&wanted);
            (!holds, !is_part, distance(&wanted, &known))
        };
        let mut nearest: Vec<&Gpu> = self.gpus.iter().collect();
        nearest.sort_by_key(rank);
        UnknownGpu {
            name: name.to_owned(),
            nearest: nearest.into_iter().take(SHOWN).map(|gpu| gpu.name.clone()).collect(),
        }
    }
}
