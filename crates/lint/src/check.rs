//! One document from text to findings.

use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::TextSize;

use crate::analysis::analyse;
use crate::rules::RULES;
use crate::suppress::{is_off, is_suppressed};
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
    if is_too_deep(&document.text) {
        return Checked {
            findings: Vec::new(),
            error: Some((TextSize::new(0), format!("brackets nested deeper than {DEPTH}"))),
        };
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
    // One place is told once by a rule, however many ways lead there.
    findings.sort_by_key(|finding| (finding.range.start(), finding.code));
    let mut told: Vec<(usize, &str)> = Vec::new();
    findings.retain(|finding: &Finding| {
        let key = (document.line_of(finding.range.start()), finding.code);
        let is_new = !told.contains(&key);
        told.push(key);
        is_new && !is_suppressed(document, finding.range, finding.code)
    });
    Checked { findings, error: None }
}

/// Brackets within each other: more than anyone writes, less than a stack holds.
const DEPTH: usize = 150;

/// Whether the text nests so deep that going through it could exhaust the stack. Brackets in strings count too: the
/// measure is coarse, and far above what programs need.
fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut deepest) = (0usize, 0usize);
    for letter in text.bytes() {
        match letter {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > DEPTH
}
