//! `loss.item()`: adding up a number, not a tensor that holds a graph.

use vramfit_eager::memory::Category;
use vramfit_training::{Phase, PhaseReport};

use super::{Finding, Trick};
use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Iterations of the epoch that is shown.
const ITERATIONS: u64 = 1000;
/// A scalar on the GPU: the least block there is.
const SCALAR: u64 = 512;

/// See the module.
pub struct LossItem;

impl Trick for LossItem {
    fn name(&self) -> &'static str {
        "loss.item()"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn written(&self) -> &'static str {
        "total += loss.item()  # not: total += loss, losses.append(loss)"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, _start: &Setup) -> Result<Vec<Setup>, String> {
        Err("the simulated loop adds nothing up; shown is what the mistake would cost".to_owned())
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, control: &Control) -> Vec<Finding> {
        let Some(run) = bench.run_free(start, control) else { return Vec::new() };
        let last = |phase: Phase| run.phases.iter().rev().find(|report| report.phase == phase);
        let outputs = |report: &PhaseReport| report.peak.account.requested[Category::Outputs as usize];
        let mut found = vec![Finding {
            what: format!("losses.append(loss): {SCALAR} B an iteration, for {ITERATIONS} of them"),
            bytes: Some((SCALAR * ITERATIONS) as i64),
        }];
        if let Some(backward) = last(Phase::Backward) {
            found.push(Finding {
                what: format!("history.append(outputs): what the model returns, for {ITERATIONS} iterations"),
                bytes: Some((outputs(backward) * ITERATIONS) as i64),
            });
        }
        if let Some(graph) = graph_bytes(bench, start, control) {
            found.push(Finding {
                what: "total = total + loss, with backward only at the end or retain_graph=True: the graph of each \
                       iteration stays; for one iteration"
                    .to_owned(),
                bytes: Some(graph as i64),
            });
            found.push(Finding {
                what: format!("the same for {ITERATIONS} iterations"),
                bytes: Some(graph.saturating_mul(ITERATIONS) as i64),
            });
        }
        found
    }
}

/// What a graph holds that no backward pass has freed: what a forward pass leaves behind where nothing of an earlier one goes
/// while it runs, neither gradients nor outputs, and the libraries have their workspaces already.
fn graph_bytes(bench: &Workbench<'_>, start: &Setup, control: &Control) -> Option<u64> {
    let mut setup = start.clone();
    setup.training.releases_outputs = true;
    setup.training.sets_to_none = false;
    let run = bench.run_free(&setup, control)?;
    let at = run.phases.iter().rposition(|report| report.phase == Phase::Forward)?;
    Some(run.phases[at].allocated.saturating_sub(run.phases[at.checked_sub(1)?].allocated))
}
