//! Findings as JSON.

use std::borrow::Cow;

use serde::Serialize;
use vramfit_lint::files::FileReport;
use vramfit_lint::{Document, Finding, Severity};

use super::recorded::RecordedReport;

/// The findings, in the order of files and lines. A file that could not be read or parsed has one entry with the code
/// `not-checked`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LintReport<'a>(Vec<FindingReport<'a>>);

/// A finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Finding"))]
struct FindingReport<'a> {
    /// The file, as it was named on the command line or found in a folder.
    file: String,
    /// The line, counted from 1.
    line: usize,
    /// The column, counted from 1.
    column: usize,
    /// The rule's code, such as `VF001`; `not-checked` for a file that could not be read or parsed.
    code: &'static str,
    /// What is wrong.
    message: Cow<'a, str>,
    /// The line of its end.
    end_line: usize,
    /// The column of its end.
    end_column: usize,
    /// How bad it is.
    severity: SeverityName,
    /// What it costs.
    cost: &'a str,
    /// What to do about it.
    advice: &'a str,
    /// How it can be fixed.
    fix: Option<FixReport<'a>>,
    /// The cell of a notebook, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    cell: Option<usize>,
    /// With `--notes`: what it claims and the source does not show; then it is a note, and no finding.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_shown: Vec<&'static str>,
    /// With `--with`: what the recording says, if it has lines of this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<RecordedReport>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Severity"))]
#[serde(rename_all = "lowercase")]
pub(super) enum SeverityName {
    /// Memory grows, or the training is wrong.
    Error,
    /// Memory or time is wasted.
    Warning,
    /// Something to know.
    Note,
}

/// A change of the source that fixes a finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Fix"))]
struct FixReport<'a> {
    /// What it does.
    title: &'a str,
    /// Whether it leaves what the program computes as it is.
    safe: bool,
}

impl<'a> LintReport<'a> {
    /// All findings of these files.
    pub fn new(reports: &'a [FileReport]) -> LintReport<'a> {
        let mut list = Vec::new();
        for report in reports {
            let file = report.path.display().to_string();
            list.extend(FindingReport::not_checked(file.clone(), report));
            let Some(document) = &report.document else { continue };
            list.extend(
                report.checked.findings.iter().map(|finding| FindingReport::new(file.clone(), document, finding)),
            );
        }
        LintReport(list)
    }
}

impl<'a> FindingReport<'a> {
    /// For a file that could not be read or parsed.
    fn not_checked(file: String, report: &'a FileReport) -> Option<FindingReport<'a>> {
        let unreadable = report.unreadable.as_ref().map(|reason| (None, Cow::Borrowed(reason.as_str())));
        let error = report.checked.error.as_ref();
        let unparsed = || error.map(|(offset, reason)| (Some(*offset), Cow::Owned(format!("syntax error: {reason}"))));
        let (offset, message) = unreadable.or_else(unparsed)?;
        let start = report.document.as_ref().zip(offset).map(|(document, offset)| document.position(offset));
        let (line, column) = start.as_ref().map_or((1, 1), |start| (start.line, start.column));
        Some(FindingReport {
            file,
            line,
            column,
            code: "not-checked",
            message,
            end_line: line,
            end_column: column,
            severity: SeverityName::Error,
            cost: "nothing in this file was checked",
            advice: "mend the file, or leave it out",
            fix: None,
            cell: start.and_then(|start| start.cell),
            not_shown: Vec::new(),
            recorded: None,
        })
    }

    fn new(file: String, document: &Document, finding: &'a Finding) -> FindingReport<'a> {
        let (start, end) = (document.position(finding.range.start()), document.position(finding.range.end()));
        FindingReport {
            file,
            line: start.line,
            column: start.column,
            code: finding.code,
            message: Cow::Borrowed(&finding.message),
            end_line: end.line,
            end_column: end.column,
            severity: finding.severity.into(),
            cost: &finding.cost,
            advice: &finding.advice,
            fix: finding.fix.as_ref().map(|fix| FixReport { title: &fix.title, safe: fix.is_safe }),
            cell: start.cell,
            not_shown: finding.open.iter().map(|open| open.name()).collect(),
            recorded: finding.recorded.as_ref().map(RecordedReport::from),
        }
    }
}

impl From<Severity> for SeverityName {
    fn from(severity: Severity) -> SeverityName {
        match severity {
            Severity::Error => SeverityName::Error,
            Severity::Warning => SeverityName::Warning,
            Severity::Note => SeverityName::Note,
        }
    }
}
