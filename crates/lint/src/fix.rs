//! Applying fixes.

use crate::document::Document;
use crate::finding::{Edit, Finding};

/// The edits of all applicable fixes, sorted; of two fixes that overlap the first is kept.
fn edits(findings: &[Finding], with_unsafe: bool) -> Vec<Edit> {
    let mut all: Vec<Edit> = Vec::new();
    for fix in findings.iter().filter_map(|finding| finding.fix.as_ref()).filter(|fix| fix.is_safe || with_unsafe) {
        let overlaps = |edit: &Edit| {
            all.iter().any(|known| {
                known == edit
                    || edit
                        .range
                        .intersect(known.range)
                        .is_some_and(|common| !common.is_empty() || edit.range == known.range)
            })
        };
        if !fix.edits.iter().any(overlaps) {
            all.extend(fix.edits.iter().cloned());
        }
    }
    all.sort_by_key(|edit| (edit.range.start(), edit.range.end()));
    all
}

/// The file with its fixes applied; `None` if there is nothing to fix.
pub fn fixed(document: &Document, findings: &[Finding], with_unsafe: bool) -> Option<String> {
    let edits = edits(findings, with_unsafe);
    if edits.is_empty() {
        return None;
    }
    document.with_edits(&edits)
}
