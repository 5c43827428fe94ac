//! VF005: gradients are zeroed in place, or never.

use ruff_python_ast::Stmt;
use ruff_text_size::Ranged;

use super::rule::Rule;
use super::unit_test::is_unit_test;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Iterates, LoopId, Repeats};
use crate::analysis::names;
use crate::finding::{Edit, Finding, Severity};
use crate::recorded::Subject;

pub(super) const RULE: Rule = Rule {
    code: "VF005",
    summary: "gradients are zeroed in place, or never",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF005.md"),
    check,
};

/// The name of an optimizer that has none in the file.
const UNNAMED: &str = "the optimizer";

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for event in events {
            match &event.kind {
                // Code that adds to gradients by hand needs them to exist.
                EventKind::ZeroGrad { owner, keeps_memory: true } if !fills_gradients(facts.source) => {
                    findings.push(in_place(facts, event, owner));
                }
                EventKind::Step { optimizer, is_engine: false } if !is_unit_test(facts, event.scope) => {
                    missing(facts, events, event, optimizer, findings)
                }
                _ => {}
            }
        }
    }
}

fn fills_gradients(source: &str) -> bool {
    [".grad +=", ".grad.add_(", ".grad.copy_(", ".grad[", ".grad.data.copy_("]
        .into_iter()
        .any(|way| source.contains(way))
}

fn in_place(facts: &FileFacts<'_>, event: &Event<'_>, owner: &str) -> Finding {
    let text = &facts.source[event.range];
    let finding = Finding::new(
        RULE.code,
        event.range,
        format!("`{owner}.zero_grad(set_to_none=False)` keeps every gradient's memory"),
    )
    .about(Subject::Gradients)
    .costs("as much as the parameters, through the whole forward pass")
    .advises("leave the argument out: gradients are then freed (the default since torch 2.0)");
    match text.rfind('(') {
        Some(open) if !text[open..].contains('\n') => {
            let start = event.range.start() + ruff_text_size::TextSize::try_from(open).unwrap_or_default();
            let range = ruff_text_size::TextRange::new(start, event.range.end());
            finding.fixed_by("free gradients", false, vec![Edit { range, text: "()".into() }])
        }
        _ => finding,
    }
}

fn missing(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    event: &Event<'_>,
    optimizer: &str,
    findings: &mut Vec<Finding>,
) {
    let has_backward = |number: &LoopId| {
        events.iter().any(|other| matches!(other.kind, EventKind::Backward { .. }) && facts.is_in(other.scope, *number))
    };
    let Some(number) = facts.loops_around(event.scope).find(has_backward) else { return };
    // A benchmark trains on one made-up batch.
    let mut passes =
        events.iter().filter(|other| facts.is_in(other.scope, number)).filter_map(|other| match other.kind {
            EventKind::Forward { is_made_up, .. } => Some(is_made_up),
            _ => None,
        });
    let goes_by_batches = matches!(facts.loops[number].iterates, Iterates::Batches(_));
    if !goes_by_batches && passes.next() == Some(true) && passes.all(|is_made_up| is_made_up) {
        return;
    }
    // Code elsewhere calls this step, and may zero gradients.
    if facts.loops[number].repeats == Repeats::Step {
        return;
    }
    let zeroed = events.iter().filter(|other| facts.is_in(other.scope, number)).filter_map(|other| match &other.kind {
        EventKind::ZeroGrad { owner, .. } => Some(owner.as_str()),
        _ => None,
    });
    let zeroed: Vec<&str> = zeroed.collect();
    if !zeroed.is_empty() {
        // Only a different name means a different optimizer; the same one may have two.
        let others_only = optimizer != UNNAMED
            && names::is_optimizer(optimizer)
            && zeroed.iter().all(|owner| names::is_optimizer(owner) && names::last(owner) != names::last(optimizer));
        let is_mentioned = loop_text(facts, number)
            .is_none_or(|text| text.contains(&format!("{optimizer}.zero_grad")) || text.contains("for "));
        if !others_only || is_mentioned {
            return;
        }
    } else if loop_text(facts, number).is_some_and(|text| {
        let mut code = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        code.any(|line| {
            line.contains("zero_grad") || line.contains(".grad") || line.contains(&format!("{optimizer} ="))
        })
    }) {
        return;
    }
    findings.push(
        Finding::new(RULE.code, event.range, format!("`{optimizer}.step()` in a loop that never zeroes gradients"))
            .about(Subject::Gradients)
            .costs("no gradient is freed between steps, and each step adds the gradients of all steps before it")
            .advises(format!("call `{optimizer}.zero_grad()` at the top of the loop"))
            .rated(Severity::Error),
    );
}

fn loop_text<'a>(facts: &FileFacts<'a>, number: LoopId) -> Option<&'a str> {
    match facts.loops[number].statement? {
        Stmt::For(statement) => {
            Some(&facts.source[statement.body.first()?.start().into()..statement.range.end().into()])
        }
        Stmt::While(statement) => {
            Some(&facts.source[statement.body.first()?.start().into()..statement.range.end().into()])
        }
        _ => None,
    }
}
