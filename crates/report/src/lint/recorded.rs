//! What a recording says about a finding, in words and as JSON.

use serde::Serialize;
use vramfit_lint::{Finding, Recorded, Subject};

use crate::size::human;

/// In words; `None` where the recording says nothing that the finding does not.
pub fn words(finding: &Finding) -> Option<String> {
    let recorded = finding.recorded?;
    if !recorded.has_run {
        return Some("nothing of this block ran in the recording".into());
    }
    let bytes = recorded.bytes?;
    if bytes == 0 {
        return Some("nothing is held without need in the recording".into());
    }
    let each = recorded.each.map(human);
    let held = match (&finding.subject, each) {
        (Subject::Kept { .. }, Some(each)) => format!("keeps {each} an iteration, {} at once", human(bytes)),
        (Subject::Pass, Some(each)) => {
            format!("each call leaves {each}, its outputs included; {} at once", human(bytes))
        }
        (Subject::Gradients, _) => format!("holds {} of gradients through the forward pass", human(bytes)),
        _ => format!("holds {}", human(bytes)),
    };
    let peak = human(recorded.peak);
    Some(match recorded.peak_reduction {
        None => held,
        Some(0) => format!("{held}; the peak of {peak} is elsewhere"),
        Some(less) => format!("{held}; the peak of {peak} would be {} lower", human(less)),
    })
}

/// What a recorded run says about a finding.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Recorded"))]
pub struct RecordedReport {
    /// Whether the finding's line, or the block around it, allocated memory.
    ran: bool,
    /// The most bytes that it holds at once without need; null if the recording cannot say.
    bytes: Option<u64>,
    /// Bytes that an iteration keeps, or that a call of a network leaves.
    each: Option<u64>,
    /// How much lower the peak of allocated memory would be; null where part of it is needed.
    peak_reduction: Option<u64>,
}

impl From<&Recorded> for RecordedReport {
    fn from(recorded: &Recorded) -> RecordedReport {
        let Recorded { has_run, bytes, each, peak_reduction, peak: _ } = *recorded;
        RecordedReport { ran: has_run, bytes, each, peak_reduction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn said(subject: Subject, recorded: Recorded) -> Option<String> {
        let mut finding = Finding::new("VF001", Default::default(), "").about(subject);
        finding.recorded = Some(recorded);
        words(&finding)
    }

    #[test]
    fn words_say_what_is_held_and_what_it_does_to_the_peak() {
        let run = Recorded { has_run: true, peak: 90 * MIB, ..Recorded::default() };
        let kept = || Subject::Kept { made: Vec::new(), body: Vec::new() };
        let some = Recorded { bytes: Some(6 * MIB), each: Some(MIB), peak_reduction: Some(4 * MIB), ..run };
        assert_eq!(
            said(kept(), some).as_deref(),
            Some("keeps 1.00 MiB an iteration, 6.00 MiB at once; the peak of 90.0 MiB would be 4.00 MiB lower")
        );
        let elsewhere = Recorded { peak_reduction: Some(0), each: None, ..some };
        assert_eq!(
            said(Subject::Gradients, elsewhere).as_deref(),
            Some("holds 6.00 MiB of gradients through the forward pass; the peak of 90.0 MiB is elsewhere")
        );
        let pass = Recorded { peak_reduction: None, ..some };
        assert_eq!(
            said(Subject::Pass, pass).as_deref(),
            Some("each call leaves 1.00 MiB, its outputs included; 6.00 MiB at once")
        );
        let nothing = Recorded { bytes: Some(0), ..some };
        assert_eq!(said(kept(), nothing).as_deref(), Some("nothing is held without need in the recording"));
        assert_eq!(said(kept(), Recorded::default()).as_deref(), Some("nothing of this block ran in the recording"));
        assert_eq!(said(Subject::Nothing, run), None);
    }
}
