//! VF001: a loss is kept with its graph.

use super::kept::{What, kept, shorten, takes_method};
use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::Keeping;
use crate::finding::{Edit, Finding, Severity};
use ruff_text_size::{Ranged, TextRange};

pub(super) const RULE: Rule = Rule {
    code: "VF001",
    summary: "a loss is kept with its graph",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF001.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for kept in kept(facts).into_iter().filter(|kept| kept.what == What::Loss) {
        let value = facts.text(kept.expression);
        let how = match kept.how {
            Keeping::Add => "added to",
            _ => "kept in",
        };
        let message = format!("loss `{}` is {how} `{}` with its graph", shorten(value), kept.container);
        let finding = Finding::new(RULE.code, kept.statement, message).about(kept.subject).leaves_open(kept.open);
        let finding = if kept.is_freed {
            finding
                .costs(match kept.how {
                    Keeping::Add => "each iteration: the graph's nodes in main memory (20 to 130 KB measured); backward() has freed its GPU memory",
                    _ => "each iteration: 512 B on the GPU and the graph's nodes in main memory (20 to 130 KB measured); backward() has freed the activations",
                })
                .rated(Severity::Warning)
        } else {
            finding
                .costs("each iteration: all activations of the forward pass, since no backward() frees them")
                .rated(Severity::Error)
        };
        let (method, is_safe, advice) = match kept.how {
            Keeping::Add => (".detach()", true, "add `.detach()`, or `.item()` for a number"),
            _ => (".item()", false, "keep the number: `.item()`"),
        };
        let mut finding = finding.advises(advice);
        if takes_method(kept.expression) {
            let edit = Edit { range: TextRange::empty(kept.expression.end()), text: method.into() };
            finding = finding.fixed_by(&format!("add `{method}`"), is_safe, vec![edit]);
        }
        findings.push(finding);
    }
}
