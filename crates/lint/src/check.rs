//! Checks one document.

use std::path::Path;

use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::{TextLen, TextSize};

use crate::analysis::facts::EventKind;
use crate::analysis::{FileFacts, analyse};
use crate::document::Document;
use crate::finding::{Finding, Severity};
use crate::nesting::too_deep;
use crate::project::Project;
use crate::recorded::block_around;
use crate::rules::RULES;
use crate::selection::Selection;
use crate::suppress::{Comments, is_off};

/// The rules that other files of the run may add findings to: those about where a value comes from.
const FOLLOWED: [&str; 5] = ["VF001", "VF002", "VF003", "VF010", "VF016"];

/// Without any of these nothing is trained, evaluated or loaded.
const TRAINING: [&str; 9] = [
    "backward(",
    ".step(",
    ".eval(",
    "no_grad",
    "inference_mode",
    "load_state_dict",
    "training_step",
    "validation_step",
    "test_step",
];

/// The result of checking a document.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The findings, in source order.
    pub findings: Vec<Finding>,
    /// Why the document could not be checked: the offset, and what is wrong.
    pub error: Option<(TextSize, String)>,
}

/// Checks a document by itself with the selected rules.
pub fn check(document: &Document, selection: &Selection) -> Checked {
    check_among(document, selection, None)
}

/// Checks a document with the selected rules: by itself, and again with what it imports from other files of the run. `around` are
/// these files and its own path.
pub fn check_among(document: &Document, selection: &Selection, around: Option<(&Project, &Path)>) -> Checked {
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
    let find = |facts: &FileFacts<'_>| {
        let mut found = Vec::new();
        for rule in RULES.iter().filter(|rule| selection.has(rule.code)) {
            (rule.check)(facts, &mut found);
        }
        found
    };
    let own_end = document.text.text_len();
    let facts = analyse(&module.body, &document.text, own_end);
    if !facts.index.has_torch {
        return Checked::default();
    }
    let mut findings = find(&facts);
    let linked = around.filter(|_| may_gain(&facts) && !document.is_notebook());
    let linked = linked.map_or(String::new(), |(project, path)| {
        project.linked(path, &module.body, &document.text, facts.unknown_methods.iter().copied())
    });
    let trains = |text: &str| TRAINING.into_iter().any(|word| text.contains(word));
    if !linked.trim().is_empty() && (trains(&linked) || trains(&document.text)) {
        // The document comes first, so its positions stay.
        let text = format!("{}\n{linked}", document.text);
        let parsed = parse_unchecked(&text, ParseOptions::from(mode));
        let module = parsed.syntax().as_module().filter(|_| parsed.errors().is_empty());
        if let Some(module) = module {
            let is_own = |finding: &Finding| {
                let edits = finding.fix.iter().flat_map(|fix| &fix.edits);
                let mut ranges = edits.map(|edit| edit.range).chain([finding.range]);
                ranges.all(|range| range.end() <= own_end) && FOLLOWED.contains(&finding.code)
            };
            // What other files say adds findings, and takes some away.
            findings.retain(|finding| !FOLLOWED.contains(&finding.code));
            findings.extend(find(&analyse(&module.body, &text, own_end)).into_iter().filter(is_own));
        }
    }
    if findings.is_empty() {
        return Checked::default();
    }
    let comments = Comments::new(document, parsed.tokens());
    // A rule reports a line once, however many calls lead there. Where a call keeps a graph, another that keeps the tensor alone
    // says nothing new.
    findings.sort_by_key(|finding| (finding.range.start(), finding.code, finding.open.len()));
    let mut reported: Vec<(usize, &str, bool)> = Vec::new();
    findings.retain(|finding: &Finding| {
        let (line, code, is_shown) = (document.line_of(finding.range.start()), finding.code, finding.is_shown());
        // A note yields to what is shown.
        let is_reported = |code: &str| {
            reported.iter().any(|(at, other, shown)| *at == line && *other == code && (*shown || !is_shown))
        };
        let keeps_graph = || ["VF001", "VF002"].into_iter().any(is_reported);
        let is_new = !(is_reported(code) || code == "VF016" && keeps_graph());
        reported.push((line, code, is_shown));
        is_new && !comments.suppress(document, finding.range, finding.code)
    });
    for finding in &mut findings {
        if !finding.is_shown() {
            finding.severity = Severity::Note;
        }
        finding.block = block_around(&module.body, finding.range);
    }
    Checked { findings, error: None }
}

/// Whether knowing more of other files could add a finding: something is kept, loaded or evaluated here.
fn may_gain(facts: &FileFacts<'_>) -> bool {
    facts.roots.iter().flatten().any(|event| {
        matches!(
            event.kind,
            EventKind::Keep { .. }
                | EventKind::Load { .. }
                | EventKind::Forward { .. }
                | EventKind::Mode { is_evaluation: true, .. }
        )
    })
}
