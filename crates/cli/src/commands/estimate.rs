//! `vramfit estimate`: what a training step will allocate, without running it.

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_report::estimate::{Device, EstimateReport, Question};
use vramfit_step::checkpoint::Choice;
use vramfit_step::memory::Memory;
use vramfit_step::optimizer::{Implementation, Kind, Recipe};
use vramfit_step::training::{AddedLoss, Loop, Machine, Run, ZeroGrad, train_on};

use crate::Verdict;
use crate::arguments::{Estimate, GradientPlace, InputsAre, LossKind, Output};
use crate::built_in::load;
use crate::commands::{print, print_json};
use crate::failure::Failure;
use crate::known_gpus::{KnownGpus, REFERENCE};

/// Simulates, and prints what comes of it.
pub fn run(options: &Estimate, output: &Output) -> Result<Verdict, Failure> {
    let model = load(&options.at.model)?;
    let bound = options.at.bind(&model)?;
    let settings = Settings::parse(options.alloc_conf.as_deref().unwrap_or(""))
        .map_err(|error| Failure::new(error.to_string()))?;
    let known = KnownGpus::load()?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    let device = Device { gpu, context: known.context(gpu)?, is_asked: options.gpu.is_some(), vram: options.vram };
    let settings = Settings { cap: options.vram, ..settings };
    let settings = if device.is_asked { settings.on_device(gpu.capacity().high) } else { settings };
    let training = training(options);
    let simulate = |settings: &Settings| simulate_all(&bound, &training, settings, gpu.into());
    let mut runs = simulate(&settings)?;
    // What the GPU leaves beside the context is known once it is known which libraries are loaded; a cap that nothing
    // reaches changes nothing.
    if let Some(cap) = device.cap(runs[0].libraries)
        && settings.cap.is_none()
        && runs.iter().any(|run| run.peak_reserved > cap)
    {
        runs = simulate(&Settings { cap: Some(cap), ..settings })?;
    }
    let question = Question { model: &options.at.model, bound: &bound, training: &training, device };
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

fn simulate_all(
    bound: &Bound<'_>,
    training: &Loop,
    settings: &Settings,
    machine: Machine,
) -> Result<Vec<Run>, Failure> {
    let simulate = |(index, driver): (usize, SimulatedDriver)| {
        let mut memory = Memory::new(settings.clone(), driver);
        if index == 0 {
            memory.keep_journal();
        }
        train_on(memory, bound, training, machine)
            .map_err(|error| Failure::new(error.to_string()).with_hint(Some("vramfit shows no module of that name")))
    };
    address_orders().into_iter().enumerate().map(simulate).collect()
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
