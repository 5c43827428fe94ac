//! What it does to a training to compute a step in micro-batches.

use vramfit_eager::samples::{LossOverBatch, Meeting, MeetingKind, loss_over_batch};

use crate::selective::batch_norms;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Why micro-batches may not add up to the batch that they are parts of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitCause {
    /// Batch norms compute statistics over a micro-batch.
    BatchNorm {
        /// How many calls there are.
        count: usize,
        /// The samples of a micro-batch.
        samples: i64,
    },
    /// Samples of a batch meet on the way to the loss, or may.
    Meeting(Meeting),
    /// The loss is a mean over labels, of which those that are ignored do not count.
    IgnoredLabels,
}

impl SplitCause {
    /// Whether micro-batches train differently, as far as is known.
    pub fn changes_training(&self) -> bool {
        match self {
            SplitCause::BatchNorm { .. } | SplitCause::Meeting(_) => true,
            SplitCause::IgnoredLabels => false,
        }
    }

    /// The cause in words.
    pub fn words(&self) -> String {
        match self {
            SplitCause::BatchNorm { count, samples } => {
                format!("{count} batch norms compute their statistics over {samples} samples instead of all")
            }
            SplitCause::Meeting(meeting) => {
                let at = meeting.source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
                let what = format!("{}{at} {}", meeting.operator, meeting.kind.words());
                match meeting.kind {
                    MeetingKind::NotFollowed => format!("{what}: it cannot be shown that micro-batches have no effect"),
                    _ => format!("{what}: micro-batches train on another loss"),
                }
            }
            SplitCause::IgnoredLabels => {
                "the loss is a mean over labels: if some are ignored (-100), micro-batches weigh the others differently"
                    .to_owned()
            }
        }
    }
}

/// What keeps micro-batches from adding up; the first that changes the training, if one does.
pub(crate) fn split_cause(bench: &Workbench<'_>, setup: &Setup) -> Option<SplitCause> {
    let bound = bench.bind(setup)?;
    let count = batch_norms(&bound);
    let meeting = match loss_over_batch(bound.model, bound.variant)? {
        LossOverBatch::Mixed(meeting) | LossOverBatch::NotShown(meeting) => Some(SplitCause::Meeting(meeting)),
        LossOverBatch::Mean { skips_labels: true } => Some(SplitCause::IgnoredLabels),
        LossOverBatch::Mean { .. } | LossOverBatch::Sum => None,
    };
    match (count, meeting) {
        (0, meeting) => meeting,
        (_, Some(meeting)) if meeting.changes_training() => Some(meeting),
        (count, _) => Some(SplitCause::BatchNorm { count, samples: bench.batch_of(setup)? }),
    }
}
