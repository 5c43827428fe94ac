//! Which installed cuDNN was asked for workspaces, and how that went.

use serde::Serialize;
use vramfit_training::answer::Device;

use crate::size::grouped;

/// The installed cuDNN that was asked for the workspaces of convolutions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CudnnReport {
    /// Its version, such as `9.19.0`; null where it could not be loaded.
    version: Option<String>,
    /// The file of the library.
    library: String,
    /// How many different convolutions it was asked about.
    asked: u32,
    /// How many of these it did not answer; their workspaces are guessed.
    unanswered: u32,
    /// Why it could not be asked; null where it could.
    failure: Option<String>,
}

impl CudnnReport {
    /// `None` where none was asked anything.
    pub fn of(device: &Device<'_>) -> Option<CudnnReport> {
        let report = device.cudnn?.report();
        (report.asked > 0).then(|| CudnnReport {
            version: report.version.map(|version| version.to_string()),
            library: report.library.display().to_string(),
            asked: report.asked,
            unanswered: report.unanswered,
            failure: report.failure,
        })
    }

    /// That it could not be asked, and why.
    fn failure_note(&self) -> Option<String> {
        let (failure, library) = (self.failure.as_ref()?, &self.library);
        Some(format!("the installed cuDNN did not answer: {failure}; {library}"))
    }

    /// What its answers are good for.
    fn answer_note(&self, gpu: &str) -> String {
        let version = self.version.as_deref().unwrap_or("of unknown version");
        let (asked, library) = (grouped(self.asked.into()), &self.library);
        if self.unanswered == self.asked {
            return format!(
                "cuDNN {version} has no plan for the {asked} convolutions that it was asked about on the {gpu}: {library}"
            );
        }
        let extent = match self.unanswered {
            0 if self.asked == 1 => "one convolution".to_owned(),
            0 => format!("{asked} convolutions"),
            unanswered => format!("{} of {asked} convolutions", grouped((self.asked - unanswered).into())),
        };
        format!(
            "the workspaces of {extent} on the {gpu} are those that cuDNN {version} chooses, asked without the GPU; \
             another version may choose others: {library}"
        )
    }
}

/// What to know about the cuDNN that was asked: how far it answered, or why not.
pub fn cudnn_notes(device: &Device<'_>) -> Vec<String> {
    let Some(report) = CudnnReport::of(device) else { return Vec::new() };
    let has_answered = report.failure.is_none() || report.unanswered < report.asked;
    let answered = has_answered.then(|| report.answer_note(&device.gpu.name));
    answered.into_iter().chain(report.failure_note()).collect()
}
