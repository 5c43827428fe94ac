//! One document from text to findings.

use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::TextSize;

use crate::analysis::analyse;
use crate::nesting::too_deep;
use crate::rules::RULES;
use crate::suppress::{Comments, is_off};
use crate::{Document, Finding, Selection};

/// What came of a document.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// What was found, in the order of the source.
    pub findings: Vec<Finding>,
    /// Why nothing could be looked for: where, and what is wrong.
    pub error: Option<(TextSize, String)>,
}

/// Checks a document by the selected rules.
pub fn check(document: &Document, selection: &Selection) -> Checked {
    if u32::try_from(document.text.len()).is_err() {
        return Checked { findings: Vec::new(), error: Some((TextSize::new(0), "more than 4 GiB of text".into())) };
    }
    if let Some((offset, what)) = too_deep(&document.text) {
        let offset = TextSize::try_from(offset).unwrap_or_default();
        return Checked { findings: Vec::new(), error: Some((offset, what)) };
    }
    let mode = if document.is_notebook() { Mode::Ipython } else { Mode::Module };
    let parsed = parse_unchecked(&document.text, ParseOptions::from(mode));
    if let Some(error) = parsed.errors().first() {
        return Checked { findings: Vec::new(), error: Some((error.location.start(), error.error.to_string())) };
    }
    let Some(module) = parsed.syntax().as_module() else { return Checked::default() };
    if is_off(document) {
        return Checked::default();
    }
    let facts = analyse(&module.body, &document.text);
    let mut findings = Vec::new();
    if facts.index.has_torch {
        for rule in RULES.iter().filter(|rule| selection.has(rule.code)) {
            (rule.check)(&facts, &mut findings);
        }
    }
    if findings.is_empty() {
        return Checked::default();
    }
    let comments = Comments::new(document, parsed.tokens());
    // One place is told once by a rule, however many ways lead there.
    findings.sort_by_key(|finding| (finding.range.start(), finding.code));
    let mut told: Vec<(usize, &str)> = Vec::new();
    findings.retain(|finding: &Finding| {
        let key = (document.line_of(finding.range.start()), finding.code);
        let is_new = !told.contains(&key);
        told.push(key);
        is_new && !comments.switch_off(document, finding.range, finding.code)
    });
    Checked { findings, error: None }
}
