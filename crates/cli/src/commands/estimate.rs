//! `vramfit estimate`: what a training step will allocate, without running it.

pub mod conflicts;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use vramfit_allocator::Settings;
use vramfit_cudnn::Scenario;
use vramfit_eager::forward::Choice;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::dtype::Dtype;
use vramfit_report::estimate::{EstimateReport, Question, page};
use vramfit_training::answer::{BeyondAddresses, Device, Scenarios};
use vramfit_training::layers::layers;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{AddedLoss, Loop, ZeroGrad, visit};

use crate::Verdict;
use crate::arguments::{Estimate, GradientPlace, InputsAre, LossKind, Output, OutputsAre, RunSettings};
use crate::commands::{origin, print, print_json, write_page};
use crate::failure::Failure;
use crate::known_gpus::{KnownGpus, REFERENCE};

/// Simulates, and prints the answer.
pub fn run(given: &Estimate, output: &Output) -> Result<Verdict, Failure> {
    let options = &given.run;
    conflicts::refuse(options)?;
    let model = options.at.load()?;
    let bound = options.at.bind(&model)?;
    let alloc_conf = options.alloc_conf.as_deref().unwrap_or("");
    let settings = Settings::parse(alloc_conf)?;
    let known = KnownGpus::load()?;
    let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
    let device = Device { gpu, context: known.context(gpu)?, is_asked: options.gpu.is_some(), vram: options.vram };
    let training = training(options);
    let answer = Scenarios::record(&bound, &training, gpu.into())?
        .answer(&device, &device.settings(settings), true)
        .map_err(|error| beyond_addresses(options, &bound, error))?;
    let notes = conflicts::without_effect(options, &bound);
    let question = Question { model: &options.at.model, bound: &bound, training: &training, device, alloc_conf, notes };
    let report = EstimateReport::new(&question, &answer);
    if let Some(path) = &given.html {
        let visits = visit(&bound, &training, gpu.into())?;
        let origin = origin(&[&options.at.model, &path.to_string_lossy()]);
        write_page(path, &page(&report, &bound, &answer, &layers(&bound, &visits), &origin))?;
    }
    if output.json {
        print_json(&report)?;
    } else {
        print(&report.text())?;
    }
    let fits = answer.fit.is_none() || answer.fits_for_certain();
    Ok(if fits { Verdict::Good } else { Verdict::Bad })
}

/// A run that no GPU could hold, however large.
fn beyond_addresses(options: &RunSettings, bound: &Bound<'_>, error: BeyondAddresses) -> Failure {
    let model = &options.at.model;
    let failure = match bound.steps.get(error.failure.origin as usize) {
        Some(BoundStep::Call(call)) => Failure::at(format!("{model}: operator `{}`", bound.operator_name(call)), error),
        _ => Failure::at(model, error),
    };
    failure.with_hint(Some("choose smaller sizes with --batch, --seq or --size"))
}

/// The loop that the flags ask for.
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
