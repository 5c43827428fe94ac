//! What `vramfit estimate` answers: the memory of a training run.

pub mod conflicts;
pub mod ranks;

use std::sync::Arc;

use vramfit_allocator::Settings;
use vramfit_cudnn::Scenario;
use vramfit_eager::forward::LossHead;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::Model;
use vramfit_report::estimate::{EstimateReport, Question};
use vramfit_training::answer::{Answer, BeyondAddresses, Device, Scenarios};
use vramfit_training::optimizer::{Groups, Recipe};
use vramfit_training::{AddedLoss, Loop, StatePlace, ZeroGrad};

use crate::arguments::{
    FusedLoss, InputLocation, LossKind, OutputLifetime, RunSettings, StateLocation, ZeroGradPosition,
};
use crate::cudnn::Cudnn;
use crate::known_gpus::{KnownGpus, REFERENCE};
use vramfit_report::failure::Failure;

/// A simulated training run and the report on it.
pub struct Estimated<'a> {
    /// The model at the sizes of the flags.
    pub bound: Bound<'a>,
    /// The training loop.
    pub training: Loop,
    /// The GPU.
    pub device: Device<'a>,
    /// The answer.
    pub answer: Answer,
    /// What is shown of it.
    pub report: EstimateReport,
}

impl<'a> Estimated<'a> {
    /// Simulates the loaded model as the flags say.
    pub fn new(
        options: &RunSettings,
        model: &'a Model,
        known: &'a KnownGpus,
        cudnn: &dyn Cudnn,
        plan_command: String,
    ) -> Result<Estimated<'a>, Failure> {
        Estimated::of(options, model, known, cudnn, plan_command, false)
    }

    /// The same, if it is a draft, without the steps after those that are reported and without unlikely orders of addresses: that is most
    /// of the time.
    pub fn of(
        options: &RunSettings,
        model: &'a Model,
        known: &'a KnownGpus,
        cudnn: &dyn Cudnn,
        plan_command: String,
        is_draft: bool,
    ) -> Result<Estimated<'a>, Failure> {
        let bound = options.bind(model)?;
        let alloc_conf = options.alloc_conf.as_deref().unwrap_or("");
        let settings = Settings::parse(alloc_conf)?;
        let gpu = known.find(options.gpu.as_deref().unwrap_or(REFERENCE))?;
        conflicts::refuse_gpu(options, model, gpu)?;
        let device = Device { gpu, is_asked: options.gpu.is_some(), vram: options.vram, cudnn: cudnn.answers_for(gpu) };
        let mut training = training(options, model)?;
        conflicts::refuse_whole_batch(options)?;
        training.goes_on &= !is_draft;
        let scenarios = Scenarios::record(&bound, &training, device.machine())?;
        let scenarios = if is_draft { scenarios.under_likely_orders() } else { scenarios };
        let answer = scenarios
            .answer(&device, &device.settings(settings), true)
            .map_err(|error| beyond_addresses(options, &bound, error))?;
        let mut notes = conflicts::without_effect(options, &bound);
        notes.extend(known.understood(options.gpu.as_deref(), options.vram));
        notes.extend(cudnn.not_asked_about(gpu));
        let name = &options.at.model;
        let question =
            Question { model: name, bound: &bound, training: &training, device, alloc_conf, notes, plan_command };
        let report = EstimateReport::new(&question, &answer);
        Ok(Estimated { bound, training, device, answer, report })
    }
}

/// The failure for a run beyond any GPU's address space.
fn beyond_addresses(options: &RunSettings, bound: &Bound<'_>, error: BeyondAddresses) -> Failure {
    let model = &options.at.model;
    let failure = match bound.steps.get(error.failure.origin as usize) {
        Some(BoundStep::Call(call)) => Failure::at(format!("{model}: operator `{}`", bound.operator_name(call)), error),
        _ => Failure::at(model, error),
    };
    failure.with_hint(Some("choose smaller sizes with --batch, --seq or --size"))
}

/// The training loop that the flags describe.
pub fn training(options: &RunSettings, model: &Model) -> Result<Loop, Failure> {
    let groups = options.optimizer_groups.as_deref().map(|written| {
        Groups::read(written, &model.weight_names()).map_err(|error| Failure::at("--optimizer-groups", error))
    });
    ranks::refuse_model(options, model)?;
    Ok(Loop {
        parallel: ranks::parallel(options)?,
        steps: options.steps,
        // Fewer steps are those of a run that ends.
        goes_on: options.steps >= Loop::default().steps,
        optimizer: Recipe {
            adds_decay: options.weight_decay && options.optimizer.0.adds_decay_to_gradients(),
            ..Recipe::new(options.optimizer.0, options.optimizer_impl.0)
        },
        groups: groups.transpose()?,
        optimizer_state: match options.optimizer_state {
            StateLocation::Gpu => StatePlace::Gpu,
            StateLocation::Cpu => StatePlace::Cpu,
        },
        steps_in_backward: options.step_in_backward,
        clips_gradients: options.clip_grad,
        accumulate: options.accumulate,
        skipped_micro_batches: 0,
        adds_losses: false,
        zero_grad: match options.zero_grad {
            ZeroGradPosition::BeforeForward => ZeroGrad::BeforeForward,
            ZeroGradPosition::BeforeBackward => ZeroGrad::BeforeBackward,
        },
        sets_to_none: options.set_to_none,
        has_fresh_inputs: options.inputs == InputLocation::Fresh,
        holds_whole_batch: options.inputs == InputLocation::Whole,
        releases_outputs: options.outputs == OutputLifetime::Released,
        checkpoint: options.checkpoint.0.clone(),
        kept_results: options.checkpoint_save.0,
        offload: options.offload_activations.memory(),
        loss_head: match (options.chunked_loss, options.fused_linear_loss) {
            (Some(chunks), _) => LossHead::Chunked(chunks),
            (None, Some(FusedLoss::Liger)) => LossHead::Liger,
            (None, None) => LossHead::Captured,
        },
        frozen: Arc::new(options.freeze.clone()),
        averages_weights: options.ema,
        loss: added_loss(options.loss),
        scenario: Scenario::Expected,
        is_cudnn_benchmarked: options.cudnn_benchmark,
        has_channels_last: options.channels_last,
    })
}

/// The loss that `--loss` adds.
pub fn added_loss(kind: Option<LossKind>) -> AddedLoss {
    match kind {
        Some(LossKind::CrossEntropy) | None => AddedLoss::CrossEntropy,
        Some(LossKind::Mean) => AddedLoss::Mean,
        Some(LossKind::None) => AddedLoss::None,
    }
}
