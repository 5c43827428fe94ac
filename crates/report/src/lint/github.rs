//! GitHub's workflow commands: findings become annotations of a pull request.

use vramfit_lint::Severity;
use vramfit_lint::files::FileReport;

use super::recorded;
use super::text::location;

/// A line for each finding, and for each file that could not be checked.
pub fn github(reports: &[FileReport]) -> String {
    let mut text = String::new();
    for report in reports {
        if let Some(reason) = &report.unreadable {
            let path = report.path.display().to_string();
            text += &format!(
                "::error title=not checked,file={}::{}\n",
                property(&path),
                data(&format!("{path}: {reason}"))
            );
        }
        let Some(document) = &report.document else { continue };
        if let Some((offset, reason)) = &report.checked.error {
            let (path, position) = (report.path.display().to_string(), document.position(*offset));
            text += &format!(
                "::error title=not checked,file={},line={},col={}::{}\n",
                property(&path),
                position.line,
                position.column,
                data(&format!("{path}: syntax error: {reason}"))
            );
        }
        for finding in &report.checked.findings {
            let (start, end) = (document.position(finding.range.start()), document.position(finding.range.end()));
            let level = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "notice",
            };
            let file = property(&report.path.display().to_string());
            let recorded = recorded::words(finding).map_or(String::new(), |words| format!(" (recorded: {words})"));
            // GitHub takes columns within one line only.
            let end_column = if start.line == end.line { format!(",endColumn={}", end.column) } else { String::new() };
            text += &format!(
                "::{level} title={},file={file},line={},endLine={},col={}{end_column}::{}\n",
                finding.code,
                start.line,
                end.line,
                start.column,
                data(&format!(
                    "{} {} {}{recorded}",
                    location(report, document, finding),
                    finding.code,
                    finding.message
                ))
            );
        }
    }
    text
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
