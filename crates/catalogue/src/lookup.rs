//! Finds a GPU by name.

use strsim::levenshtein;

use crate::calibration::Calibration;
use crate::context::ContextTable;
use crate::gpu::Gpu;
use crate::name::{Typed, normalized, shortened, without_brand};
use crate::other_makers::maker;
use crate::rows::TableError;
use crate::table;

const BUILT_IN: &str = include_str!("../data/gpus.txt");
/// What people leave out before a number, as [`normalized`] writes it.
const SERIES: [&str; 3] = ["rtx", "gtx", "quadro"];
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
#[error("{}", message(.name, *.maker, .nearest))]
pub struct UnknownGpu {
    /// The name that was looked up.
    pub name: String,
    /// Who else makes a GPU of this name.
    pub maker: Option<&'static str>,
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

    /// Finds a GPU by name or alias, as people type them: case, spaces and brand names do not matter, a number alone will do, and
    /// memory may be written in any way (`a100-80g`).
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
        let others = match self.named(name) {
            Some((found, _)) if normalized(&self.gpus[found].name) == wanted => Vec::new(),
            Some((found, spelling)) => {
                // A series that was left out may be that of others too: `RTX 6000` is a Quadro.
                let is_whole = normalized(&self.gpus[found].name) == spelling;
                let begun = if is_whole { &wanted } else { &spelling };
                self.beginning_with(begun).filter(|index| *index != found).collect()
            }
            None => self.typed(name).into_iter().skip(1).collect(),
        };
        others.into_iter().map(|index| &self.gpus[index]).collect()
    }

    /// Adds measurements of a machine's GPU to its row, or adds a new row.
    pub fn calibrate(&mut self, calibration: &Calibration) {
        let name = if calibration.name.is_empty() { "unnamed" } else { &calibration.name };
        match self.named(name) {
            Some((index, _)) => calibration.apply(&mut self.gpus[index]),
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
        let mut gpu = match self.named(&calibration.name) {
            Some((index, _)) => self.gpus[index].clone(),
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
        let named = self.named(name).map(|(index, _)| index);
        named.or_else(|| self.typed(name).first().copied())
    }

    /// The GPU of this name or alias, and the spelling that was found; its series may be missing: people say `3060`.
    fn named(&self, name: &str) -> Option<(usize, String)> {
        let find = |wanted: &str| {
            let by_name = || self.gpus.iter().position(|gpu| normalized(&gpu.name) == wanted);
            let is_alias = |gpu: &Gpu| gpu.aliases.iter().any(|alias| normalized(alias) == wanted);
            by_name().or_else(|| self.gpus.iter().position(is_alias))
        };
        let wanted = normalized(name);
        let with_series = SERIES.iter().map(|series| format!("{series}{wanted}"));
        std::iter::once(wanted.clone()).chain(with_series).find_map(|spelling| Some((find(&spelling)?, spelling)))
    }

    fn beginning_with(&self, wanted: &str) -> impl Iterator<Item = usize> {
        let is_one = move |gpu: &Gpu| normalized(&gpu.name).starts_with(wanted);
        self.gpus.iter().enumerate().filter(move |(_, gpu)| is_one(gpu)).map(|(index, _)| index)
    }

    /// The GPUs of a name that is no name of the table: those of its memory that are called so, else those whose form or memory
    /// it leaves out.
    fn typed(&self, name: &str) -> Vec<usize> {
        let Typed { model, gib } = Typed::read(name);
        // `RTX` with a size names no GPU.
        if !model.contains(|letter: char| letter.is_ascii_digit()) {
            return Vec::new();
        }
        let mut spellings = vec![model.clone()];
        // `4080s`
        spellings.extend(model.strip_suffix('s').map(|model| format!("{model}super")));
        for series in SERIES {
            spellings.push(format!("{series}{}", spellings[0]));
            spellings.extend(model.strip_suffix('s').map(|model| format!("{series}{model}super")));
        }
        let all = |is_called: &dyn Fn(&Gpu) -> bool| {
            let has_memory = |gpu: &Gpu| gib.is_none_or(|gib| gpu.memory == gib << 30);
            let numbered = self.gpus.iter().enumerate();
            numbered.filter(|(_, gpu)| has_memory(gpu) && is_called(gpu)).map(|(index, _)| index).collect::<Vec<_>>()
        };
        let whole = all(&|gpu| {
            let mut names = std::iter::once(&gpu.name).chain(&gpu.aliases);
            names.any(|name| shortened(name).first().is_some_and(|name| spellings.contains(name)))
        });
        // `GTX 1060` could be two; `A100 SXM` differ in memory alone.
        let may_be_short = gib.is_some() || model.ends_with("sxm") || model.ends_with("pcie");
        match whole.is_empty() && may_be_short {
            true => all(&|gpu| shortened(&gpu.name).iter().any(|name| spellings.contains(name))),
            false => whole,
        }
    }

    fn unknown(&self, name: &str) -> UnknownGpu {
        let wanted = normalized(name);
        let rank = |gpu: &&Gpu| {
            let known = normalized(&gpu.name);
            // `GTX 1060` is a prefix of two variants.
            let is_prefix = !wanted.is_empty() && (known.starts_with(&wanted) || wanted.starts_with(&known));
            // `3060` is a part of several names.
            let is_part = wanted.len() > 2 && known.contains(&wanted);
            // `3061` is as near to a name without its series.
            let number = SERIES.iter().find_map(|series| known.strip_prefix(series));
            let names = [Some(known.as_str()), number];
            let distance = names.into_iter().flatten().map(|name| levenshtein(&wanted, name)).min();
            (!is_prefix, !is_part, distance)
        };
        let mut nearest: Vec<&Gpu> = self.gpus.iter().collect();
        nearest.sort_by_key(rank);
        UnknownGpu {
            name: name.to_owned(),
            maker: maker(name),
            nearest: nearest.into_iter().take(SUGGESTIONS).map(|gpu| gpu.name.clone()).collect(),
        }
    }
}

fn message(name: &str, maker: Option<&str>, nearest: &[String]) -> String {
    match maker {
        Some(maker) => {
            format!("found `{name}`, a GPU of {maker}, needed one of NVIDIA: vramfit simulates PyTorch with CUDA")
        }
        None => format!("found no GPU named `{name}` in the catalogue, needed one such as {}", nearest.join(", ")),
    }
}
