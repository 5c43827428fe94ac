//! Findings as JSON.

use serde_json::{Value, json};
use vramfit_lint::Severity;
use vramfit_lint::files::FileReport;

use super::recorded;

/// A list of objects with `file`, `line`, `column`, `code`, `message` and more.
pub fn json(reports: &[FileReport]) -> Value {
    let mut list = Vec::new();
    for report in reports {
        let Some(document) = &report.document else { continue };
        for finding in &report.checked.findings {
            let (start, end) = (document.position(finding.range.start()), document.position(finding.range.end()));
            let mut entry = json!({
                "file": report.path.display().to_string(),
                "line": start.line,
                "column": start.column,
                "code": finding.code,
                "message": finding.message,
                "end_line": end.line,
                "end_column": end.column,
                "severity": severity(finding.severity),
                "cost": finding.cost,
                "advice": finding.advice,
                "fix": finding.fix.as_ref().map(|fix| json!({"title": fix.title, "safe": fix.is_safe})),
            });
            if let (Some(cell), Some(entry)) = (start.cell, entry.as_object_mut()) {
                entry.insert("cell".into(), cell.into());
            }
            if let (Some(recorded), Some(entry)) = (&finding.recorded, entry.as_object_mut()) {
                entry.insert("recorded".into(), recorded::json(recorded));
            }
            list.push(entry);
        }
    }
    Value::Array(list)
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
