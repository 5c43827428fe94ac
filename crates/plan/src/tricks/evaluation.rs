//! Evaluation under `no_grad`: the largest batch that does not raise the training's peak.

use vramfit_eager::memory::Category;
use vramfit_graph::select::{VariantFlags, select_variant};
use vramfit_training::{Phase, Run};

use super::role::Role;
use super::trick::{Finding, Trick};
use crate::control::Control;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct Evaluation;

/// The number of multiples of the training's batch that are tried, and of fractions if that batch is too large.
const MULTIPLES: i64 = 64;

impl Trick for Evaluation {
    fn name(&self) -> &'static str {
        "evaluation"
    }

    fn setting(&self) -> &'static str {
        "evaluation"
    }

    fn role(&self) -> Role {
        Role::Shown(Risk::None)
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "model.eval(); with torch.inference_mode(): outputs = model(**inputs)"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, _start: &Setup) -> Result<Vec<Setup>, String> {
        Err("the training step has no evaluation; the finding is the largest batch that does not raise its peak"
            .to_owned())
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, control: &Control) -> Vec<Finding> {
        let evaluating = VariantFlags { is_eval: true, has_grad: false, ..start.variant };
        if select_variant(bench.model, evaluating).is_err() {
            return vec![Finding { what: "the capture has no evaluation mode".to_owned(), bytes: None }];
        }
        let (Some(batch), Some(training)) = (bench.batch_of(start), bench.probe_run(start, control)) else {
            return Vec::new();
        };
        let peak = training.peak().map_or(0, |phase| phase.peak.allocated);
        let between_steps = training.phases.last().map_or(0, |phase| phase.allocated);
        let added_below_peak = |batch: i64| -> Option<u64> {
            let mut setup = bench.with_batch(start, batch)?;
            setup.variant = evaluating;
            setup.training.releases_outputs = true;
            let added = added(&bench.probe_run(&setup, control)?);
            (between_steps + added <= peak && !control.is_stopped()).then_some(added)
        };
        let found = (1..=MULTIPLES).map_while(|multiple| Some((multiple, added_below_peak(batch * multiple)?))).last();
        let smaller = || (1..=MULTIPLES).map(|part| batch / (part + 1)).take_while(|&part| part > 0);
        let (what, bytes) = match found {
            Some((multiple, added)) => {
                let more = if multiple == MULTIPLES { "; larger ones were not tried" } else { "" };
                let what = format!(
                    "up to batch {} (every multiple of {batch} up to it was tried{more}), evaluation under no_grad \
                     stays below the training's peak",
                    batch * multiple
                );
                (what, Some(added))
            }
            None => match smaller().find_map(|part| Some((part, added_below_peak(part)?))) {
                Some((part, added)) => {
                    let what = format!(
                        "at batch {batch} evaluation needs more than the training's peak; at batch {part} it stays \
                         below it"
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

/// The peak of evaluation above what a training process holds between steps. Weights and library workspaces are allocated
/// already: with the inputs, they are what remains at the end of the run.
fn added(run: &Run) -> u64 {
    let end = run.phases.last().map_or(0, |phase| phase.allocated);
    let peaks = run.phases.iter().filter(|phase| phase.phase != Phase::Build).map(|phase| phase.peak);
    let added =
        peaks.map(|peak| (peak.allocated + peak.account.requested[Category::Inputs as usize]).saturating_sub(end));
    added.max().unwrap_or(0)
}
