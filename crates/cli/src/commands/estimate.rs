//! `vramfit estimate`: what a training step will allocate, without running it.

pub mod conflicts;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use vramfit_allocator::Settings;
use vramfit_cudnn::Scenario;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::dtype::Dtype;
use vramfit_report::estimate::{EstimateReport, Question, page};
use vramfit_training::judgement::{Device, answer, programs};
use vramfit_training::layers::layers;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{AddedLoss, Failure as Shortage, Loop, ZeroGrad, visit};

use crate::Verdict;
use crate::arguments::{Estimate, GradientPlace, InputsAre, LossKind, Output, OutputsAre, RunSettings};
use crate::commands::{origin, print, print_json, write_page};
use crate::failure::Failure;
use crate::known_gpus::{KnownGpus, REFERENCE};

/// Simulates, and prints what comes of it.
pub fn run(given: &Estimate, output: &Output) -> Result<Verdict, Failure> {
    let options = &given.run;
    conflicts::refuse(options)?;
    let model = options.at.load()?;
    let bound = options.at.bind(&model)?;
    let settings = Settings::parse(options.alloc_conf.as_deref().unwrap_or(""))
        .map_err(|error| Failure::new(error.to_string()))?;
    let known = KnownGpus::load()?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    let device = Device { gpu, context: known.context(gpu)?, is_asked: options.gpu.is_some(), vram: options.vram };
    let training = training(options);
    let programs = programs(&bound, &training, gpu.into()).map_err(|error| Failure::new(error.to_string()))?;
    let settings = device.settings(settings);
    let runs = answer(&programs, &device, &settings, true);
    if settings.cap.is_none()
        && device.cap(runs[0].libraries).is_none()
        && let Some(shortage) = runs[0].failure
    {
        return Err(beyond_addresses(options, &bound, &shortage));
    }
    let notes = conflicts::without_effect(options, &bound);
    let alloc_conf = options.alloc_conf.as_deref().unwrap_or("");
    let question = Question { model: &options.at.model, bound: &bound, training: &training, device, alloc_conf, notes };
    let report = EstimateReport::new(&question, &runs);
    if let Some(path) = &given.html {
        let visits = visit(&bound, &training, gpu.into()).map_err(|error| Failure::new(error.to_string()))?;
        let origin = origin(&[&options.at.model, &path.to_string_lossy()]);
        write_page(path, &page(&report, &bound, &runs[0], &layers(&bound, &visits), &origin))?;
    }
    if output.json {
        print_json(&report)?;
    } else {
        print(&report.text())?;
    }
    Ok(if report.fits() { Verdict::Good } else { Verdict::Bad })
}

/// A run that no GPU could hold, however large.
fn beyond_addresses(options: &RunSettings, bound: &Bound<'_>, shortage: &Shortage) -> Failure {
    let operator = match bound.steps.get(shortage.place as usize) {
        Some(BoundStep::Call(call)) => format!("operator `{}`: ", bound.operator_name(call)),
        _ => String::new(),
    };
    Failure::new(format!(
        "{}: {operator}asks for {} bytes when {} are allocated: more than 64-bit addresses reach",
        options.at.model, shortage.error.requested, shortage.error.allocated
    ))
    .with_hint(Some("choose smaller sizes with --batch, --seq or --size"))
}

pub fn training(options: &RunSettings) -> Loop {
    Loop {
        steps: options.steps,
        optimizer: Recipe {
            // AdamW multiplies the weights themselves.
            adds_decay: options.weight_decay && options.optimizer.0 != Kind::AdamW,
            ..Recipe::new(options.optimizer.0, options.optimizer_impl.0)
        },
        clips_gradients: options.clip_grad,
        accumulate: options.accumulate,
        zero_grad: match options.zero_grad {
            GradientPlace::BeforeForward => ZeroGrad::BeforeForward,
            GradientPlace::BeforeBackward => ZeroGrad::BeforeBackward,
        },
        sets_to_none: options.set_to_none,
        has_fresh_inputs: options.inputs == InputsAre::Fresh,
        releases_outputs: options.outputs == OutputsAre::Released,
        checkpoint: options.checkpoint.0.clone(),
        loss: added_loss(options.loss),
        scenario: Scenario::Expected,
        is_cudnn_benchmarked: options.cudnn_benchmark,
    }
}

/// `--loss`.
pub fn added_loss(kind: Option<LossKind>) -> AddedLoss {
    match kind {
        Some(LossKind::CrossEntropy) | None => AddedLoss::CrossEntropy,
        Some(LossKind::Mean) => AddedLoss::Mean,
        Some(LossKind::None) => AddedLoss::None,
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
pub fn optimizers() -> impl TypedValueParser<Value = OptimizerName> {
    PossibleValuesParser::new(Kind::NAMES.map(|(name, _)| name))
        .try_map(|name| Kind::named(&name).map(OptimizerName).ok_or("no such optimizer"))
}

/// Reads `--optimizer-impl`.
pub fn implementations() -> impl TypedValueParser<Value = ImplementationName> {
    PossibleValuesParser::new(Implementation::NAMES.map(|(name, _)| name))
        .try_map(|name| Implementation::named(&name).map(ImplementationName).ok_or("no such implementation"))
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
        (names, None) => Choice::modules(names.split(',').map(str::to_owned).collect()),
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
