//! Checks one document.

use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::TextSize;

use crate::analysis::analyse;
use crate::document::Document;
use crate::finding::Finding;
use crate::nesting::too_deep;
use crate::recorded::block_around;
use crate::rules::RULES;
use crate::selection::Selection;
use crate::suppress::{Comments, is_off};

/// The result of checking a document.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The findings, in source order.
    pub findings: Vec<Finding>,
    /// Why the document could not be checked: the offset, and what is wrong.
    pub error: Option<(TextSize, String)>,
}

/// Checks a document with the selected rules.
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
    // A rule reports a line once, however many calls lead there. Where a call keeps a graph, another that keeps the tensor alone
    // says nothing new.
    findings.sort_by_key(|finding| (finding.range.start(), finding.code));
    let mut reported: Vec<(usize, &str)> = Vec::new();
    findings.retain(|finding: &Finding| {
        let key = (document.line_of(finding.range.start()), finding.code);
        let keeps_graph = || ["VF001", "VF002"].iter().any(|graph| reported.contains(&(key.0, graph)));
        let is_new = !(reported.contains(&key) || key.1 == "VF016" && keeps_graph());
        reported.push(key);
        is_new && !comments.suppress(document, finding.range, finding.code)
    });
    for finding in &mut findings {
        finding.block = block_around(&module.body, finding.range);
    }
    Checked { findings, error: None }
}
