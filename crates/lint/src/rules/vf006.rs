//! VF006: `zero_grad` after the forward pass.

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Gradients, ScopeId};
use crate::analysis::walk::walk_statements;
use crate::finding::Finding;
use crate::recorded::Subject;
use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};

pub(super) const RULE: Rule = Rule {
    code: "VF006",
    summary: "zero_grad after the forward pass",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF006.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for (position, event) in events.iter().enumerate() {
            if let EventKind::ZeroGrad { owner, .. } = &event.kind
                && is_late(facts, events, position, owner)
            {
                findings.push(
                    Finding::new(RULE.code, event.range, format!("`{owner}.zero_grad()` after the forward pass: the last step's gradients are held through it"))
                        .about(Subject::Gradients)
                        .costs("as much as the parameters, at the moment activations are at their peak")
                        .advises("call it at the top of the loop, or right after `step()`"),
                );
            }
        }
    }
}

/// The scope of one step: the innermost loop with a backward pass, or else the function.
fn step_scope(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>) -> Option<ScopeId> {
    let in_loop = facts.loops_around(event.scope).find(|number| {
        events.iter().any(|other| matches!(other.kind, EventKind::Backward { .. }) && facts.is_in(other.scope, *number))
    });
    match in_loop {
        Some(number) => Some(facts.loops[number].scope),
        None => facts.function(event.scope).map(|_| facts.function_scope(event.scope)),
    }
}

fn is_late(facts: &FileFacts<'_>, events: &[Event<'_>], position: usize, owner: &str) -> bool {
    let event = &events[position];
    let Some(scope) = step_scope(facts, events, event) else { return false };
    let in_step = |other: &Event<'_>| facts.scopes_around(other.scope).any(|around| around == scope);
    let Some(offset) =
        events[position..].iter().position(|other| matches!(other.kind, EventKind::Backward { .. }) && in_step(other))
    else {
        return false;
    };
    let backward = position + offset;
    if leaves_before(facts, event, &events[backward]) {
        return false;
    }
    let EventKind::Backward { loss, text, .. } = &events[backward].kind else { return false };
    let forwards = loss.provenance().map(|provenance| provenance.forwards.clone()).unwrap_or_default();
    let is_forward = |other: &Event<'_>| {
        matches!(other.kind, EventKind::Forward { .. }) && forwards.contains(&other.range.start().to_u32())
    };
    // Without a visible model call, the computation of the loss marks the forward pass.
    let has_forward = events.iter().any(|other| in_step(other) && is_forward(other));
    let makes = |other: &Event<'_>| match &other.kind {
        // By its name, or by what the backward pass goes through under another name.
        EventKind::LossMade { name } => {
            let is_behind = || forwards.iter().any(|forward| other.range.contains((*forward).into()));
            !has_forward && (Some(name) == text.as_ref() || is_behind())
        }
        _ => is_forward(other),
    };
    let before = &events[..position];
    let Some(made) = before.iter().position(|other| in_step(other) && makes(other)) else { return false };
    // In gradient accumulation the group's first forward pass is over anyway. A step that is rare as a whole is a step.
    let number = facts.loops_around(event.scope).next();
    let is_grouped = |(test, arm): &(Option<&Expr>, TextRange)| {
        let is_in = |other: &Event<'_>| facts.branches(other.scope, number).iter().any(|(_, range)| range == arm);
        let is_whole = is_in(&events[made]) && is_in(&events[backward]);
        test.is_some_and(|test| facts.text(test).contains('%')) && !is_whole
    };
    if facts.branches(event.scope, number).iter().any(is_grouped) {
        return false;
    }
    // Where a part of the forward pass follows, as a discriminator's, another network's part is over.
    let later: Vec<&Event<'_>> =
        events[position..backward].iter().filter(|other| in_step(other) && makes(other)).collect();
    if !later.is_empty() {
        let is_over = |event: &Event<'_>| match &event.kind {
            EventKind::Forward { module, is_frozen: false, .. } => {
                let is_called_later = later
                    .iter()
                    .any(|other| matches!(&other.kind, EventKind::Forward { module: name, .. } if name == module));
                event.gradients != Gradients::Off && facts.index.usage.has_parameters_given(module) && !is_called_later
            }
            _ => false,
        };
        if !before.iter().any(|other| in_step(other) && makes(other) && is_over(other)) {
            return false;
        }
    }
    // With several models, as in a GAN, the other's gradients exist anyway.
    let mut owners: Vec<&str> = events
        .iter()
        .filter(|other| in_step(other))
        .filter_map(|other| match &other.kind {
            EventKind::ZeroGrad { owner, .. } => Some(owner.as_str()),
            _ => None,
        })
        .collect();
    let has_other_owner = |owners: &[&str]| owners.iter().any(|other| *other != owner);
    if has_other_owner(&owners) && owners.first() != Some(&owner) {
        return false;
    }
    owners.retain(|other| *other == owner);
    // Already zeroed: before this iteration's forward pass, or after the last one's step.
    let zeroes = |other: &Event<'_>| matches!(&other.kind, EventKind::ZeroGrad { .. }) && in_step(other);
    let is_zeroed_before = events[..made].iter().any(zeroes);
    let is_zeroed_after = events[backward..]
        .iter()
        .rev()
        .filter(|other| in_step(other))
        .take_while(|other| !matches!(other.kind, EventKind::Backward { .. }))
        .any(|other| matches!(&other.kind, EventKind::ZeroGrad { owner: name, .. } if name == owner));
    // After another backward pass, the gradients belong to this step.
    let has_backward_before =
        events[made..position].iter().any(|other| matches!(other.kind, EventKind::Backward { .. }) && in_step(other));
    let steps = events.iter().any(|other| matches!(other.kind, EventKind::Step { .. }) && in_step(other));
    // `for p in net.parameters(): p.data -= lr * p.grad` is a step.
    let updates = || {
        facts.loops_around(event.scope).filter_map(|number| facts.loops[number].statement).any(|statement| {
            let text = facts.text(statement);
            text.contains(".parameters()") && [".grad,", ".grad\n", ".grad)"].iter().any(|part| text.contains(part))
        })
    };
    (steps || updates()) && !is_zeroed_before && !is_zeroed_after && !has_backward_before
}

/// Whether an arm of an `if` around an event ends the step before a later one: it ends in `continue`, `return`, `break` or `raise`.
fn leaves_before(facts: &FileFacts<'_>, event: &Event<'_>, later: &Event<'_>) -> bool {
    let shared: Vec<TextRange> = facts.branches(later.scope, None).into_iter().map(|(_, arm)| arm).collect();
    let mut own: Vec<TextRange> = facts.branches(event.scope, None).into_iter().map(|(_, arm)| arm).collect();
    own.retain(|arm| !shared.contains(arm));
    let leaves = |body: &[Stmt]| {
        let ends = matches!(body.last(), Some(Stmt::Continue(_) | Stmt::Return(_) | Stmt::Break(_) | Stmt::Raise(_)));
        ends && body.first().is_some_and(|first| own.contains(&first.range()))
    };
    if own.is_empty() {
        return false;
    }
    let mut found = false;
    walk_statements(facts.body, &mut |statement| {
        if let Stmt::If(choice) = statement {
            found |= leaves(&choice.body) || choice.elif_else_clauses.iter().any(|clause| leaves(&clause.body));
        }
    });
    found
}
