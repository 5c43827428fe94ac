//! What the language server says: its abilities, diagnostics, and code actions.

use serde_json::{Value, json};
use vramfit_lint::files::FileReport;
use vramfit_lint::{Document, Finding, Severity};

/// What the server can do.
pub fn capabilities() -> Value {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            // Whole texts, on each change.
            "textDocumentSync": {"openClose": true, "change": 1},
            "codeActionProvider": {"codeActionKinds": ["quickfix"]},
        },
        "serverInfo": {"name": "vramfit lint", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// The notification with a file's diagnostics; without a report, that it has none.
pub fn diagnostics(report: Option<&FileReport>, address: &str, version: Option<i64>) -> Value {
    let list = report.map_or_else(Vec::new, |report| match &report.document {
        Some(document) => {
            let error = report.checked.error.iter().map(|(offset, reason)| {
                let at = position(document.editor_position(*offset));
                json!({
                    "range": {"start": at, "end": at},
                    "severity": 1,
                    "source": "vramfit",
                    "message": format!("not checked: {reason}"),
                })
            });
            error.chain(report.checked.findings.iter().map(|finding| diagnostic(document, finding))).collect()
        }
        None => Vec::new(),
    });
    let mut parameters = json!({"uri": address, "diagnostics": list});
    if let Some(version) = version {
        parameters["version"] = version.into();
    }
    json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": parameters})
}

fn diagnostic(document: &Document, finding: &Finding) -> Value {
    let severity = match finding.severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    };
    json!({
        "range": range(document, finding),
        "severity": severity,
        "code": finding.code,
        "source": "vramfit",
        "message": format!("{}\ncosts: {}\nwrite: {}", finding.message, finding.cost, finding.advice),
    })
}

/// The fixes of the findings that touch `wanted`.
pub fn actions(report: &FileReport, address: &str, wanted: &Value) -> Value {
    let Some(document) = &report.document else { return json!([]) };
    let line = |pointer: &str| wanted.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let (first, last) = (line("/start/line"), line("/end/line"));
    let touches = |finding: &&Finding| {
        let start = document.editor_position(finding.range.start()).0 as u64;
        let end = document.editor_position(finding.range.end()).0 as u64;
        start <= last && end >= first
    };
    let action = |finding: &Finding| {
        let fix = finding.fix.as_ref()?;
        let edits: Vec<Value> = fix
            .edits
            .iter()
            .map(|edit| {
                let (start, end) =
                    (document.editor_position(edit.range.start()), document.editor_position(edit.range.end()));
                json!({"range": {"start": position(start), "end": position(end)}, "newText": edit.text})
            })
            .collect();
        let note = if fix.is_safe { "" } else { " (may change what the program computes)" };
        Some(json!({
            "title": format!("{}: {}{note}", finding.code, fix.title),
            "kind": "quickfix",
            "isPreferred": fix.is_safe,
            "diagnostics": [diagnostic(document, finding)],
            "edit": {"changes": {address: edits}},
        }))
    };
    Value::Array(report.checked.findings.iter().filter(touches).filter_map(action).collect())
}

fn range(document: &Document, finding: &Finding) -> Value {
    let (start, end) = (document.editor_position(finding.range.start()), document.editor_position(finding.range.end()));
    json!({"start": position(start), "end": position(end)})
}

fn position((line, character): (usize, usize)) -> Value {
    json!({"line": line, "character": character})
}
