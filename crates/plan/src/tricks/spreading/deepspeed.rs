//! Where DeepSpeed's engine can take over, and its other settings.

use vramfit_eager::forward::LossHead;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Mode;
use vramfit_training::optimizer::{Kind, Library};
use vramfit_training::script::{DeepSpeed, Parallel, ZeroStage};

use crate::cluster::BUCKETS;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Whether DeepSpeed's engine can run a setup in a way, as far as that is simulated: weights of one type, optimizers that work element by
/// element, no autocast. In stage 3 a loss cannot multiply with a weight outside its module.
pub(super) fn can_run_engine(bench: &Workbench<'_>, setup: &Setup, way: &Parallel) -> bool {
    let kind = setup.training.optimizer.kind;
    let is_elementwise = kind.library() == Library::Torch
        && !matches!(kind, Kind::None | Kind::Muon | Kind::Adafactor | Kind::AdafactorHf);
    let is_partitioned = matches!(way, Parallel::DeepSpeed(settings) if settings.stage == ZeroStage::Three);
    let has_known_type = matches!(bench.trained_dtype(setup), Some(Dtype::Float32 | Dtype::Bfloat16 | Dtype::Float16));
    let is_training = bench.bind(setup).is_some_and(|bound| bound.variant.mode == Mode::Train);
    is_elementwise
        && has_known_type
        && is_training
        && setup.variant.amp.is_none()
        && setup.training.groups.is_none()
        && (!is_partitioned || setup.training.loss_head == LossHead::Captured)
}

/// Smaller buckets of an engine, and higher stages.
pub(super) fn other_engines(start: &Setup, given: &DeepSpeed) -> Result<Vec<Setup>, String> {
    let higher = [ZeroStage::Two, ZeroStage::Three].into_iter().filter(|stage| stage.number() > given.stage.number());
    let stages: Vec<ZeroStage> = [given.stage].into_iter().chain(higher).collect();
    let buckets = [given.bucket].into_iter().chain(BUCKETS.into_iter().filter(|bucket| *bucket < given.bucket));
    let ways = buckets.flat_map(|bucket| {
        let overlaps = |stage: ZeroStage| given.overlaps || (stage != given.stage && stage.overlaps_by_default());
        stages.iter().map(move |&stage| DeepSpeed { stage, bucket, overlaps: overlaps(stage), ..given.clone() })
    });
    let mut setups: Vec<Setup> = Vec::new();
    for way in ways.filter(|way| way != given) {
        let mut setup = start.clone();
        setup.training.parallel = Parallel::DeepSpeed(way);
        if !setups.contains(&setup) {
            setups.push(setup);
        }
    }
    if setups.is_empty() {
        Err(format!("stage {} has a small bucket already", given.stage.number()))
    } else {
        Ok(setups)
    }
}
