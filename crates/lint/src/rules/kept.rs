//! What a loop keeps from one turn to the next: common to VF001, VF002, VF015 and VF016.

use ruff_python_ast::Expr;
use ruff_text_size::TextRange;

use crate::analysis::facts::{Event, Facts, Gradients, Iterates, Keeping, Kind, LoopId, ScopeId};
use crate::analysis::names::{self, Role};
use crate::analysis::value::{Device, Known, Tensor};

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A loss with its graph.
    Loss,
    /// Another tensor with its graph.
    Graph,
    /// A tensor on the GPU without a graph, in something that grows.
    Detached,
    /// A batch as it was loaded, on the GPU, in a loop that does nothing else.
    Batch,
}

/// Something kept across iterations.
#[derive(Clone, Debug)]
pub struct Kept<'a> {
    /// What.
    pub what: What,
    /// The statement that keeps it.
    pub statement: TextRange,
    /// The kept expression.
    pub expression: &'a Expr,
    /// Where it is kept.
    pub container: String,
    /// How.
    pub how: Keeping,
    /// Whether a backward pass has freed what the graph had saved.
    pub is_freed: bool,
}

/// All that the program keeps across iterations for no later backward pass.
pub fn kept<'a>(facts: &Facts<'a>) -> Vec<Kept<'a>> {
    let mut all = Vec::new();
    let mut told: Vec<u32> = Vec::new();
    for events in &facts.roots {
        for event in events {
            if let Some(kept) = look(facts, events, event, &told) {
                if matches!(kept.what, What::Loss | What::Graph) {
                    told.push(event.statement.start().to_u32());
                }
                all.push(kept);
            }
        }
    }
    all
}

fn look<'a>(facts: &Facts<'a>, events: &[Event<'a>], event: &Event<'a>, told: &[u32]) -> Option<Kept<'a>> {
    let Kind::Keep { container, defined, value, expression, how } = &event.kind else { return None };
    let at = event.statement.start().to_u32();
    let tensor = value.tensor()?;
    let is_consumed = facts.consumed.contains(&at)
        || *how == Keeping::Append
            && container.contains('.')
            && facts.index.read_where_backward.contains(names::last(container));
    if is_consumed && tensor.graph != Known::No {
        return None;
    }
    if let Some(trace) = &tensor.trace
        && trace.keeps.iter().any(|keep| *keep != at && told.contains(keep))
    {
        return None;
    }
    let outlives = |number: &LoopId| defined.is_none_or(|defined| !facts.is_in(defined, *number));
    let loops: Vec<LoopId> = facts.loops_around(event.scope).filter(outlives).collect();
    let trains = loops.iter().copied().find(|number| facts.trains(events, *number));
    let evaluates = || loops.iter().copied().find(|number| evaluates(facts, event, *number));
    let gathers = || {
        loops
            .iter()
            .copied()
            .find(|number| tensor.is_data && matches!(facts.loops[*number].iterates, Iterates::Batches(_)))
    };
    let number = trains.or_else(evaluates).or_else(gathers)?;
    // Emptied now and then, or turned inside out each time.
    let is_emptied = events.iter().any(|other| {
        matches!(&other.kind, Kind::Delete { name } if name.strip_prefix(container.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('[')))
            && facts.is_in(other.scope, number)
    });
    if is_emptied {
        return None;
    }
    let has_forward =
        events.iter().any(|other| matches!(other.kind, Kind::Forward { .. }) && facts.is_in(other.scope, number));
    let what = classify(facts, &tensor, *how, has_forward || trains.is_some())?;
    if what == What::Detached && defined.is_some_and(|defined| is_let_go_each_step(facts, events, defined)) {
        return None;
    }
    let is_freed = trains.is_some() && is_freed(facts, events, &tensor, number);
    Some(Kept { what, statement: event.statement, expression, container: container.clone(), how: *how, is_freed })
}

/// A list made anew for each optimizer step, as for the parts of an accumulated batch, stays short.
fn is_let_go_each_step(facts: &Facts<'_>, events: &[Event<'_>], defined: ScopeId) -> bool {
    let Some(around) = facts.loops_around(defined).next() else { return false };
    events
        .iter()
        .any(|event| matches!(event.kind, Kind::Step { .. }) && facts.loops_around(event.scope).next() == Some(around))
}

fn classify(facts: &Facts<'_>, tensor: &Tensor, how: Keeping, computes: bool) -> Option<What> {
    match tensor.graph {
        Known::Yes if tensor.is_loss => Some(What::Loss),
        Known::Yes => Some(What::Graph),
        Known::Unknown => None,
        Known::No => {
            let may_be_gpu = tensor.device == Device::Gpu || tensor.device == Device::Unknown && facts.index.has_gpu;
            if how == Keeping::Add || !may_be_gpu {
                return None;
            }
            if computes {
                return Some(What::Detached);
            }
            (tensor.is_data && tensor.device == Device::Gpu).then_some(What::Batch)
        }
    }
}

/// A loop through data that trains nothing: an evaluation, or the gathering of batches.
fn evaluates(facts: &Facts<'_>, event: &Event<'_>, number: LoopId) -> bool {
    let Iterates::Batches(role) = facts.loops[number].iterates else { return false };
    let is_named =
        facts.function(event.scope).is_some_and(|function| names::is_evaluation(facts.index.functions[function].name));
    let is_module_level = facts.function(event.scope).is_none();
    role == Role::Evaluation || is_named || event.gradients == Gradients::Off || is_module_level
}

fn is_freed(facts: &Facts<'_>, events: &[Event<'_>], tensor: &Tensor, number: LoopId) -> bool {
    if facts.loops[number].statement.is_none() {
        return true;
    }
    let Some(trace) = &tensor.trace else { return false };
    events.iter().any(|event| match &event.kind {
        Kind::Backward { loss, retain, .. } if !retain && facts.is_in(event.scope, number) => {
            let reached = loss.trace();
            reached.is_some_and(|reached| reached.forwards.iter().any(|forward| trace.forwards.contains(forward)))
        }
        _ => false,
    })
}

/// Whether `.detach()` can be written behind the expression as it is.
pub fn takes_method(expression: &Expr) -> bool {
    matches!(expression, Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) | Expr::Call(_))
}

/// An expression on one line, cut to 40 characters.
pub fn shorten(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 40 { format!("{}…", line.chars().take(39).collect::<String>()) } else { line }
}
