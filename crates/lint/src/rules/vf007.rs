//! VF007: a graph is retained, or recorded for second derivatives, and nothing uses it again.

use std::collections::HashSet;

use super::rule::Rule;
use super::unit_test::is_unit_test;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, LoopId, Repeats};
use crate::analysis::value::ProvenanceRef;
use crate::evidence::{self, Open};
use crate::finding::{Finding, Severity};
use ruff_text_size::{Ranged, TextRange};

pub(super) const RULE: Rule = Rule {
    code: "VF007",
    summary: "a graph is retained for no second backward pass",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF007.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for (position, event) in events.iter().enumerate() {
            let (provenance, retain, create) = match &event.kind {
                EventKind::Backward { loss, retain, create, .. } => (loss.provenance(), *retain, *create),
                EventKind::Grad { inputs, retain, create } => (inputs.clone(), *retain, *create),
                _ => continue,
            };
            if !retain && !create || is_unit_test(facts, event.scope) {
                continue;
            }
            let Some(number) = facts.loops_around(event.scope).next() else { continue };
            if facts.loops[number].repeats == Repeats::Forward {
                continue;
            }
            let is_grad = matches!(event.kind, EventKind::Grad { .. });
            if is_grad && create && is_differentiated(events, event) {
                continue;
            }
            // What leaves may be differentiated elsewhere: gradients with a graph, or what they were computed from.
            let is_escaped = |at: &u32| facts.escaped.contains(at);
            let leaves = provenance.as_ref().is_some_and(|inputs| inputs.forwards.iter().any(is_escaped));
            if is_grad && (leaves || create && is_escaped(&event.range.start().to_u32())) {
                continue;
            }
            if is_built_outside(facts, events, &provenance, number)
                || is_used_again(facts, events, position, &provenance, number, create)
            {
                continue;
            }
            let argument = if create { "create_graph=True" } else { "retain_graph=True" };
            findings.push(
                Finding::new(
                    RULE.code,
                    event.range,
                    format!("`{argument}` in a loop without a second backward pass through this graph"),
                )
                .leaves_open(evidence::open([(Open::Use, evidence::trains_here(facts, events, event.scope))]))
                .costs("the activations of the step stay after backward(): they overlap with the next forward pass")
                .advises(
                    "leave it out; where a state is carried on (an RNN's hidden state), `.detach()` the state instead",
                )
                .rated(Severity::Warning),
            );
        }
    }
}

/// Whether a later backward pass goes through gradients that `torch.autograd.grad` returned.
fn is_differentiated(events: &[Event<'_>], grad: &Event<'_>) -> bool {
    let own = grad.range.start().to_u32();
    events.iter().any(|other| {
        let reached = match &other.kind {
            EventKind::Backward { loss, .. } => loss.provenance(),
            EventKind::Grad { inputs, .. } => inputs.clone(),
            _ => None,
        };
        reached.is_some_and(|reached| reached.forwards.contains(&own))
    })
}

/// The graph was built before the loop, which runs backward through it repeatedly.
fn is_built_outside(facts: &FileFacts<'_>, events: &[Event<'_>], provenance: &ProvenanceRef, number: LoopId) -> bool {
    let Some(statement) = facts.loops[number].statement else { return false };
    let Some(provenance) = provenance else { return true };
    let range = statement.range();
    !provenance.forwards.iter().any(|forward| {
        range.contains((*forward).into())
            || events.iter().any(|event| {
                matches!(event.kind, EventKind::Forward { .. } | EventKind::LossMade { .. })
                    && event.range.start().to_u32() == *forward
                    && facts.is_in(event.scope, number)
            })
    })
}

fn is_used_again(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    position: usize,
    provenance: &ProvenanceRef,
    number: LoopId,
    create: bool,
) -> bool {
    let own = events[position].range;
    let scope = facts.loops[number].scope;
    let own_forwards: HashSet<u32> =
        provenance.iter().flat_map(|provenance| provenance.forwards.iter().copied()).collect();
    events.iter().enumerate().any(|(other_position, other)| {
        let reached = match &other.kind {
            EventKind::Backward { loss, .. } => loss.provenance(),
            EventKind::Grad { inputs, .. } => inputs.clone(),
            _ => return false,
        };
        if other.range == own || !facts.scopes_around(other.scope).any(|around| around == scope) {
            return false;
        }
        if create && other_position < position {
            return false;
        }
        // Gradients with a graph are read from the parameters.
        if create && own.end() < other.range.start() {
            let between = TextRange::new(own.end(), other.range.start());
            if facts.source[between].contains(".grad") {
                return true;
            }
        }
        // An earlier pass goes through what this iteration has computed before it.
        let is_fresh = |forward: &u32| {
            other_position < position
                && events[..other_position].iter().any(|made| {
                    matches!(made.kind, EventKind::Forward { .. } | EventKind::LossMade { .. })
                        && made.range.start().to_u32() == *forward
                        && facts.is_in(made.scope, number)
                })
        };
        reached.is_none_or(|reached| {
            reached.forwards.is_empty()
                || reached.forwards.iter().any(|forward| own_forwards.contains(forward) && !is_fresh(forward))
        })
    })
}
