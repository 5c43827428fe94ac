//! VF017: anomaly detection left on.

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::EventKind;
use crate::finding::Finding;

pub(super) const RULE: Rule = Rule {
    code: "VF017",
    summary: "anomaly detection is left on",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF017.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for event in events.iter().filter(|event| matches!(event.kind, EventKind::DetectAnomaly)) {
            let trains = facts.function(event.scope).is_none()
                || events.iter().any(|other| matches!(other.kind, EventKind::Step { .. }))
                || facts.loops_around(event.scope).any(|number| facts.trains(events, number));
            // Switched on by a flag or by an attempt to find an error.
            if !trains || !facts.branches(event.scope, None).is_empty() || facts.is_in_handler(event.scope) {
                continue;
            }
            findings.push(
                Finding::new(RULE.code, event.range, "anomaly detection is on for every step")
                    .costs("each operation keeps a stack trace for as long as its graph lives, and each backward operation checks its gradients for NaN")
                    .advises("switch it on by a flag, or only around the step under suspicion"),
            );
        }
    }
}
