//! `vramfit estimate`: what a training step will allocate, without running it.

use std::path::Path;

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::read::{read_bytes, read_file};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_report::estimate::{EstimateReport, Question};
use vramfit_step::checkpoint::Choice;
use vramfit_step::memory::Memory;
use vramfit_step::ops::{Assumption, Plans};
use vramfit_step::optimizer::{Implementation, Kind, Recipe};
use vramfit_step::training::{AddedLoss, H200, Loop, Run, ZeroGrad, train_on};

use crate::Verdict;
use crate::arguments::{Estimate, GradientPlace, InputsAre, LossKind, ModeKind, Output};
use crate::commands::{print, print_json};
use crate::failure::Failure;

/// Simulates, and prints what comes of it.
pub fn run(options: &Estimate, output: &Output) -> Result<Verdict, Failure> {
    let model = load(&options.model)?;
    let flags = SizeFlags { batch: options.batch, sequence: options.seq, sizes: options.size.clone() };
    let sizes = Sizes::select(&model, &flags)
        .map_err(|error| Failure::new(format!("{}: {error}", options.model)).with_hint(error.hint()))?;
    let variant = VariantFlags {
        dtype: options.dtype.map(Into::into),
        amp: options.amp.map(Into::into),
        is_eval: options.mode == ModeKind::Eval,
        has_grad: options.grad,
    };
    let variant = select_variant(&model, variant)
        .map_err(|error| Failure::new(format!("{}: {error}", options.model)).with_hint(error.hint()))?;
    let bound = bind(&model, variant, &sizes).map_err(|error| Failure::new(format!("{}: {error}", options.model)))?;
    let settings = Settings::parse(options.alloc_conf.as_deref().unwrap_or(""))
        .map_err(|error| Failure::new(error.to_string()))?;
    let settings = Settings { cap: options.vram, ..settings };
    let training = training(options);
    let mut runs = address_orders()
        .into_iter()
        .map(|driver| simulate(&bound, &training, settings.clone(), driver))
        .collect::<Result<Vec<Run>, Failure>>()?;
    if !runs[0].guessed.is_empty() {
        for assumption in [Assumption::Least, Assumption::Most] {
            let plans = Plans { assumption, ..training.plans };
            let training = Loop { plans, ..training.clone() };
            runs.push(simulate(&bound, &training, settings.clone(), SimulatedDriver::unlimited())?);
        }
    }
    let question = Question { model: &options.model, bound: &bound, training: &training, vram: options.vram };
    let report = EstimateReport::new(&question, &runs);
    if output.json {
        print_json(&report)?;
    } else {
        print(&report.text())?;
    }
    Ok(if report.fits() { Verdict::Good } else { Verdict::Bad })
}

/// Orders in which CUDA may give out addresses, the usual one first. Which of two cached blocks of one size is taken
/// depends on it; where the answer does too, it is a range.
fn address_orders() -> [SimulatedDriver; 3] {
    let with_hole = |mebibytes: u64| {
        let mut driver = SimulatedDriver::unlimited();
        let begin = 1 << 45;
        driver.reveal(begin, begin + (mebibytes << 20));
        driver
    };
    [SimulatedDriver::unlimited(), with_hole(352), with_hole(1 << 20)]
}

fn simulate(bound: &Bound<'_>, training: &Loop, settings: Settings, driver: SimulatedDriver) -> Result<Run, Failure> {
    train_on(Memory::new(settings, driver), bound, training, H200)
        .map_err(|error| Failure::new(error.to_string()).with_hint(Some("vramfit shows no module of that name")))
}

/// The models that are compiled in.
const BUILT_IN: [(&str, &[u8]); 3] = [
    ("bert-base", include_bytes!("../../../../validation/captures/bert-base.vramfit")),
    ("gpt2", include_bytes!("../../../../validation/captures/gpt2.vramfit")),
    ("llama-1b", include_bytes!("../../../../validation/captures/llama-1b.vramfit")),
];

fn load(name: &str) -> Result<Model, Failure> {
    if Path::new(name).exists() {
        return read_file(name).map_err(|error| Failure::new(format!("{name}: {error}")).with_hint(error.hint()));
    }
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((_, bytes)) => read_bytes(bytes).map_err(|error| Failure::new(format!("{name}: {error}"))),
        None => Err(Failure::new(format!(
            "{name}: found neither a file nor a built-in model of that name, needed a capture or one of {}",
            names.join(", ")
        ))
        .with_hint(Some("make a capture in Python: vramfit.capture(model, inputs, \"model.vramfit\")"))),
    }
}

fn training(options: &Estimate) -> Loop {
    Loop {
        steps: options.steps,
        optimizer: Recipe::new(options.optimizer.0, options.optimizer_impl.0),
        clips_gradients: options.clip_grad,
        accumulate: options.accumulate,
        zero_grad: match options.zero_grad {
            GradientPlace::BeforeForward => ZeroGrad::BeforeForward,
            GradientPlace::BeforeBackward => ZeroGrad::BeforeBackward,
        },
        sets_to_none: options.set_to_none,
        has_fresh_inputs: options.inputs == InputsAre::Fresh,
        checkpoint: options.checkpoint.0.clone(),
        loss: match options.loss {
            LossKind::CrossEntropy => AddedLoss::CrossEntropy,
            LossKind::Mean => AddedLoss::Mean,
            LossKind::None => AddedLoss::None,
        },
        plans: Plans { are_benchmarked: options.cudnn_benchmark, ..Plans::default() },
    }
}

/// `--optimizer`.
#[derive(Clone, Copy, Debug)]
pub struct OptimizerName(pub Kind);

/// `--optimizer-impl`.
#[derive(Clone, Copy, Debug)]
pub struct ImplementationName(pub Implementation);

/// `--checkpoint`.
#[derive(Clone, Debug)]
pub struct CheckpointChoice(pub Choice);

/// Reads `--optimizer`.
pub fn parse_optimizer(text: &str) -> Result<OptimizerName, String> {
    let names = || Kind::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    Kind::named(text).map(OptimizerName).ok_or_else(|| format!("needed one of {}", names()))
}

/// Reads `--optimizer-impl`.
pub fn parse_implementation(text: &str) -> Result<ImplementationName, String> {
    let names = || Implementation::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    Implementation::named(text).map(ImplementationName).ok_or_else(|| format!("needed one of {}", names()))
}

/// Reads `--checkpoint`.
pub fn parse_checkpoint(text: &str) -> Result<CheckpointChoice, String> {
    let choice = match (text, text.strip_prefix("sequential:")) {
        ("none", _) => Choice::Nothing,
        ("blocks", _) => Choice::Blocks,
        (_, Some(number)) => match number.parse() {
            Ok(segments) if segments > 0 => Choice::Sequential(segments),
            _ => return Err(format!("found `{number}` segments, needed a whole number from 1 on")),
        },
        (names, None) => Choice::Modules(names.split(',').map(str::to_owned).collect()),
    };
    Ok(CheckpointChoice(choice))
}

impl From<crate::arguments::Precision> for Dtype {
    fn from(precision: crate::arguments::Precision) -> Dtype {
        match precision {
            crate::arguments::Precision::Fp32 => Dtype::Float32,
            crate::arguments::Precision::Bf16 => Dtype::Bfloat16,
            crate::arguments::Precision::Fp16 => Dtype::Float16,
            crate::arguments::Precision::Fp64 => Dtype::Float64,
        }
    }
}

impl From<crate::arguments::HalfPrecision> for Dtype {
    fn from(precision: crate::arguments::HalfPrecision) -> Dtype {
        match precision {
            crate::arguments::HalfPrecision::Bf16 => Dtype::Bfloat16,
            crate::arguments::HalfPrecision::Fp16 => Dtype::Float16,
        }
    }
}
