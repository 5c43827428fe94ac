//! VF003: evaluation without `no_grad` or `inference_mode`.

use std::collections::{HashMap, HashSet};

use super::evaluated::{gets_test_data, stays_on_cpu, wants_inputs_here};
use super::rule::Rule;
use super::shape_check::is_shape_check;
use super::teacher;
use super::unit_test::is_unit_test;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Gradients, Iterates, LoopId, Repeats, ScopeId, ScopeKind};
use crate::analysis::index::{ClassKind, FunctionId};
use crate::analysis::names::{self, Role};
use crate::evidence::{self, Open};
use crate::finding::{Edit, Finding, Severity};
use crate::recorded::Subject;
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
    let mut reported: HashSet<(Evaluation, bool)> = HashSet::new();
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
                // A function that switches to the mode of its caller changes nothing.
                let is_same = modes.get(module.as_str()).is_some_and(|(known, _, set_in)| {
                    known == is_evaluation && facts.scopes_around(event.scope).any(|around| around == *set_in)
                });
                if is_same {
                    continue;
                }
                modes.insert(module, (*is_evaluation, position, facts.function_scope(event.scope)));
            }
            EventKind::Forward { module, arguments, is_frozen, .. }
                if event.gradients == Gradients::On && !is_frozen =>
            {
                let mode = modes
                    .get(module.as_str())
                    .copied()
                    .filter(|(is_evaluation, _, set_in)| {
                        *is_evaluation
                            && (facts.scopes_around(event.scope).any(|around| around == *set_in)
                                || is_constructor(facts, *set_in))
                    })
                    .map(|(_, position, _)| position);
                let is_needed = needed.iter().any(|(forward, scope)| {
                    *forward == event.range.start().to_u32() && !is_other_call(facts, event.scope, *scope)
                });
                let evaluation = facts
                    .loops_around(event.scope)
                    .find(|number| matches!(facts.loops[*number].iterates, Iterates::Batches(_)))
                    .map_or(Evaluation::Function(facts.function_scope(event.scope)), Evaluation::Loop);
                let has_input_graph = arguments.as_ref().is_some_and(|provenance| !provenance.forwards.is_empty());
                let is_teacher =
                    is_needed && !has_input_graph && teacher::is_teacher(facts, events, event, module, mode.is_some());
                // A constructor calls its parts once, to learn their shapes, and a unit test what it tests.
                let is_probe = matches!(evaluation, Evaluation::Function(scope) if is_constructor(facts, scope) || is_unit_test(facts, scope))
                    || is_shape_check(facts, event);
                // Without a result, forward hooks take what the call computes.
                let is_hooked = event.statement == event.range && has_hooks_with_graphs(facts)
                    || reads_graph(facts, event.scope)
                    || facts.without_graph.contains(&event.range.start().to_u32());
                let is_evaluation = !is_needed
                    && !is_probe
                    && !is_hooked
                    && (evaluates(facts, events, event, evaluation, mode)
                        || is_thrown_away(facts, events, event)
                        || is_read_out(facts, events, event)
                        || is_wasted(facts, event)
                            && is_in_training(facts, events, event)
                            && mode.is_some()
                            && !wants_inputs_here(facts, events, event)
                        || mode.is_some_and(|start| is_interlude(facts, events, event, start)));
                let is_evaluation = is_evaluation
                    && !facts.on_cpu.contains(&event.range.start().to_u32())
                    && !stays_on_cpu(facts, event, module);
                // One finding for each evaluation within a step, however many there are.
                let place = if is_evaluation
                    && !matches!(evaluation, Evaluation::Function(_))
                    && is_in_training(facts, events, event)
                {
                    Evaluation::Function(facts.function_scope(event.scope))
                } else {
                    evaluation
                };
                if is_evaluation || is_teacher {
                    let open = left_open(facts, event, module, evaluation, mode.is_some());
                    if reported.insert((place, open.is_empty())) {
                        findings.push(finding(facts, event, is_teacher, mode.is_some()).leaves_open(open));
                    }
                }
            }
            _ => {}
        }
    }
}

/// What the source does not show of an evaluation. That nobody needs the graph is shown by the network's mode, by a loop over data for
/// evaluations, or by a result that leaves its graph; but not where a single call hands its result on.
fn left_open(
    facts: &FileFacts<'_>,
    event: &Event<'_>,
    module: &str,
    evaluation: Evaluation,
    has_mode: bool,
) -> Vec<Open> {
    let at = event.range.start().to_u32();
    let is_handed_on = facts.escaped.contains(&at);
    let is_named = match evaluation {
        Evaluation::Loop(number) => facts.loops[number].iterates == Iterates::Batches(Role::Evaluation),
        Evaluation::Function(_) => false,
    };
    let repeats = facts.loops_around(event.scope).any(|number| !evidence::ends_at_once(facts, number));
    // Who calls a function from elsewhere may switch gradients off around it.
    let is_read_out = facts.arrays.contains(&at) && !is_handed_on && repeats;
    evidence::open([
        (Open::Place, evidence::uses_gpu(facts) || evidence::is_placed(facts, module)),
        (Open::Graph, (has_mode || is_named || is_read_out) && (repeats || !is_handed_on)),
        (Open::Amount, repeats),
    ])
}

/// Whether each batch's result ends as numbers or detached in the function itself, which needs no gradients, nor does a loop around it.
fn is_thrown_away(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>) -> bool {
    let own = facts.function_scope(event.scope);
    let loops: Vec<LoopId> = facts.loops_around(event.scope).collect();
    let is_near = |other: &Event<'_>| {
        facts.function_scope(other.scope) == own || loops.iter().any(|number| facts.is_in(other.scope, *number))
    };
    let goes_by_batches =
        loops.first().is_some_and(|number| matches!(facts.loops[*number].iterates, Iterates::Batches(_)));
    goes_by_batches
        && is_wasted(facts, event)
        && !loops.iter().any(|number| facts.loops[*number].repeats != Repeats::Here)
        && !events.iter().any(|other| wants_gradients(other) && is_near(other))
}

/// Whether a function reads a network's answer out as an array, as an agent that acts, and wants no gradients itself.
fn is_read_out(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>) -> bool {
    let own = facts.function_scope(event.scope);
    facts.arrays.contains(&event.range.start().to_u32())
        && facts.function(event.scope).is_some()
        && is_wasted(facts, event)
        && !events.iter().any(|other| wants_gradients(other) && facts.function_scope(other.scope) == own)
}

/// Whether what a call computes is taken out of its graph, and nothing else of it leaves the function.
fn is_wasted(facts: &FileFacts<'_>, event: &Event<'_>) -> bool {
    let at = event.range.start().to_u32();
    facts.dropped.contains(&at)
        && !facts.escaped.contains(&at)
        && !is_left_to_callers(facts, event.scope, false)
        && !is_unit_test(facts, event.scope)
}

fn is_constructor(facts: &FileFacts<'_>, scope: ScopeId) -> bool {
    facts.function(scope).is_some_and(|function| facts.index.functions[function].name == "__init__")
}

fn is_in_training(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>) -> bool {
    facts.loops_around(event.scope).any(|number| facts.trains(events, number))
}

/// Between the training steps of a loop: `.eval()` at `start`, this call, and nothing that needs gradients until `.train()` or the
/// end of the function or iteration that `.eval()` is in.
fn is_interlude(facts: &FileFacts<'_>, events: &[Event<'_>], event: &Event<'_>, start: usize) -> bool {
    if is_left_to_callers(facts, event.scope, true) {
        return false;
    }
    let switch = &events[start];
    let home = facts.scopes_around(switch.scope).find(|scope| {
        matches!(facts.scopes[*scope].kind, ScopeKind::Root(_) | ScopeKind::Call(_) | ScopeKind::Loop(_))
    });
    let Some(home) = home else { return false };
    // `.eval()` before the loop says nothing about its steps.
    let in_same_loop = facts
        .loops_around(event.scope)
        .find(|number| facts.trains(events, *number))
        .is_none_or(|number| facts.is_in(switch.scope, number));
    let segment = events[start + 1..]
        .iter()
        .take_while(|other| facts.scopes_around(other.scope).any(|around| around == home))
        .take_while(|other| !matches!(other.kind, EventKind::Mode { is_evaluation: false, .. }));
    let is_quiet = !segment.clone().any(wants_gradients);
    in_same_loop && is_quiet && segment.clone().any(|other| other.range == event.range)
}

fn wants_gradients(event: &Event<'_>) -> bool {
    matches!(
        event.kind,
        EventKind::Backward { .. } | EventKind::Grad { .. } | EventKind::RequiresGrad | EventKind::Step { .. }
    )
}

/// Whether forward hooks are registered of which none takes values without their graphs.
fn has_hooks_with_graphs(facts: &FileFacts<'_>) -> bool {
    let index = &facts.index;
    let detaches = index.functions.iter().any(|function| {
        let text = &facts.source[function.range];
        index.usage.is_hook(function.name) && (text.contains(".detach()") || text.contains(".data"))
    });
    index.methods_called.contains_key("register_forward_hook") && !detaches
}

/// Whether the function looks at the graph itself.
fn reads_graph(facts: &FileFacts<'_>, scope: ScopeId) -> bool {
    facts.function(scope).is_some_and(|function| {
        let text = &facts.source[facts.index.functions[function].range];
        text.contains(".grad_fn") || text.contains("next_functions")
    })
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
    if is_left_to_callers(facts, event.scope, mode.is_some()) {
        return false;
    }
    // `net(x_test)` within a training loop, in a function of its own or not.
    if mode.is_none()
        && event.statement != event.range
        && gets_test_data(facts, event)
        && is_in_training(facts, events, event)
        && !wants_inputs_here(facts, events, event)
    {
        return true;
    }
    let is_named = function.is_some_and(|function| names::is_evaluation(facts.index.functions[function].name));
    match evaluation {
        Evaluation::Loop(number) => {
            let Iterates::Batches(role) = facts.loops[number].iterates else { return false };
            // An attack on the inputs, in a function of its own, leaves this call as it is.
            let own = facts.function_scope(event.scope);
            let wants = |other: &Event<'_>| wants_gradients(other) && facts.function_scope(other.scope) == own;
            let trains = facts.trains(events, number)
                || events.iter().any(|other| wants(other) && facts.is_in(other.scope, number));
            !trains && (role == Role::Evaluation || mode.is_some() || is_named && role != Role::Train)
        }
        Evaluation::Function(scope) => {
            // A function named as an evaluation whose results carry no graph when they leave it.
            let Some(start) = mode else {
                let is_kept_inside = !facts.escaped.contains(&event.range.start().to_u32());
                let in_function = |other: &&Event<'_>| facts.function_scope(other.scope) == scope;
                // A test of shapes calls a network once.
                let repeats = facts.loops_around(event.scope).next().is_some();
                // A result that nobody takes is kept in the network.
                let is_taken = event.statement != event.range;
                return is_named
                    && is_taken
                    && repeats
                    && is_kept_inside
                    && !events.iter().filter(in_function).any(wants_gradients);
            };
            // From `.eval()` to `.train()`, with no gradient needed in between.
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
fn is_left_to_callers(facts: &FileFacts<'_>, scope: ScopeId, has_mode: bool) -> bool {
    let is_of_network = |function: FunctionId| {
        facts.index.functions[function].class.is_some_and(|class| {
            matches!(facts.index.classes[class].kind, ClassKind::Module | ClassKind::Lightning | ClassKind::Criterion)
        })
    };
    let Some(function) = facts.function(scope) else { return false };
    let declared = &facts.index.functions[function];
    let is_test = declared.name.starts_with("test") && facts.source[declared.range].contains("assert");
    let mut functions = facts.scopes_around(scope).filter_map(|around| match facts.scopes[around].kind {
        ScopeKind::Root(function) => function,
        ScopeKind::Call(function) => Some(function),
        _ => None,
    });
    is_test
        || is_of_network(function) && !has_mode
        || functions.any(|function| {
            matches!(facts.index.functions[function].name, "forward" | "__call__") && is_of_network(function)
        })
}

fn finding(facts: &FileFacts<'_>, event: &Event<'_>, is_teacher: bool, is_switched: bool) -> Finding {
    // The name at the call, which may differ from the one it was created under.
    let module = facts.source[event.range].split('(').next().unwrap_or_default().trim();
    let message = if is_teacher {
        let state = if is_switched {
            "is under eval() and not trained"
        } else {
            "is not trained: no optimizer has its parameters"
        };
        format!("`{module}` {state}, but its graph is recorded")
    } else {
        format!(
            "`{module}` is evaluated with autograd on: every activation is kept for a backward pass that never comes"
        )
    };
    let finding = Finding::new(RULE.code, event.range, message)
        .about(Subject::Pass)
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
