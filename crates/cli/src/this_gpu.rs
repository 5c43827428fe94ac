//! `--gpu this`: a GPU of this machine, with the memory that is free now.

use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_engine::known_gpus::ThisGpu;
use vramfit_monitor::sampler::{Cpu, Limits, Sampler};
use vramfit_report::size::human;

use crate::failure::Failure;

const THIS: &str = "this";

/// The index in `this` or `this:1`; `None` for other names.
pub fn index(name: &str) -> Result<Option<usize>, Failure> {
    let (first, index) = name.split_once(':').unwrap_or((name, "0"));
    if !first.trim().eq_ignore_ascii_case(THIS) {
        return Ok(None);
    }
    let wrong = || Failure::new(format!("--gpu {name}: found `{index}`, needed the index of a GPU, such as this:1"));
    index.parse().map(Some).map_err(|_| wrong())
}

/// Asks the driver about a GPU.
pub fn find(index: usize, catalogue: &Catalogue) -> Result<ThisGpu, Failure> {
    let mut sampler = Sampler::open(Limits::default(), Cpu::SinceLastSample).map_err(|reason| {
        Failure::new(format!("--gpu {THIS}: {reason}"))
            .with_hint(Some("name a GPU of the catalogue instead: `vramfit catalogue` lists them"))
    })?;
    let sample = sampler.sample();
    let count = sample.gpus.len();
    let seen = sample.gpus.into_iter().find(|gpu| gpu.index == index).ok_or_else(|| {
        Failure::new(format!("--gpu {THIS}:{index}: found {count} GPUs on this machine, needed one of index {index}"))
    })?;
    let missing =
        |what: &str, why: &dyn std::fmt::Display| Failure::new(format!("--gpu {THIS}: {what} of GPU {index}: {why}"));
    let name = seen.name.map_err(|why| missing("the name", &why))?;
    let memory = seen.memory.map_err(|why| missing("the memory", &why))?;
    let known = catalogue.find(&name).map_err(|_| {
        Failure::new(format!("--gpu {THIS}: GPU {index} is a {name}, which is not in the catalogue"))
            .with_hint(Some("`vramfit calibrate` measures it and adds it"))
    })?;
    // What CUDA sees of an empty GPU is less than what the driver has.
    let free = memory.free.min(known.capacity().high);
    let note = format!(
        "--gpu {THIS}: GPU {index} is the {}; {} of its {} are free now, and {} are in use",
        known.name,
        human(free),
        human(memory.total),
        human(memory.used)
    );
    Ok(ThisGpu {
        gpu: Gpu { seen_by_cuda: Some(free), seen_by_cuda_source: Some("free now".to_owned()), ..known.clone() },
        note,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_may_have_an_index_and_other_names_are_names() {
        assert_eq!(index("this").unwrap(), Some(0));
        assert_eq!(index("This:3").unwrap(), Some(3));
        assert_eq!(index("RTX 3060").unwrap(), None);
        assert!(index("this:x").is_err() && index("this:").is_err() && index("this:-1").is_err());
    }
}
