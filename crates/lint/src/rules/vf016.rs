//! VF016: a growing list of GPU tensors.

use super::kept::{What, kept, shorten, takes_method};
use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::finding::{Edit, Finding};
use ruff_text_size::{Ranged, TextRange};

pub(super) const RULE: Rule = Rule {
    code: "VF016",
    summary: "a growing list of GPU tensors",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF016.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for kept in kept(facts).into_iter().filter(|kept| kept.what == What::Detached) {
        let message = format!(
            "`{}` grows by a GPU tensor each iteration: `{}`",
            kept.container,
            shorten(facts.text(kept.expression))
        );
        let mut finding = Finding::new(RULE.code, kept.statement, message)
            .about(kept.subject)
            .leaves_open(kept.open)
            .costs("each iteration: the tensor, 512 B on the GPU at least, until the list is freed")
            .advises("move it: `.cpu()`, or `.item()` for a number; or add it up in one tensor");
        if takes_method(kept.expression) {
            let edit = Edit { range: TextRange::empty(kept.expression.end()), text: ".cpu()".into() };
            finding = finding.fixed_by("add `.cpu()`", false, vec![edit]);
        }
        findings.push(finding);
    }
}
