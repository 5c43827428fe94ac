//! What `vramfit run` shows: an estimate of the recorded script, and what explains its memory.

use serde::Serialize;
use vramfit_explain::Explanation;
use vramfit_trace::snapshot::Snapshot;

use crate::estimate::EstimateReport;
use crate::explain::{ExplainReport, FindingReport, findings};

/// The answer of `vramfit run --json`: that of `estimate`, and the findings of `explain`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunReport {
    #[serde(flatten)]
    estimate: EstimateReport,
    /// How many optimizer steps were recorded.
    steps: u32,
    /// What is wrong, or could be better.
    findings: Vec<FindingReport>,
}

impl RunReport {
    /// Of a script that took so many optimizer steps; `snapshot` is its simulated run.
    pub fn new(estimate: EstimateReport, steps: u32, snapshot: &Snapshot, explanation: &Explanation) -> RunReport {
        let findings = ExplainReport::new(snapshot, explanation).findings;
        RunReport { estimate, steps, findings }
    }

    /// Text for a terminal; with `has_details` also phases, holders and all notes.
    pub fn text(&self, snapshot: &Snapshot, explanation: &Explanation, has_details: bool) -> String {
        let mut text = self.estimate.text(has_details);
        if !explanation.findings.is_empty() {
            text += &findings(snapshot, explanation);
        }
        text
    }
}
