//! Made-up programs that have a fault, and near misses that have not.

mod cost;
mod fragmentation;
mod graph_kept;
mod leak;
mod oom;
mod properties;
mod recordings;
mod roles;
mod spike;
mod steps;
mod variants;

use vramfit_allocator::Settings;
use vramfit_trace::snapshot::{FrameId, Snapshot};

use crate::synthetic::{Program, Training};
use crate::{Explanation, Finding, explain};

const MIB: u64 = 1 << 20;

fn explained(snapshot: &Snapshot) -> Explanation {
    explain(snapshot, 0, &Settings::default(), None)
}

fn recorded(training: &Training) -> Snapshot {
    let mut program = Program::new();
    training.run(&mut program);
    program.snapshot()
}

fn found<'a>(explanation: &'a Explanation, kind: &str) -> Vec<&'a Finding> {
    explanation.findings.iter().filter(|finding| finding.details.kind() == kind).collect()
}

fn kinds(explanation: &Explanation) -> Vec<&'static str> {
    explanation.findings.iter().map(|finding| finding.details.kind()).collect()
}

fn place(snapshot: &Snapshot, frame: Option<FrameId>) -> Option<String> {
    let frame = snapshot.stacks.frame(frame?);
    Some(format!("{}:{} in {}", snapshot.strings.get(frame.file), frame.line, snapshot.strings.get(frame.function)))
}
