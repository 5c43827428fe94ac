//! VF014: gradient accumulation done wrong.

use ruff_python_ast::{BoolOp, Expr, Stmt, StmtFor};
use ruff_text_size::{Ranged, TextRange};

use super::group::{Group, Under, is_under, modulus, named_tests, resolved, skipped_before};
use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Iterates, LoopId, Repeats, ScopeKind};
use crate::analysis::names;
use crate::finding::{Finding, Severity};

pub(super) const RULE: Rule = Rule {
    code: "VF014",
    summary: "gradient accumulation done wrong",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF014.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        for event in events {
            if let EventKind::Step { optimizer, is_engine: false } = &event.kind {
                check_step(facts, events, event, optimizer, findings);
            }
        }
    }
}

fn check_step(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    step: &Event<'_>,
    optimizer: &str,
    findings: &mut Vec<Finding>,
) {
    let has_backward = |number: &LoopId| {
        events.iter().any(|other| matches!(other.kind, EventKind::Backward { .. }) && facts.is_in(other.scope, *number))
    };
    let Some(number) = facts.loops_around(step.scope).find(has_backward) else { return };
    if facts.loops[number].repeats == Repeats::Step {
        return;
    }
    if facts.scopes_around(step.scope).any(|scope| matches!(facts.scopes[scope].kind, ScopeKind::Accumulate)) {
        return;
    }
    let named = named_tests(facts, number);
    let by_branch = facts.branches(step.scope, Some(number)).into_iter().find_map(|(test, range)| {
        let test = resolved(test?, &named);
        Some(Group { test, modulus: modulus(test)?, under: Under::Branch(range) })
    });
    match by_branch.or_else(|| skipped_before(facts, step, number, &named)) {
        Some(group) => grouped(facts, events, step, number, &group, findings),
        None => {
            every_time(facts, events, step, number, optimizer, findings);
            micro_batches(facts, events, step, number, findings);
        }
    }
}

/// Micro-batches, each with a backward pass, and one step for all: each loss is the mean over a part only.
fn micro_batches(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    step: &Event<'_>,
    number: LoopId,
    findings: &mut Vec<Finding>,
) {
    let own = facts.loops_around(step.scope).next();
    if own != Some(number) {
        return;
    }
    for backward in events.iter().filter(|event| matches!(event.kind, EventKind::Backward { .. })) {
        let Some(inner) = facts.loops_around(backward.scope).next() else { continue };
        let is_within = facts.loops[inner].statement.is_some()
            && facts.loops_around(facts.loops[inner].parent).next() == Some(number);
        let Some(Stmt::For(statement)) = facts.loops[inner].statement else { continue };
        let EventKind::Backward { loss, retain: false, is_scaled_by_framework: false, .. } = &backward.kind else {
            continue;
        };
        // A loss that was weighed in any way may be weighed by the size of its part.
        let is_plain_mean = loss.tensor().is_some_and(|tensor| tensor.is_loss && !tensor.is_weighed);
        let has_other_backward = events.iter().any(|other| {
            matches!(other.kind, EventKind::Backward { .. } | EventKind::Grad { .. })
                && other.range != backward.range
                && facts.is_in(other.scope, inner)
        });
        let text = loop_text(facts, number).unwrap_or_default();
        if is_within
            && is_plain_mean
            && !has_other_backward
            && is_split(facts, events, statement, inner, number)
            && !divides_gradients(text)
            && !text.contains("reduction=")
        {
            findings.push(
                Finding::new(
                    RULE.code,
                    backward.range,
                    "gradients of all parts of the batch are summed, and the loss is not divided by their number",
                )
                .costs("no memory: the step is as many times too large as there are parts")
                .advises("`(loss / parts).backward()`")
                .rated(Severity::Error),
            );
        }
    }
}

/// Whether an inner loop goes through the parts of one batch: its text says so, it cuts a tensor, or it goes through what the
/// outer loop yields. Each part must go through a network in the loop itself; a loop through heads has other networks.
fn is_split(facts: &FileFacts<'_>, events: &[Event<'_>], statement: &StmtFor, inner: LoopId, outer: LoopId) -> bool {
    let has_forward = events.iter().any(|event| {
        matches!(&event.kind, EventKind::Forward { module, .. } if !is_named_in(&statement.target, module))
            && facts.is_in(event.scope, inner)
    });
    let iterated = &facts.source[statement.iter.range()];
    let words = names::words(&facts.source[statement.target.range().cover(statement.iter.range())]);
    let by_words = words.iter().any(|word| {
        word.starts_with("accum") || word.starts_with("micro") || matches!(word.as_str(), "chunk" | "chunks")
    });
    let is_cut = [".chunk(", ".split(", "torch.chunk(", "torch.split("].into_iter().any(|cut| iterated.contains(cut));
    let is_of_outer = match facts.loops[outer].statement {
        Some(Stmt::For(around)) => {
            let path = names::access_path(&statement.iter);
            path.is_some() && path == names::access_path(&around.target) && statement.target.is_tuple_expr()
        }
        _ => false,
    };
    has_forward && (by_words || is_cut || is_of_outer)
}

/// Whether a loop's variable is the network itself.
fn is_named_in(target: &Expr, module: &str) -> bool {
    match target {
        Expr::Tuple(tuple) => tuple.elts.iter().any(|part| is_named_in(part, module)),
        other => names::access_path(other).is_some_and(|path| path == module),
    }
}

fn divides_gradients(text: &str) -> bool {
    ["grad /=", "grad.div_", "grad.mul_", "grad *="].into_iter().any(|division| text.contains(division))
}

/// A step once in a group of batches.
fn grouped(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    step: &Event<'_>,
    number: LoopId,
    group: &Group<'_>,
    findings: &mut Vec<Finding>,
) {
    let in_loop = |event: &&Event<'_>| facts.is_in(event.scope, number);
    let backwards: Vec<&Event<'_>> =
        events.iter().filter(in_loop).filter(|event| matches!(event.kind, EventKind::Backward { .. })).collect();
    // A backward pass under the same test, or another step outside it: alternating updates as in a GAN, not accumulation.
    let alternates = backwards.iter().any(|event| is_under(facts, event, group.under, number))
        || events
            .iter()
            .filter(in_loop)
            .any(|event| matches!(event.kind, EventKind::Step { .. }) && !is_under(facts, event, group.under, number));
    if alternates {
        return;
    }
    let zeroed_each_time = events.iter().filter(in_loop).any(|event| {
        matches!(event.kind, EventKind::ZeroGrad { .. })
            && facts.branches(event.scope, Some(number)).is_empty()
            && !(matches!(group.under, Under::After(_)) && is_under(facts, event, group.under, number))
    });
    let size = facts.text(&*group.modulus.right);
    let text = loop_text(facts, number).unwrap_or_default();
    let last = backwards.last();
    if let Some(backward) = last
        && !zeroed_each_time
        && !divides_gradients(text)
        && !is_divided(facts, backward, size, text)
    {
        findings.push(
            Finding::new(
                RULE.code,
                backward.range,
                format!("gradients of {size} batches are summed, and the loss is not divided by {size}"),
            )
            .costs(format!("no memory: the step is {size} times too large, as if the learning rate were"))
            .advises(format!("`(loss / {size}).backward()`"))
            .rated(Severity::Error),
        );
    }
    if loses_last_group(facts, events, number, group.test) {
        findings.push(
            Finding::new(RULE.code, step.range, format!("the last group is lost where the batches are no multiple of {size}: its gradients are zeroed before any step"))
                .costs("no memory: forward and backward passes whose gradients are thrown away, every epoch")
                .advises("step on the last batch too: `or (i + 1) == len(loader)`, or once after the loop")
                .rated(Severity::Warning),
        );
    }
}

fn is_divided(facts: &FileFacts<'_>, backward: &Event<'_>, size: &str, text: &str) -> bool {
    let EventKind::Backward { loss, is_scaled_by_framework, .. } = &backward.kind else { return true };
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

/// Whether gradients are zeroed before the loop and no step follows it for an incomplete last group.
fn loses_last_group(facts: &FileFacts<'_>, events: &[Event<'_>], number: LoopId, test: &Expr) -> bool {
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
        events[..first].iter().any(|event| matches!(event.kind, EventKind::ZeroGrad { .. }) && event.scope == parent);
    let steps_after = events[first..].iter().any(|event| {
        matches!(event.kind, EventKind::Step { .. })
            && !facts.is_in(event.scope, number)
            && facts.function_scope(event.scope) == facts.function_scope(parent)
    });
    is_zeroed && !steps_after
}

/// A step on every batch although the loss is divided as for a group.
fn every_time(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    step: &Event<'_>,
    number: LoopId,
    optimizer: &str,
    findings: &mut Vec<Finding>,
) {
    let is_accumulated = events.iter().any(|event| match &event.kind {
        EventKind::Backward { loss, .. } => {
            facts.loops_around(event.scope).next() == Some(number)
                && facts.loops_around(step.scope).next() == Some(number)
                && loss.tensor().is_some_and(|tensor| tensor.is_divided)
        }
        _ => false,
    });
    let Some(text) = loop_text(facts, number) else { return };
    // A network may zero its gradients itself; another optimizer has steps of its own.
    let is_other = |owner: &str| {
        owner != optimizer
            && (names::is_optimizer(owner)
                || events
                    .iter()
                    .any(|event| matches!(&event.kind, EventKind::Step { optimizer, .. } if optimizer == owner)))
    };
    let zero_in_group = events.iter().any(|event| {
        matches!(&event.kind, EventKind::ZeroGrad { owner, .. } if !is_other(owner))
            && facts.is_in(event.scope, number)
            && facts.branches(event.scope, Some(number)).iter().any(|(test, _)| test.and_then(modulus).is_some())
    });
    // What every step zeroes anyway is in no group, whatever a branch zeroes too.
    let is_zeroed_always = events.iter().any(|event| {
        matches!(&event.kind, EventKind::ZeroGrad { owner, .. } if !is_other(owner))
            && facts.is_in(event.scope, number)
            && facts.branches(event.scope, Some(number)).is_empty()
    });
    let divides_by_group = divisors(text).iter().any(|divisor| {
        let words = names::words(divisor);
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
        words.iter().any(|word| word.starts_with("accum") || word.starts_with("micro"))
            || has(&["acc"]) && has(&["grad", "step", "steps", "iter", "iters"])
    });
    let is_stepwise = facts.loops_around(step.scope).next() == Some(number)
        && facts.branches(step.scope, Some(number)).is_empty()
        && events.iter().any(|event| {
            matches!(event.kind, EventKind::Backward { .. }) && facts.loops_around(event.scope).next() == Some(number)
        });
    if is_stepwise && (is_accumulated && divides_by_group || zero_in_group && !is_zeroed_always) {
        findings.push(
            Finding::new(
                RULE.code,
                step.range,
                format!("`{optimizer}.step()` on every micro-batch: nothing is accumulated"),
            )
            .costs("no memory: many small steps, each with a fraction of the gradient")
            .advises("step once in a group: `if (i + 1) % accumulation_steps == 0:`")
            .rated(Severity::Error),
        );
    }
}

/// The divisors in a text.
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

fn loop_text<'a>(facts: &FileFacts<'a>, number: LoopId) -> Option<&'a str> {
    match facts.loops[number].statement? {
        statement @ (Stmt::For(_) | Stmt::While(_)) => Some(facts.text(statement)),
        _ => None,
    }
}
