//! VF003: evaluation without `no_grad` or `inference_mode`.

use std::collections::{HashMap, HashSet};

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Gradients, Iterates, LoopId, ScopeId};
use crate::analysis::index::{ClassKind, FunctionId};
use crate::analysis::names::{self, Role};
use crate::finding::{Edit, Finding, Severity};
use ruff_text_size::{TextRange, TextSize};

pub(super) const RULE: Rule = Rule {
    code: "VF003",
    summary: "evaluation without no_grad or inference_mode",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF003.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for events in &facts.roots {
        check_root(facts, events, findings);
    }
}

/// One evaluation: a loop over batches, or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Evaluation {
    Loop(LoopId),
    Function(ScopeId),
}

type Modes<'a> = HashMap<&'a str, (bool, usize, ScopeId)>;

fn check_root(facts: &FileFacts<'_>, events: &[Event<'_>], findings: &mut Vec<Finding>) {
    // By model: whether it is in evaluation mode, since which event, and in which function.
    let mut modes: Modes<'_> = HashMap::new();
    let mut reported: HashSet<Evaluation> = HashSet::new();
    let mut needed: Vec<(u32, ScopeId)> = Vec::new();
    for event in events {
        let provenance = match &event.kind {
            EventKind::Backward { loss, .. } => loss.provenance(),
            EventKind::Grad { inputs, .. } => inputs.clone(),
            _ => None,
        };
        needed.extend(
            provenance.iter().flat_map(|provenance| provenance.forwards.iter().map(|forward| (*forward, event.scope))),
        );
    }
    for (position, event) in events.iter().enumerate() {
        match &event.kind {
            EventKind::Mode { module, is_evaluation } => {
                modes.insert(module, (*is_evaluation, position, facts.function_scope(event.scope)));
            }
            EventKind::Forward { module, arguments, is_frozen } if event.gradients == Gradients::On && !is_frozen => {
                let mode = modes
                    .get(module.as_str())
                    .copied()
                    .filter(|(is_evaluation, _, set_in)| {
                        *is_evaluation && facts.scopes_around(event.scope).any(|around| around == *set_in)
                    })
                    .map(|(_, position, _)| position);
                let is_needed = needed.iter().any(|(forward, scope)| {
                    *forward == event.range.start().to_u32() && !is_other_call(facts, event.scope, *scope)
                });
                let evaluation = facts
                    .loops_around(event.scope)
                    .find(|number| matches!(facts.loops[*number].iterates, Iterates::Batches(_)))
                    .map_or(Evaluation::Function(facts.function_scope(event.scope)), Evaluation::Loop);
                let is_teacher = is_needed
                    && mode.is_some()
                    && arguments.as_ref().is_none_or(|provenance| provenance.forwards.is_empty())
                    && is_teacher(facts, events, event, module, &modes);
                let is_evaluation = !is_needed && evaluates(facts, events, event, evaluation, mode);
                if (is_evaluation || is_teacher) && reported.insert(evaluation) {
                    findings.push(finding(facts, event, is_teacher));
                }
            }
            _ => {}
        }
    }
}

/// Whether both are in the same function, but in different calls of it.
fn is_other_call(facts: &FileFacts<'_>, one: ScopeId, two: ScopeId) -> bool {
    facts.function(one).is_some()
        && facts.function(one) == facts.function(two)
        && facts.function_scope(one) != facts.function_scope(two)
}

fn evaluates(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    event: &Event<'_>,
    evaluation: Evaluation,
    mode: Option<usize>,
) -> bool {
    let function = facts.function(event.scope);
    if function.is_some_and(|function| is_left_to_callers(facts, function, mode.is_some())) {
        return false;
    }
    let is_named = function.is_some_and(|function| names::is_evaluation(facts.index.functions[function].name));
    let wants_gradients = |other: &Event<'_>| {
        matches!(
            other.kind,
            EventKind::Backward { .. } | EventKind::Grad { .. } | EventKind::RequiresGrad | EventKind::Step { .. }
        )
    };
    match evaluation {
        Evaluation::Loop(number) => {
            let Iterates::Batches(role) = facts.loops[number].iterates else { return false };
            let trains = events.iter().any(|other| wants_gradients(other) && facts.is_in(other.scope, number))
                || facts.trains(events, number);
            !trains && (role == Role::Evaluation || mode.is_some() || is_named && role != Role::Train)
        }
        Evaluation::Function(scope) => {
            // From `.eval()` to `.train()`, with no gradient needed in between.
            let Some(start) = mode else { return false };
            let end = events[start + 1..]
                .iter()
                .position(|other| matches!(other.kind, EventKind::Mode { is_evaluation: false, .. }));
            let segment = &events[start..end.map_or(events.len(), |end| start + 1 + end)];
            let in_training = facts.loops_around(event.scope).any(|number| {
                events
                    .iter()
                    .any(|other| wants_gradients(other) && facts.loops_around(other.scope).next() == Some(number))
            });
            let in_function = events.iter().any(|other| {
                matches!(other.kind, EventKind::RequiresGrad | EventKind::Grad { .. })
                    && facts.function_scope(other.scope) == scope
            });
            !segment.iter().any(wants_gradients) && !in_training && !in_function
        }
    }
}

/// Callers choose the grad mode for a model's methods, and unit tests evaluate nothing.
fn is_left_to_callers(facts: &FileFacts<'_>, function: FunctionId, has_mode: bool) -> bool {
    let declared = &facts.index.functions[function];
    let text = &facts.source[declared.range];
    let is_network = declared.class.is_some_and(|class| {
        matches!(facts.index.classes[class].kind, ClassKind::Module | ClassKind::Lightning | ClassKind::Criterion)
    });
    let is_test = declared.name.starts_with("test") && (text.contains("assert") || text.contains("self."));
    is_test || is_network && (declared.name == "forward" || !has_mode)
}

/// A model in evaluation mode that only computes targets for another one in training.
fn is_teacher(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>, module: &str, modes: &Modes<'_>) -> bool {
    let Some(number) = facts.batch_loop(events, event.scope) else { return false };
    let others_train = events.iter().any(|other| {
        matches!(&other.kind, EventKind::Forward { module: name, .. } if name != module && !modes.get(name.as_str()).is_some_and(|(is_evaluation, ..)| *is_evaluation))
            && facts.is_in(other.scope, number)
    });
    let wants_inputs =
        events.iter().any(|other| matches!(other.kind, EventKind::RequiresGrad | EventKind::Grad { .. }));
    let is_called_teacher = names::words(module).iter().any(|word| {
        matches!(word.as_str(), "teacher" | "ema" | "target" | "reference" | "ref" | "frozen" | "momentum")
    });
    let is_optimized = facts.source.contains(&format!("{module}.parameters("));
    others_train && !wants_inputs && is_called_teacher && !is_optimized
}

fn finding(facts: &FileFacts<'_>, event: &Event<'_>, is_teacher: bool) -> Finding {
    // The name at the call, which may differ from the one it was created under.
    let module = facts.source[event.range].split('(').next().unwrap_or_default().trim();
    let message = if is_teacher {
        format!("`{module}` is under eval() and not trained, but its graph is recorded")
    } else {
        format!(
            "`{module}` is evaluated with autograd on: every activation is kept for a backward pass that never comes"
        )
    };
    let finding = Finding::new(RULE.code, event.range, message)
        .costs("each batch: the activations of the whole forward pass, often several times the model's outputs")
        .advises("put `with torch.no_grad():` or `torch.inference_mode()` around it")
        .rated(Severity::Error);
    let has_torch = facts.index.imports.get("torch").is_some_and(|path| path == "torch");
    match facts.function(event.scope) {
        Some(function) if has_torch && !is_teacher && names::is_evaluation(facts.index.functions[function].name) => {
            let declared = &facts.index.functions[function];
            let start = declared.decorators.first().map_or(declared.range.start(), |decorator| decorator.range.start());
            let line = facts.source[..usize::from(start)].rfind('\n').map_or(0, |position| position + 1);
            let indent = &facts.source[line..usize::from(start)];
            if !indent.trim().is_empty() {
                return finding;
            }
            let edit = Edit {
                range: TextRange::empty(TextSize::try_from(line).unwrap_or_default()),
                text: format!("{indent}@torch.no_grad()\n"),
            };
            finding.fixed_by("decorate the function with `@torch.no_grad()`", false, vec![edit])
        }
        _ => finding,
    }
}
