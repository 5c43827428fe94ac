//! What `vramfit run` shows: an estimate of the recorded script, and what explains its memory.

use serde::Serialize;
use vramfit_explain::Explanation;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::RecordedScript;
use vramfit_trace::snapshot::Snapshot;
use vramfit_training::answer::Answer;
use vramfit_training::layers::Layer;

use crate::estimate::{EstimateReport, Question, page};
use crate::explain::{ExplainReport, FindingReport, findings};
use crate::page::Origin;
use crate::settings::{AnswerSettings, or_none, vram, yes_or_no};

/// The answer of `vramfit run --json`: that of `estimate`, and the findings of `explain`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunReport {
    #[serde(flatten)]
    estimate: EstimateReport<RunSettings>,
    /// How many optimizer steps were recorded.
    steps: u32,
    /// What is wrong, or could be better.
    findings: Vec<FindingReport>,
}

/// What was chosen for a script: by the flags of `vramfit run`, or by the script for all of PyTorch. Everything else, such as the optimizer, is
/// the script's own and may change as it runs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunSettings {
    /// `torch.backends.cudnn.benchmark`, if the script ever set it.
    cudnn_benchmark: bool,
    /// How many optimizer steps were recorded.
    steps: u32,
    /// The GPU that is simulated.
    gpu: String,
    /// `--vram`: bytes that PyTorch may reserve.
    vram: Option<u64>,
    /// `PYTORCH_CUDA_ALLOC_CONF`, empty for the defaults.
    alloc_conf: String,
}

impl AnswerSettings for RunSettings {
    const COMMAND: &'static str = "run";

    fn rows(&self) -> Vec<(String, String)> {
        let rows = [
            ("cudnn benchmark", yes_or_no(self.cudnn_benchmark)),
            ("steps", self.steps.to_string()),
            ("gpu", self.gpu.clone()),
            ("vram", vram(self.vram)),
            ("alloc conf", or_none(&self.alloc_conf)),
        ];
        rows.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

impl RunReport {
    /// Of a recorded script; `snapshot` is its simulated run.
    pub fn new(
        question: &Question<'_>,
        script: &RecordedScript,
        answer: &Answer,
        snapshot: &Snapshot,
        explanation: &Explanation,
    ) -> RunReport {
        let settings = RunSettings {
            cudnn_benchmark: script.is_cudnn_benchmarked,
            steps: script.steps,
            gpu: question.device.gpu.name.clone(),
            vram: question.device.vram,
            alloc_conf: question.alloc_conf.to_owned(),
        };
        let summary = format!("{} optimizer steps recorded", script.steps);
        RunReport {
            estimate: EstimateReport::with_settings(question, answer, settings, summary),
            steps: script.steps,
            findings: ExplainReport::new(snapshot, explanation).findings,
        }
    }

    /// Text for a terminal; with `has_details` also phases, holders and all notes.
    pub fn text(&self, snapshot: &Snapshot, explanation: &Explanation, has_details: bool) -> String {
        let mut text = self.estimate.text(has_details);
        if !explanation.findings.is_empty() {
            text += &findings(snapshot, explanation);
        }
        text
    }

    /// The page on `answer`, whose expected run kept its journal.
    pub fn page(&self, bound: &Bound<'_>, answer: &Answer, layers: &[Layer], origin: &Origin) -> String {
        page(&self.estimate, bound, answer, layers, origin)
    }
}
