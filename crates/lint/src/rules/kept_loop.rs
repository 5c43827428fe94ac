//! Loops that train nothing and yet keep what they compute: evaluations, and loops that put data through a network.

use ruff_python_ast::Expr;
use ruff_python_ast::visitor::{self, Visitor};

use crate::analysis::facts::{Event, EventKind, FileFacts, Gradients, Iterates, LoopId};
use crate::analysis::index::ClassKind;
use crate::analysis::names::{self, Role};
use crate::analysis::value::{Bound, Certainty, Tensor};

/// A loop over data that does not train: an evaluation, or one that collects batches.
pub fn evaluates(facts: &FileFacts<'_>, event: &Event<'_>, number: LoopId) -> bool {
    let Iterates::Batches(role) = facts.loops[number].iterates else { return false };
    let is_named =
        facts.function(event.scope).is_some_and(|function| names::is_evaluation(facts.index.functions[function].name));
    let is_module_level = facts.function(event.scope).is_none();
    role == Role::Evaluation || is_named || event.gradients == Gradients::Off || is_module_level
}

/// A loop that brings data to the GPU and puts it through a network, whatever it iterates over: files, texts, frames. The
/// network must be the file's own business: made here, or called where no gradients are wanted.
pub fn collects(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    event: &Event<'_>,
    tensor: &Tensor,
    number: LoopId,
) -> bool {
    let is_network_method = facts.function(event.scope).is_some_and(|function| {
        let class = facts.index.functions[function].class;
        class.is_some_and(|class| {
            matches!(facts.index.classes[class].kind, ClassKind::Module | ClassKind::Lightning | ClassKind::Criterion)
        })
    });
    let Some(provenance) = &tensor.provenance else {
        // What a rollout of so many steps collects beside its network is wanted on the GPU.
        return !is_network_method
            && facts.loops[number].iterates != Iterates::Count
            && tensor.graph == Certainty::No
            && brings_data(facts, events, number)
            && has_call(facts, events, number);
    };
    let function = facts.function_scope(event.scope);
    let is_evaluated = |module: &str| {
        let mut modes = events.iter().rev().filter(|other| other.range.start() < event.range.start());
        let last = modes.find_map(|other| match &other.kind {
            EventKind::Mode { module: name, is_evaluation } if name == module => Some((*is_evaluation, other.scope)),
            _ => None,
        });
        last.is_some_and(|(is_evaluation, scope)| is_evaluation && facts.function_scope(scope) == function)
    };
    // An object's memory that drops old items outlives the method, and is drawn from at random: nobody wants its graphs.
    let EventKind::Keep { container, bound, .. } = &event.kind else { return false };
    let is_memory = *bound == Bound::Many
        && container.starts_with("self.")
        && tensor.graph == Certainty::Yes
        && facts.index.has_gpu;
    let is_own = |module: &str| {
        is_memory
            || facts.function(event.scope).is_none()
            || event.gradients == Gradients::Off
            || facts.built.contains(module)
            || is_evaluated(module)
    };
    let calls = events.iter().any(|other| match &other.kind {
        EventKind::Forward { module, .. } => {
            provenance.forwards.contains(&other.range.start().to_u32())
                && facts.is_in(other.scope, number)
                && is_own(module)
        }
        _ => false,
    });
    // Within a training step, what is collected may go into the loss in ways that are not followed.
    let in_training =
        facts.loops_around(facts.loops[number].scope).any(|around| around != number && facts.trains(events, around));
    !is_network_method
        && calls
        && (is_memory || brings_data(facts, events, number) || leaves_the_gpu(facts, event, container))
        && !(in_training && tensor.graph == Certainty::Yes)
}

/// Whether a network is called in a loop.
pub fn has_call(facts: &FileFacts<'_>, events: &[Event<'_>], number: LoopId) -> bool {
    events.iter().any(|other| matches!(other.kind, EventKind::Forward { .. }) && facts.is_in(other.scope, number))
}

/// Whether what a container has collected is brought to main memory as a whole: then nobody wants it on the GPU.
fn leaves_the_gpu(facts: &FileFacts<'_>, event: &Event<'_>, container: &str) -> bool {
    struct Finder<'c> {
        container: &'c str,
        is_found: bool,
    }
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Call(call) = expression
                && let Expr::Attribute(method) = &*call.func
                && matches!(method.attr.as_str(), "cpu" | "numpy" | "tolist")
            {
                // `torch.cat(kept).cpu()`, `kept.cpu()`.
                let whole = match &*method.value {
                    Expr::Call(inner) => inner.arguments.args.first(),
                    other => Some(other),
                };
                let path = whole.and_then(names::access_path);
                self.is_found |= path.as_deref() == Some(self.container);
            }
            visitor::walk_expr(self, expression);
        }
    }
    let body = facts.function(event.scope).map_or(facts.body, |function| facts.index.functions[function].body);
    let mut finder = Finder { container, is_found: false };
    finder.visit_body(body);
    finder.is_found
}

fn brings_data(facts: &FileFacts<'_>, events: &[Event<'_>], number: LoopId) -> bool {
    matches!(facts.loops[number].iterates, Iterates::Batches(_))
        || events.iter().any(|other| matches!(other.kind, EventKind::Move { .. }) && facts.is_in(other.scope, number))
}
