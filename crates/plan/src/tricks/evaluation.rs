//! Evaluation under `no_grad`: the largest batch that adds no peak to the training's.

use vramfit_graph::select::{VariantFlags, select_variant};
use vramfit_step::memory::Category;
use vramfit_step::training::{Phase, Run};

use super::{Finding, Trick};
use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct Evaluation;

/// The multiples of the training's batch that are tried.
const MULTIPLES: i64 = 64;

impl Trick for Evaluation {
    fn name(&self) -> &'static str {
        "evaluation"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn written(&self) -> &'static str {
        "model.eval(); with torch.inference_mode(): outputs = model(**inputs)"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, _start: &Setup) -> Result<Vec<Setup>, String> {
        Err("the training step has no evaluation in it; shown is the batch that adds nothing to its peak".to_owned())
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, control: &Control) -> Vec<Finding> {
        let evaluating = VariantFlags { is_eval: true, has_grad: false, ..start.variant };
        if select_variant(bench.model, evaluating).is_err() {
            return vec![Finding { what: "the capture has no evaluation mode".to_owned(), bytes: None }];
        }
        let (Some(batch), Some(training)) = (bench.batch_of(start), bench.run_free(start, control)) else {
            return Vec::new();
        };
        let peak = training.peak().map_or(0, |phase| phase.peak.allocated);
        let between = training.phases.last().map_or(0, |phase| phase.allocated);
        let adds = |multiple: i64| -> Option<u64> {
            let mut setup = bench.with_batch(start, batch * multiple)?;
            setup.variant = evaluating;
            bench.run_free(&setup, control).map(|run| beyond_weights(&run))
        };
        let mut best = None;
        for multiple in 1..=MULTIPLES {
            match adds(multiple) {
                Some(added) if between + added <= peak && !control.is_stopped() => best = Some((multiple, added)),
                _ => break,
            }
        }
        vec![match best {
            Some((multiple, added)) => Finding {
                what: format!(
                    "up to batch {} (in multiples of {batch}, all tried up to it), no_grad adds less than the training's \
                     own peak",
                    batch * multiple
                ),
                bytes: Some(added as i64),
            },
            None => Finding {
                what: format!("at batch {batch} evaluation needs more than the training's peak: take a smaller one"),
                bytes: None,
            },
        }]
    }
}

/// What evaluation holds at its peak beside the weights.
fn beyond_weights(run: &Run) -> u64 {
    let peak = run.phases.iter().filter(|phase| phase.phase != Phase::Build).map(|phase| phase.peak);
    let beyond = peak.map(|peak| peak.allocated - peak.account.requested[Category::Parameters as usize]);
    beyond.max().unwrap_or(0)
}
