//! The GPUs that `--gpu` may name.

use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_report::failure::Failure;
use vramfit_report::size::human;

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

    /// How `--gpu` and `--vram` were understood, where they leave a choice.
    pub fn understood(&self, gpu: Option<&str>, vram: Option<u64>) -> Vec<String> {
        gpu.and_then(|name| self.taken(name)).into_iter().chain(vram.and_then(decimal)).collect()
    }

    /// Which GPU was taken where the name leaves a choice.
    fn taken(&self, name: &str) -> Option<String> {
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
                    name.replace(' ', "").to_lowercase().replace("gb", "GiB")
                ),
                Err(_) if error.maker.is_some() => "`vramfit catalogue` lists the GPUs that are known".to_owned(),
                Err(_) => {
                    "`vramfit catalogue` lists all GPUs; `vramfit calibrate` adds the GPU of this machine".to_owned()
                }
            };
            Failure::at("--gpu", error).with_hint(Some(hint))
        })
    }
}

/// What a size in decimal gigabytes is: a card that is sold as 24 GB has 24 GiB.
fn decimal(vram: u64) -> Option<String> {
    const TENTH: u64 = 100_000_000;
    // What is given in GiB or MiB; of sizes in GB only 409.6 and its multiples.
    let is_binary = vram.is_multiple_of(1 << 20);
    if is_binary || !vram.is_multiple_of(TENTH) {
        return None;
    }
    let gb = vram as f64 / 1e9;
    Some(format!("--vram: {gb} GB are {}; a GPU sold with {gb} GB has {gb} GiB: --vram {gb}GiB", human(vram)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_in_gb_is_called_what_it_is_in_gib() {
        assert_eq!(
            decimal(24_000_000_000).as_deref(),
            Some("--vram: 24 GB are 22.4 GiB; a GPU sold with 24 GB has 24 GiB: --vram 24GiB")
        );
        assert!(decimal(11_500_000_000).is_some_and(|note| note.ends_with("--vram 11.5GiB")));
        for silent in [24 << 30, 11264 << 20, 0, 11_811_160_064, 25_769_803_776, 512 << 20] {
            assert_eq!(decimal(silent), None, "{silent}");
        }
    }
}
