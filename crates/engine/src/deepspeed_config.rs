//! `--deepspeed-config`: DeepSpeed's own configuration file, read as flags.

mod file;
mod keys;
mod optimizer;

use std::fmt::Display;

use vramfit_training::script::ZeroStage;

use crate::arguments::{Elements, ModelDtype, ParallelWay, RunSettings, StateLocation};
use file::File;
use keys::Found;
use vramfit_report::failure::Failure;

/// What is known beside the flags of a training.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// How many GPUs there are; `None` if no flag says so.
    pub world: Option<u32>,
    /// Whether batches are tried one after another, so that the file's own does not count.
    pub tries_batches: bool,
    /// Whether a flag of this name was written on the command line.
    pub is_given: &'a dyn Fn(&str) -> bool,
}

/// Reads the file that `--deepspeed-config` names into the flags. What it does not have, or has as `"auto"`, stays as the flags are.
///
/// # Errors
/// The file cannot be read, contradicts a flag, or has a key that changes memory and is not simulated.
pub fn apply(run: &mut RunSettings, around: Around<'_>) -> Result<(), Failure> {
    let Some(path) = run.ranks.deepspeed_config.clone() else { return Ok(()) };
    let file = File::read(&path)?;
    let mut found = Found::default();
    keys::check(&file.root, keys::FILE, "", &mut found).map_err(|why| file.failure(&why))?;
    let both = Both { file: &file, is_given: around.is_given };
    let stage = stage(&file)?;
    let way = ParallelWay::DeepSpeed(stage);
    run.ranks.parallel = both.agreed("parallel", &run.ranks.parallel, "zero_optimization.stage", Some(way))?;
    let place = |is_on_host: bool| if is_on_host { "cpu" } else { "gpu" };
    let key = "zero_optimization.offload_optimizer.device";
    let (given, in_file) = (run.optimizer_state == StateLocation::Cpu, is_on_host(&file, key)?);
    if both.agreed("optimizer-state", &place(given), key, in_file.map(place))? == "cpu" {
        run.optimizer_state = StateLocation::Cpu;
    }
    let key = "zero_optimization.offload_param.device";
    let in_file = is_on_host(&file, key)?;
    if stage == ZeroStage::Three {
        run.ranks.offload_param = both.agreed("offload-param", &run.ranks.offload_param, key, in_file)?;
    } else if in_file == Some(true) {
        // DeepSpeed passes over it below stage 3.
        found.without_memory.push(key.to_owned());
    }
    precision(run, both)?;
    engine(run, both, stage, &mut found)?;
    batches(run, both, around)?;
    run.ranks.config_notes = notes(&file, &found);
    let of_optimizer = optimizer::read(run, both)?;
    run.ranks.config_notes.extend(of_optimizer);
    Ok(())
}

/// The file beside the flags.
#[derive(Clone, Copy)]
struct Both<'a> {
    file: &'a File,
    is_given: &'a dyn Fn(&str) -> bool,
}

impl Both<'_> {
    /// The file's value, or the flag's where the file has none.
    fn agreed<T: PartialEq + Display + Clone>(
        &self,
        flag: &str,
        given: &T,
        key: &str,
        in_file: Option<T>,
    ) -> Result<T, Failure> {
        match in_file {
            Some(value) if value != *given && (self.is_given)(flag) => Err(Failure::new(format!(
                "--{flag} {given}: found {key} in {}, which stands for {value}",
                self.file.path
            ))
            .with_hint(Some("leave one of them out, or write \"auto\" in the file to take the flag"))),
            Some(value) => Ok(value),
            None => Ok(given.clone()),
        }
    }

    /// The same for a flag that may be absent.
    fn agreed_option<T: PartialEq + Display + Clone>(
        &self,
        flag: &str,
        given: &Option<T>,
        key: &str,
        in_file: Option<T>,
    ) -> Result<Option<T>, Failure> {
        match given {
            Some(given) => self.agreed(flag, given, key, in_file).map(Some),
            None => Ok(in_file),
        }
    }
}

fn stage(file: &File) -> Result<ZeroStage, Failure> {
    match file.number("zero_optimization.stage")? {
        Some(1) => Ok(ZeroStage::One),
        Some(2) => Ok(ZeroStage::Two),
        Some(3) => Ok(ZeroStage::Three),
        Some(stage) => Err(file.failure(&format!("zero_optimization.stage: found {stage}, needed 1, 2 or 3"))),
        None => {
            let found =
                if file.is_auto("zero_optimization.stage") { "\"auto\", which nothing fills in" } else { "none" };
            Err(file.failure(&format!("zero_optimization.stage: found {found}, needed 1, 2 or 3")))
        }
    }
}

/// Whether a part says that something is on the CPU.
fn is_on_host(file: &File, key: &str) -> Result<Option<bool>, Failure> {
    match file.text(key)?.as_deref() {
        None => Ok(None),
        Some("none") => Ok(Some(false)),
        Some("cpu") => Ok(Some(true)),
        Some(other) => Err(file.failure(&format!("{key}: found {other}, which is not simulated; needed none or cpu"))),
    }
}

/// `bf16` and `fp16`: DeepSpeed casts the model.
fn precision(run: &mut RunSettings, both: Both<'_>) -> Result<(), Failure> {
    let file = both.file;
    let has_bf16 = file.truth("bf16.enabled")?.or(file.truth("bfloat16.enabled")?);
    let (name, dtype, key) = match (has_bf16, file.truth("fp16.enabled")?) {
        (Some(true), Some(true)) => {
            return Err(file.failure("found bf16 and fp16 enabled, needed one of them at most"));
        }
        (Some(true), _) => ("bf16", ModelDtype::Bf16, "bf16.enabled"),
        (_, Some(true)) => ("fp16", ModelDtype::Fp16, "fp16.enabled"),
        _ => return Ok(()),
    };
    let names = [(ModelDtype::Fp32, "fp32"), (ModelDtype::Bf16, "bf16"), (ModelDtype::Fp16, "fp16")];
    let given = run.at.dtype.map(|dtype| names.iter().find(|(known, _)| *known == dtype).map_or("fp64", |(_, it)| it));
    both.agreed_option("dtype", &given, key, Some(name))?;
    run.at.dtype = Some(dtype);
    Ok(())
}

/// The settings of ZeRO, and clipping.
fn engine(run: &mut RunSettings, both: Both<'_>, stage: ZeroStage, found: &mut Found) -> Result<(), Failure> {
    let file = both.file;
    let flags = &mut run.ranks;
    let elements = |flag: &str, slot: &mut Option<Elements>, least: i64| -> Result<(), Failure> {
        let name = flag.replace('-', "_");
        let keys = [format!("zero_optimization.{name}"), format!("zero_optimization.{}", name.replace("stage3_", ""))];
        for key in keys {
            let number = file.number(&key)?;
            if let Some(number) = number.filter(|number| !(least..=Elements::MOST).contains(number)) {
                return Err(file.failure(&format!("{key}: found {number}, needed {least} to 1e12")));
            }
            let given = slot.map(|elements| elements.0);
            *slot = both.agreed_option(flag, &given, &key, number)?.map(Elements);
        }
        Ok(())
    };
    elements("reduce-bucket-size", &mut flags.reduce_bucket_size, 1)?;
    let gathering = [
        ("stage3-prefetch-bucket-size", &mut flags.stage3_prefetch_bucket_size),
        ("stage3-max-live-parameters", &mut flags.stage3_max_live_parameters),
        ("stage3-max-reuse-distance", &mut flags.stage3_max_reuse_distance),
        ("stage3-param-persistence-threshold", &mut flags.stage3_param_persistence_threshold),
    ];
    for (flag, slot) in gathering {
        if stage == ZeroStage::Three {
            elements(flag, slot, 0)?;
        } else {
            let name = format!("zero_optimization.{}", flag.replace('-', "_"));
            found.without_memory.extend(file.has(&name).then_some(name));
        }
    }
    let overlaps = file.truth("zero_optimization.overlap_comm")?;
    let key = "zero_optimization.overlap_comm";
    flags.overlap_comm = both.agreed_option("overlap-comm", &flags.overlap_comm, key, overlaps)?;
    let clips = file.real("gradient_clipping")?.map(|norm| norm > 0.0);
    flags.gradient_clipping =
        both.agreed_option("gradient-clipping", &flags.gradient_clipping, "gradient_clipping", clips)?;
    Ok(())
}

/// The batch of a micro-batch, and how many there are in a step. Two of three numbers give the third, as in DeepSpeed.
fn batches(run: &mut RunSettings, both: Both<'_>, around: Around<'_>) -> Result<(), Failure> {
    let file = both.file;
    let positive = |key: &str| match file.number(key)? {
        Some(number) if number < 1 => Err(file.failure(&format!("{key}: found {number}, needed at least 1"))),
        number => Ok(number),
    };
    let [all, mut each, mut steps] =
        ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"].map(positive);
    let (mut each_key, mut steps_key) = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps");
    if let (Some(all), Some(world)) = (all?, around.world.map(i64::from)) {
        let divided = |by: i64, what: &str| match all % (by * world) {
            0 => Ok(Some(all / (by * world))),
            _ => Err(file.failure(&format!(
                "train_batch_size: found {all}, needed a multiple of {what} and of the {world} GPUs"
            ))),
        };
        match (each.as_ref().ok().copied().flatten(), steps.as_ref().ok().copied().flatten()) {
            (Some(micro), Some(count)) if micro * count * world != all => {
                return Err(file.failure(&format!(
                    "train_batch_size: found {all}, but {micro} samples in {count} micro-batches on {world} GPUs are {}",
                    micro * count * world
                )));
            }
            (Some(_), Some(_)) => {}
            (Some(micro), None) => (steps, steps_key) = (divided(micro, "the micro-batch"), "train_batch_size"),
            (None, Some(count)) => (each, each_key) = (divided(count, "the micro-batches"), "train_batch_size"),
            (None, None) => {
                let count = i64::from(run.accumulate);
                (each, each_key) = (divided(count, "the micro-batches"), "train_batch_size");
            }
        }
    }
    if let Some(count) = steps? {
        let count = u32::try_from(count).map_err(|error| file.failure(&format!("{steps_key}: {error}")))?;
        run.accumulate = both.agreed("accumulate", &run.accumulate, steps_key, Some(count))?;
    }
    let each = each?;
    if !around.tries_batches {
        run.at.batch = both.agreed_option("batch", &run.at.batch, each_key, each)?;
    }
    Ok(())
}

/// What to know about keys that are not simulated, and those that are left to the flags.
fn notes(file: &File, found: &Found) -> Vec<String> {
    let of =
        |keys: &[String], what: &str| (!keys.is_empty()).then(|| format!("{}: {} {what}", file.path, keys.join(", ")));
    let sizes = ["reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold"];
    let is_filled_in = |key: &String| sizes.iter().any(|size| key.ends_with(size));
    let filled_in: Vec<String> = found.auto.iter().filter(|key| is_filled_in(key)).cloned().collect();
    [
        of(&found.without_memory, "not modelled: the GPU's memory does not depend on it"),
        of(&found.unknown, "not known: DeepSpeed passes over it"),
        of(
            &filled_in,
            "\"auto\": taken as the flags or DeepSpeed's defaults; transformers fills in hidden_size² for reduce_bucket_size, 0.9 times that \
             for stage3_prefetch_bucket_size and 10 times hidden_size for stage3_param_persistence_threshold",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
