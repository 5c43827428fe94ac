//! Finds a GPU by name.

use strsim::levenshtein;

use crate::calibration::Calibration;
use crate::context::ContextTable;
use crate::gpu::Gpu;
use crate::name::{normalized, without_brand};
use crate::rows::TableError;
use crate::table;

const BUILT_IN: &str = include_str!("../data/gpus.txt");
/// What comes before the number of a GeForce, as [`normalized`] writes it.
const SERIES: [&str; 2] = ["rtx", "gtx"];
/// Names in the error for an unknown GPU.
const SUGGESTIONS: usize = 5;

/// All known GPUs.
#[derive(Clone, Debug)]
pub struct Catalogue {
    gpus: Vec<Gpu>,
    contexts: ContextTable,
}

/// No GPU has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found no GPU named `{name}` in the catalogue, needed one such as {}", .nearest.join(", "))]
pub struct UnknownGpu {
    /// The name that was looked up.
    pub name: String,
    /// Similar names, the most similar first.
    pub nearest: Vec<String>,
}

impl Catalogue {
    /// The built-in table.
    ///
    /// # Errors
    /// A row of the table is malformed; the crate's tests exclude that.
    pub fn built_in() -> Result<Catalogue, TableError> {
        Catalogue::read(BUILT_IN)
    }

    /// A table in the format of the built-in one.
    ///
    /// # Errors
    /// A row is malformed.
    pub fn read(text: &str) -> Result<Catalogue, TableError> {
        let contexts = ContextTable::built_in()?;
        Ok(Catalogue { gpus: table::read(text, &contexts)?, contexts })
    }

    /// All GPUs, ordered by compute capability.
    pub fn gpus(&self) -> &[Gpu] {
        &self.gpus
    }

    /// Finds a GPU by name or alias. Case, spaces and brand names do not matter, and a GeForce's number alone will do.
    ///
    /// # Errors
    /// No GPU has this name.
    pub fn find(&self, name: &str) -> Result<&Gpu, UnknownGpu> {
        self.position(name).map(|index| &self.gpus[index]).ok_or_else(|| self.unknown(name))
    }

    /// Other GPUs that a name could mean, beside the one that [`Catalogue::find`] takes: those whose names begin with it.
    /// None for a GPU's own name.
    pub fn other_meanings(&self, name: &str) -> Vec<&Gpu> {
        let wanted = normalized(name);
        let Some(found) = self.position(name).filter(|index| normalized(&self.gpus[*index].name) != wanted) else {
            return Vec::new();
        };
        let is_other = |index: usize, gpu: &Gpu| index != found && normalized(&gpu.name).starts_with(&wanted);
        self.gpus.iter().enumerate().filter(|(index, gpu)| is_other(*index, gpu)).map(|(_, gpu)| gpu).collect()
    }

    /// Adds measurements of a machine's GPU to its row, or adds a new row.
    pub fn calibrate(&mut self, calibration: &Calibration) {
        let name = if calibration.name.is_empty() { "unnamed" } else { &calibration.name };
        match self.position(name) {
            Some(index) => calibration.apply(&mut self.gpus[index]),
            None => {
                let mut gpu = calibration.to_gpu(&self.contexts);
                // Wheels have kernels per compute capability, so any GPU of the same one will do.
                let similar = self.gpus.iter().find(|known| known.compute == gpu.compute);
                gpu.newest = similar.and_then(|known| known.newest.clone());
                self.gpus.push(gpu);
            }
        }
    }

    /// The row of the built-in table that holds what a calibration measured. What nobody has looked up is `-`.
    pub fn row(&self, calibration: &Calibration) -> String {
        let mut gpu = match self.position(&calibration.name) {
            Some(index) => self.gpus[index].clone(),
            None => {
                let mut gpu = calibration.to_gpu(&self.contexts);
                gpu.name = without_brand(&gpu.name);
                // CUDA sees less than what is sold, which is a whole number.
                gpu.memory = gpu.memory.div_ceil(1 << 30) << 30;
                let similar = self.gpus.iter().find(|known| known.compute == gpu.compute);
                if let Some(known) = similar {
                    (gpu.architecture, gpu.newest) = (known.architecture.clone(), known.newest.clone());
                }
                gpu
            }
        };
        calibration.apply(&mut gpu);
        gpu.seen_by_cuda_source = Some("measured".to_owned());
        table::write(&gpu)
    }

    fn position(&self, name: &str) -> Option<usize> {
        let wanted = normalized(name);
        let matches = |name: &str| normalized(name) == wanted;
        let by_name = |wanted: &str| self.gpus.iter().position(|gpu| normalized(&gpu.name) == wanted);
        // People say `3060`.
        let by_number = || {
            let is_number = wanted.starts_with(|letter: char| letter.is_ascii_digit());
            is_number.then(|| SERIES.iter().find_map(|series| by_name(&format!("{series}{wanted}"))))?
        };
        by_name(&wanted)
            .or_else(|| self.gpus.iter().position(|gpu| gpu.aliases.iter().any(|alias| matches(alias))))
            .or_else(by_number)
    }

    fn unknown(&self, name: &str) -> UnknownGpu {
        let wanted = normalized(name);
        let rank = |gpu: &&Gpu| {
            let known = normalized(&gpu.name);
            // `GTX 1060` is a prefix of two variants.
            let is_prefix = !wanted.is_empty() && (known.starts_with(&wanted) || wanted.starts_with(&known));
            // `3060` is a part of several names.
            let is_part = wanted.len() > 2 && known.contains(&wanted);
            (!is_prefix, !is_part, levenshtein(&wanted, &known))
        };
        let mut nearest: Vec<&Gpu> = self.gpus.iter().collect();
        nearest.sort_by_key(rank);
        UnknownGpu {
            name: name.to_owned(),
            nearest: nearest.into_iter().take(SUGGESTIONS).map(|gpu| gpu.name.clone()).collect(),
        }
    }
}
