//! Evaluation under `no_grad`: the largest batch that adds no peak to the training's.

use vramfit_eager::memory::Category;
use vramfit_graph::select::{VariantFlags, select_variant};
use vramfit_training::{Phase, Run};

use super::{Finding, Trick};
use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct Evaluation;

/// The multiples of the training's batch that are tried, and the parts of it where it is too large itself.
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
        let adds_no_peak = |batch: i64| -> Option<u64> {
            let mut setup = bench.with_batch(start, batch)?;
            setup.variant = evaluating;
            setup.training.releases_outputs = true;
            let added = added(&bench.run_free(&setup, control)?);
            (between + added <= peak && !control.is_stopped()).then_some(added)
        };
        let found = (1..=MULTIPLES).map_while(|multiple| Some((multiple, adds_no_peak(batch * multiple)?))).last();
        let smaller = || (1..=MULTIPLES).map(|part| batch / (part + 1)).take_while(|&part| part > 0);
        let (what, bytes) = match found {
            Some((multiple, added)) => {
                let more = if multiple == MULTIPLES { "; larger ones were not tried" } else { "" };
                let what = format!(
                    "up to batch {} (in multiples of {batch}, all tried up to it{more}), no_grad adds less than the \
                     training's own peak",
                    batch * multiple
                );
                (what, Some(added))
            }
            None => match smaller().find_map(|part| Some((part, adds_no_peak(part)?))) {
                Some((part, added)) => {
                    let what = format!(
                        "at batch {batch} evaluation needs more than the training's peak; at batch {part} it adds nothing \
                         to it"
                    );
                    (what, Some(added))
                }
                None => (
                    format!("evaluation needs more than the training's peak, at batch {batch} and at smaller ones"),
                    None,
                ),
            },
        };
        vec![Finding { what, bytes: bytes.map(|bytes| bytes as i64) }]
    }
}

/// What evaluation adds at its peak to what a training process holds between steps: all but the weights and the libraries'
/// workspaces, which are there already. Those and the inputs are what is left when it has ended.
fn added(run: &Run) -> u64 {
    let end = run.phases.last().map_or(0, |phase| phase.allocated);
    let peaks = run.phases.iter().filter(|phase| phase.phase != Phase::Build).map(|phase| phase.peak);
    let added =
        peaks.map(|peak| (peak.allocated + peak.account.requested[Category::Inputs as usize]).saturating_sub(end));
    added.max().unwrap_or(0)
}
