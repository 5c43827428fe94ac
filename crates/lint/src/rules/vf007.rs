//! VF007: a graph is retained, or recorded for second derivatives, and nothing uses it again.

use std::collections::HashSet;

use super::rule::Rule;
use crate::analysis::Facts;
use crate::analysis::facts::{Event, Kind, LoopId};
use crate::analysis::value::TraceRef;
use crate::finding::{Finding, Severity};
use ruff_text_size::Ranged;

pub(super) const RULE: Rule = Rule {
    code: "VF007",
    summary: "a graph is retained for no second backward pass",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF007.md"),
    check,
};

fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for (position, event) in events.iter().enumerate() {
            let (trace, retain, create) = match &event.kind {
                Kind::Backward { loss, retain, create, .. } => (loss.trace(), *retain, *create),
                Kind::Grad { inputs, retain, create } => (inputs.clone(), *retain, *create),
                _ => continue,
            };
            if !retain && !create {
                continue;
            }
            let Some(number) = facts.loops_around(event.scope).next() else { continue };
            if is_built_outside(facts, events, &trace, number)
                || is_used_again(facts, events, position, &trace, number, create)
            {
                continue;
            }
            let is_grad = matches!(event.kind, Kind::Grad { .. });
            if is_grad && create {
                continue;
            }
            let argument = if create { "create_graph=True" } else { "retain_graph=True" };
            findings.push(
                Finding::new(
                    RULE.code,
                    event.range,
                    format!("`{argument}` in a loop, and no second backward pass through this graph is to be seen"),
                )
                .costs("the activations of the step stay after backward(): they overlap with the next forward pass")
                .advises(
                    "leave it out; where a state is carried on (an RNN's hidden state), `.detach()` the state instead",
                )
                .rated(Severity::Warning),
            );
        }
    }
}

/// The graph was made before the loop, which goes through it again and again.
fn is_built_outside(facts: &Facts<'_>, events: &[Event<'_>], trace: &TraceRef, number: LoopId) -> bool {
    let Some(statement) = facts.loops[number].statement else { return false };
    let Some(trace) = trace else { return true };
    let range = statement.range();
    !trace.forwards.iter().any(|forward| {
        range.contains((*forward).into())
            || events.iter().any(|event| {
                matches!(event.kind, Kind::Forward { .. } | Kind::LossMade { .. })
                    && event.range.start().to_u32() == *forward
                    && facts.is_in(event.scope, number)
            })
    })
}

fn is_used_again(
    facts: &Facts<'_>,
    events: &[Event<'_>],
    position: usize,
    trace: &TraceRef,
    number: LoopId,
    create: bool,
) -> bool {
    let own = events[position].range;
    let scope = facts.loops[number].scope;
    let own_forwards: HashSet<u32> = trace.iter().flat_map(|trace| trace.forwards.iter().copied()).collect();
    events.iter().enumerate().any(|(other_position, other)| {
        let reached = match &other.kind {
            Kind::Backward { loss, .. } => loss.trace(),
            Kind::Grad { inputs, .. } => inputs.clone(),
            _ => return false,
        };
        if other.range == own || !facts.scopes_around(other.scope).any(|around| around == scope) {
            return false;
        }
        if create && other_position < position {
            return false;
        }
        reached.is_none_or(|reached| {
            reached.forwards.is_empty() || reached.forwards.iter().any(|forward| own_forwards.contains(forward))
        })
    })
}
