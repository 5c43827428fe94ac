//! VF017: anomaly detection left on.

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, ScopeKind};
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
            if !trains || is_guarded(facts, events, event) || facts.is_in_handler(event.scope) {
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

/// Whether an `if` around the call lets training run without it: one around the whole training, as `if args.train:`, is no flag for it.
fn is_guarded(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>) -> bool {
    let steps: Vec<&Event<'_>> = events.iter().filter(|other| matches!(other.kind, EventKind::Step { .. })).collect();
    facts.scopes_around(event.scope).filter(|scope| matches!(facts.scopes[*scope].kind, ScopeKind::Branch(..))).any(
        |branch| {
            let is_inside = |step: &&Event<'_>| facts.scopes_around(step.scope).any(|around| around == branch);
            steps.is_empty() || !steps.iter().all(is_inside)
        },
    )
}
