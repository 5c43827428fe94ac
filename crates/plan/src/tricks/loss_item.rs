//! `loss.item()`: sum up numbers, not tensors that keep their graph.

use vramfit_eager::memory::Category;
use vramfit_training::{Phase, PhaseReport};

use super::role::Role;
use super::trick::{Finding, Trick};
use crate::control::Control;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Iterations in the example.
const ITERATIONS: u64 = 1000;
/// A scalar on the GPU takes the smallest block.
const SCALAR: u64 = 512;

pub(crate) struct LossItem;

impl Trick for LossItem {
    fn name(&self) -> &'static str {
        "loss.item()"
    }

    fn setting(&self) -> &'static str {
        "loss-item"
    }

    fn role(&self) -> Role {
        Role::Shown(Risk::None)
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "total += loss.item()  # not: total += loss, losses.append(loss)"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, _start: &Setup) -> Result<Vec<Setup>, String> {
        Err("the simulated loop sums up no losses; the findings are what the mistake would cost".to_owned())
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, control: &Control) -> Vec<Finding> {
        let Some(run) = bench.probe_run(start, control) else { return Vec::new() };
        let last = |phase: Phase| run.phases.iter().rev().find(|report| report.phase == phase);
        let outputs = |report: &PhaseReport| report.peak.account.requested[Category::Outputs as usize];
        let mut found = vec![Finding {
            what: format!("losses.append(loss): {SCALAR} B per iteration, for {ITERATIONS} iterations"),
            bytes: Some((SCALAR * ITERATIONS) as i64),
        }];
        if let Some(backward) = last(Phase::Backward) {
            found.push(Finding {
                what: format!("history.append(outputs): the model's outputs, for {ITERATIONS} iterations"),
                bytes: Some((outputs(backward) * ITERATIONS) as i64),
            });
        }
        if let Some(graph) = graph_bytes(bench, start, control) {
            found.push(Finding {
                what:
                    "total = total + loss, with backward only at the end or retain_graph=True: every iteration keeps \
                       its graph; for one iteration"
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

/// The bytes that a graph holds until its backward pass: what one forward pass adds if it frees nothing of an earlier
/// step, neither gradients nor outputs, and if library workspaces exist already.
fn graph_bytes(bench: &Workbench<'_>, start: &Setup, control: &Control) -> Option<u64> {
    let mut setup = start.clone();
    setup.training.releases_outputs = true;
    setup.training.sets_to_none = false;
    let run = bench.probe_run(&setup, control)?;
    let at = run.phases.iter().rposition(|report| report.phase == Phase::Forward)?;
    Some(run.phases[at].allocated.saturating_sub(run.phases[at.checked_sub(1)?].allocated))
}
