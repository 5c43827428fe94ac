//! VF002: a tensor other than a loss is kept across iterations with its graph.

use super::kept::{What, kept, shorten, takes_method};
use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::finding::{Edit, Finding, Severity};
use ruff_text_size::{Ranged, TextRange};

pub(super) const RULE: Rule = Rule {
    code: "VF002",
    summary: "a tensor with its graph is kept across iterations",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF002.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for kept in kept(facts).into_iter().filter(|kept| kept.what == What::Graph) {
        let message = format!(
            "`{}` is kept in `{}` with the graph that made it",
            shorten(facts.text(kept.expression)),
            kept.container
        );
        let finding = Finding::new(RULE.code, kept.statement, message).about(kept.subject).leaves_open(kept.open);
        let finding = if kept.is_freed {
            finding
                .costs("each iteration: the tensor itself on the GPU, and its graph's nodes in main memory")
                .rated(Severity::Warning)
        } else {
            finding.costs("each iteration: the tensor and all activations of the forward pass").rated(Severity::Error)
        };
        let mut finding = finding.advises("keep `.detach().cpu()`, or only what is needed of it");
        if takes_method(kept.expression) {
            let edit = Edit { range: TextRange::empty(kept.expression.end()), text: ".detach().cpu()".into() };
            finding = finding.fixed_by("add `.detach().cpu()`", false, vec![edit]);
        }
        findings.push(finding);
    }
}
