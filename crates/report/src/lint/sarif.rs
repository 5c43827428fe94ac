//! SARIF 2.1.0, for code hosts and editors.

use std::path::Path;

use serde_json::{Value, json};
use vramfit_lint::files::FileReport;
use vramfit_lint::rules::RULES;

use super::json::SeverityName;
use super::recorded::{self, RecordedReport};

/// One run with all rules and findings; files that could not be read are notifications.
pub fn sarif(reports: &[FileReport]) -> Value {
    let rules: Vec<Value> = RULES.iter().map(|rule| json!({"id": rule.code, "shortDescription": {"text": rule.summary}, "help": {"text": rule.page, "markdown": rule.page}})).collect();
    let (mut results, mut notifications) = (Vec::new(), Vec::new());
    for report in reports {
        let uri = uri(&report.path);
        if let Some(reason) = report.unreadable.as_ref().or(report.checked.error.as_ref().map(|(_, reason)| reason)) {
            notifications.push(json!({"level": "error", "message": {"text": reason}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}]}));
        }
        let Some(document) = &report.document else { continue };
        for finding in &report.checked.findings {
            let (start, end) = (document.position(finding.range.start()), document.position(finding.range.end()));
            let mut location = json!({"physicalLocation": {
                "artifactLocation": {"uri": uri},
                "region": {"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column}
            }});
            // In a notebook lines count within the cell.
            if let (Some(cell), Some(location)) = (start.cell, location.as_object_mut()) {
                location.insert("logicalLocations".into(), json!([{"name": format!("cell {cell}")}]));
            }
            let words = recorded::words(finding).map_or(String::new(), |words| format!(" Recorded: {words}."));
            let mut result = json!({
                "ruleId": finding.code,
                "ruleIndex": RULES.iter().position(|rule| rule.code == finding.code),
                "level": SeverityName::from(finding.severity),
                "message": {"text": format!("{}. Costs: {}.{words} {}", finding.message, finding.cost, finding.advice)},
                "locations": [location],
            });
            if let (Some(recorded), Some(result)) = (&finding.recorded, result.as_object_mut()) {
                result.insert("properties".into(), json!({"recorded": RecordedReport::from(recorded)}));
            }
            if !finding.is_shown()
                && let Some(result) = result.as_object_mut()
            {
                let open: Vec<&str> = finding.open.iter().map(|open| open.name()).collect();
                let properties = result.entry("properties").or_insert_with(|| json!({}));
                properties["notShown"] = json!(open);
            }
            results.push(result);
        }
    }
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "vramfit", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "invocations": [{"executionSuccessful": notifications.is_empty(), "toolExecutionNotifications": notifications}],
            "results": results,
        }],
    })
}

/// A path as a URI: relative paths stay relative references.
fn uri(path: &Path) -> String {
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "" });
    for byte in path.to_string_lossy().replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' | b'~' => uri.push(byte.into()),
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}
