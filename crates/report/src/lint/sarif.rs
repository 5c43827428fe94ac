//! SARIF 2.1.0, which code hosts and editors read.

use serde_json::{Value, json};
use vramfit_lint::Severity;
use vramfit_lint::files::Report;
use vramfit_lint::rules::RULES;

/// One run with all rules and findings; files that could not be read are notifications.
pub fn sarif(reports: &[Report]) -> Value {
    let rules: Vec<Value> = RULES.iter().map(|rule| json!({"id": rule.code, "shortDescription": {"text": rule.summary}, "help": {"text": rule.page, "markdown": rule.page}})).collect();
    let (mut results, mut notifications) = (Vec::new(), Vec::new());
    for report in reports {
        let uri = report.path.display().to_string().replace('\\', "/");
        if let Some(reason) = report.unreadable.as_ref().or(report.checked.error.as_ref().map(|(_, reason)| reason)) {
            notifications.push(json!({"level": "error", "message": {"text": reason}, "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}]}));
        }
        let Some(document) = &report.document else { continue };
        for finding in &report.checked.findings {
            let (start, end) = (document.position(finding.range.start()), document.position(finding.range.end()));
            let level = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            results.push(json!({
                "ruleId": finding.code,
                "ruleIndex": RULES.iter().position(|rule| rule.code == finding.code),
                "level": level,
                "message": {"text": format!("{}. Costs: {}. {}", finding.message, finding.cost, finding.advice)},
                "locations": [{"physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": {"startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column}
                }}],
            }));
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
