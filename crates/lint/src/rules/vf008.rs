//! VF008: the last step's outputs live through the next forward pass. A note: every plain loop has it.

use std::collections::HashSet;

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{EventKind, Gradients};
use crate::finding::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    code: "VF008",
    summary: "the last step's outputs live through the next forward pass",
    is_default: false,
    page: include_str!("../../../../docs/lint/VF008.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        let mut reported: HashSet<usize> = HashSet::new();
        for event in events {
            let EventKind::Forward { module, .. } = &event.kind else { continue };
            let Some(number) = facts.batch_loop(events, event.scope) else { continue };
            if facts.loops[number].statement.is_none() || event.gradients != Gradients::On {
                continue;
            }
            // In a function of its own the outputs are freed on return.
            if facts.function_scope(event.scope) != facts.function_scope(facts.loops[number].scope) {
                continue;
            }
            let is_assigned =
                facts.source[event.statement].split('=').next().is_some_and(|target| !target.contains('('));
            let deletes = events
                .iter()
                .any(|other| matches!(other.kind, EventKind::Delete { .. }) && facts.is_in(other.scope, number));
            if is_assigned && !deletes && reported.insert(number) {
                findings.push(
                    Finding::new(RULE.code, event.range, format!("what `{module}` returned is held until the next forward pass has replaced it"))
                        .costs("one step's outputs during the next forward pass; the peak, in the backward pass, was the same in three measured models")
                        .advises("`del` outputs and loss at the end of the loop, or put the step into a function")
                        .rated(Severity::Note),
                );
            }
        }
    }
}
