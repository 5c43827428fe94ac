//! VF014: gradient accumulation done wrong.

use ruff_python_ast::{BoolOp, Expr, ExprBinOp, Operator, Stmt};
use ruff_text_size::{Ranged, TextRange};

use crate::analysis::Facts;
use crate::analysis::facts::{Event, Iterates, Kind, LoopId, ScopeKind};
use crate::analysis::names;
use crate::finding::{Finding, Severity};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for event in events {
            if let Kind::Step { optimizer, is_engine: false } = &event.kind {
                check_step(facts, events, event, optimizer, findings);
            }
        }
    }
}

fn check_step(facts: &Facts<'_>, events: &[Event<'_>], step: &Event<'_>, optimizer: &str, findings: &mut Vec<Finding>) {
    let has_backward = |number: &LoopId| {
        events.iter().any(|other| matches!(other.kind, Kind::Backward { .. }) && facts.is_in(other.scope, *number))
    };
    let Some(number) = facts.loops_around(step.scope).find(has_backward) else { return };
    if facts.scopes_around(step.scope).any(|scope| matches!(facts.scopes[scope].kind, ScopeKind::Accumulate)) {
        return;
    }
    let group = facts
        .branches(step.scope, Some(number))
        .into_iter()
        .find_map(|(test, range)| Some((test?, modulus(test?)?, range)));
    match group {
        Some((test, modulus, branch)) => grouped(facts, events, step, number, (test, modulus, branch), findings),
        None => every_time(facts, events, step, number, optimizer, findings),
    }
}

/// `step % n` in a test.
fn modulus(test: &Expr) -> Option<&ExprBinOp> {
    match test {
        Expr::BinOp(operation) if operation.op == Operator::Mod => Some(operation),
        Expr::Compare(compare) => modulus(&compare.left).or_else(|| compare.comparators.iter().find_map(modulus)),
        Expr::BoolOp(operation) => operation.values.iter().find_map(modulus),
        Expr::UnaryOp(operation) => modulus(&operation.operand),
        _ => None,
    }
}

fn is_under(facts: &Facts<'_>, event: &Event<'_>, branch: TextRange, number: LoopId) -> bool {
    facts.branches(event.scope, Some(number)).iter().any(|(_, range)| *range == branch)
}

/// A step once in a group of batches.
fn grouped(
    facts: &Facts<'_>,
    events: &[Event<'_>],
    step: &Event<'_>,
    number: LoopId,
    (test, modulus, branch): (&Expr, &ExprBinOp, TextRange),
    findings: &mut Vec<Finding>,
) {
    let in_loop = |event: &&Event<'_>| facts.is_in(event.scope, number);
    let backwards: Vec<&Event<'_>> =
        events.iter().filter(in_loop).filter(|event| matches!(event.kind, Kind::Backward { .. })).collect();
    // A backward pass under the same test, or another optimizer's step without it: a GAN's turns, no accumulation.
    let has_turns = backwards.iter().any(|event| is_under(facts, event, branch, number))
        || events
            .iter()
            .filter(in_loop)
            .any(|event| matches!(event.kind, Kind::Step { .. }) && !is_under(facts, event, branch, number));
    if has_turns {
        return;
    }
    let zeroed_each_time = events.iter().filter(in_loop).any(|event| {
        matches!(event.kind, Kind::ZeroGrad { .. }) && facts.branches(event.scope, Some(number)).is_empty()
    });
    let size = facts.text(&*modulus.right);
    let text = loop_text(facts, number).unwrap_or_default();
    let divides_gradients = text.contains("grad /=")
        || text.contains("grad.div_")
        || text.contains("grad.mul_")
        || text.contains("grad *=");
    let last = backwards.last();
    if let Some(backward) = last
        && !zeroed_each_time
        && !divides_gradients
        && !is_divided(facts, backward, size, text)
    {
        findings.push(
            Finding::new(
                "VF014",
                backward.range,
                format!("gradients of {size} batches are summed, and the loss is not divided by {size}"),
            )
            .costs(format!("no memory: the step is {size} times too large, as if the learning rate were"))
            .advises(format!("`(loss / {size}).backward()`"))
            .rated(Severity::Error),
        );
    }
    if loses_the_rest(facts, events, number, test) {
        findings.push(
            Finding::new("VF014", step.range, format!("the last group is lost where the batches are no multiple of {size}: its gradients are zeroed before any step"))
                .costs("no memory: forward and backward passes whose gradients are thrown away, every epoch")
                .advises("step on the last batch too: `or (i + 1) == len(loader)`, or once after the loop")
                .rated(Severity::Warning),
        );
    }
}

fn is_divided(facts: &Facts<'_>, backward: &Event<'_>, size: &str, text: &str) -> bool {
    let Kind::Backward { loss, is_scaled_by_framework, .. } = &backward.kind else { return true };
    let by_value = loss.tensor().is_none_or(|tensor| tensor.is_divided);
    let last = names::last(size);
    let squeezed: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let by_text = squeezed.contains(&format!("/{size}"))
        || squeezed.contains(&format!("/={size}"))
        || squeezed.contains(&format!(".{last},loss"))
        || squeezed.contains(&format!("/float({size})"))
        || squeezed.contains("reduction=\"sum\"")
        || squeezed.contains("reduction='sum'")
        || squeezed.contains("*(1.0/")
        || squeezed.contains("*(1/");
    let text = facts.text(backward);
    *is_scaled_by_framework && facts.source.contains("gradient_accumulation_steps=")
        || by_value
        || by_text
        || text.contains('/')
}

impl Ranged for Event<'_> {
    fn range(&self) -> TextRange {
        self.range
    }
}

/// Gradients are zeroed on the way into the loop, and nothing steps for what is left over.
fn loses_the_rest(facts: &Facts<'_>, events: &[Event<'_>], number: LoopId, test: &Expr) -> bool {
    let Iterates::Batches(_) = facts.loops[number].iterates else { return false };
    let has_alternative = matches!(test, Expr::BoolOp(operation) if operation.op == BoolOp::Or)
        || facts.text(test).contains("len(")
        || facts.text(test).contains("last");
    if has_alternative {
        return false;
    }
    let parent = facts.loops[number].parent;
    let first = events.iter().position(|event| facts.is_in(event.scope, number)).unwrap_or_default();
    let is_zeroed =
        events[..first].iter().any(|event| matches!(event.kind, Kind::ZeroGrad { .. }) && event.scope == parent);
    let steps_after = events[first..].iter().any(|event| {
        matches!(event.kind, Kind::Step { .. })
            && !facts.is_in(event.scope, number)
            && facts.function_scope(event.scope) == facts.function_scope(parent)
    });
    is_zeroed && !steps_after
}

/// A step on every batch although the loss is divided for a group.
fn every_time(
    facts: &Facts<'_>,
    events: &[Event<'_>],
    step: &Event<'_>,
    number: LoopId,
    optimizer: &str,
    findings: &mut Vec<Finding>,
) {
    let is_accumulated = events.iter().any(|event| match &event.kind {
        Kind::Backward { loss, .. } => {
            facts.loops_around(event.scope).next() == Some(number)
                && facts.loops_around(step.scope).next() == Some(number)
                && loss.tensor().is_some_and(|tensor| tensor.is_divided)
        }
        _ => false,
    });
    let Some(text) = loop_text(facts, number) else { return };
    let zero_in_group = events.iter().any(|event| {
        matches!(&event.kind, Kind::ZeroGrad { owner, .. } if owner == optimizer || !names::is_optimizer(owner))
            && facts.is_in(event.scope, number)
            && facts.branches(event.scope, Some(number)).iter().any(|(test, _)| test.and_then(modulus).is_some())
    });
    let divides_by_group = divisors(text).iter().any(|divisor| {
        let words = names::words(divisor);
        words.iter().any(|word| word.starts_with("accum") || word == "acc" || word.starts_with("micro"))
    });
    let is_stepwise = facts.loops_around(step.scope).next() == Some(number)
        && facts.branches(step.scope, Some(number)).is_empty()
        && events.iter().any(|event| {
            matches!(event.kind, Kind::Backward { .. }) && facts.loops_around(event.scope).next() == Some(number)
        });
    if is_stepwise && (is_accumulated && divides_by_group || zero_in_group) {
        findings.push(
            Finding::new(
                "VF014",
                step.range,
                format!("`{optimizer}.step()` on every micro-batch: nothing is accumulated"),
            )
            .costs("no memory: many small steps, each with a fraction of the gradient")
            .advises("step once in a group: `if (i + 1) % accumulation_steps == 0:`")
            .rated(Severity::Error),
        );
    }
}

/// What the text divides by.
fn divisors(text: &str) -> Vec<&str> {
    let after = text.split('/').skip(1);
    after
        .map(|rest| {
            let rest = rest.trim_start_matches(['=', ' ', '(']);
            let end = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.')
                .unwrap_or(rest.len());
            &rest[..end]
        })
        .collect()
}

fn loop_text<'a>(facts: &Facts<'a>, number: LoopId) -> Option<&'a str> {
    match facts.loops[number].statement? {
        statement @ (Stmt::For(_) | Stmt::While(_)) => Some(facts.text(statement)),
        _ => None,
    }
}
