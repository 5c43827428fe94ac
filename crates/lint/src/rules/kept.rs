//! What a loop keeps from one iteration to the next: shared by VF001, VF002, VF015 and VF016.

use ruff_python_ast::{BoolOp, CmpOp, Expr, ExprCompare, Stmt};
use ruff_text_size::{Ranged, TextRange};

use crate::analysis::device::Device;
use crate::analysis::facts::{Event, EventKind, FileFacts, Gradients, Iterates, Keeping, LoopId, Repeats, ScopeId};
use crate::analysis::names;
use crate::analysis::value::Value;
use crate::analysis::value::{Bound, Certainty, Tensor};
use crate::evidence::{self, Open};
use crate::recorded::Subject;

use super::kept_loop::{collects, evaluates, has_call};
use super::kept_subject;
use super::short_loop::runs_few_times;
use super::unit_test::has_mocks;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A loss with its graph.
    Loss,
    /// Another tensor with its graph.
    Graph,
    /// A tensor on the GPU without a graph, in something that grows.
    Detached,
    /// A loaded batch on the GPU, in a loop that computes nothing.
    Batch,
}

/// Something kept across iterations.
#[derive(Clone, Debug)]
pub struct Kept<'a> {
    /// What is kept.
    pub what: What,
    /// The statement that keeps it.
    pub statement: TextRange,
    /// The kept expression.
    pub expression: &'a Expr,
    /// The container that keeps it.
    pub container: String,
    /// How it is kept.
    pub how: Keeping,
    /// Whether a backward pass has freed the graph's saved tensors.
    pub is_freed: bool,
    /// The memory that it keeps.
    pub subject: Subject,
    /// What the source does not show of it.
    pub open: Vec<Open>,
}

/// Everything the program keeps across iterations without a later backward pass for it.
pub fn kept<'a>(facts: &FileFacts<'a>) -> Vec<Kept<'a>> {
    let mut all = Vec::new();
    let mut reported: Vec<u32> = Vec::new();
    for events in &facts.roots {
        for event in events {
            if let Some(kept) = look(facts, events, event, &reported) {
                if matches!(kept.what, What::Loss | What::Graph) {
                    reported.push(event.statement.start().to_u32());
                }
                all.push(kept);
            }
        }
    }
    all
}

fn look<'a>(facts: &FileFacts<'a>, events: &[Event<'a>], event: &Event<'a>, reported: &[u32]) -> Option<Kept<'a>> {
    let EventKind::Keep { container, defined, value, expression, how, bound } = &event.kind else { return None };
    let at = event.statement.start().to_u32();
    let tensor = value.tensor()?;
    let has_none = tensor
        .provenance
        .as_ref()
        .is_some_and(|provenance| provenance.forwards.iter().any(|forward| facts.without_graph.contains(forward)));
    if has_mocks(facts, event.scope) || has_none && tensor.graph == Certainty::Yes {
        return None;
    }
    // A replay memory is drawn from at random: what it keeps does not go into the backward pass with its graph.
    let is_consumed = facts.consumed.contains(&at)
        || *how == Keeping::Append
            && container.contains('.')
            && facts.index.read_where_backward.contains(names::last(container));
    // What a slice leaves of a queue goes into the next iteration's loss, when its own graph is gone.
    let is_queue = *bound == Bound::Many && *how == Keeping::Concatenate;
    if is_consumed && tensor.graph != Certainty::No && !is_queue {
        return None;
    }
    if let Some(provenance) = &tensor.provenance
        && provenance.keeps.iter().any(|keep| *keep != at && reported.contains(keep))
    {
        return None;
    }
    let outlives = |number: &LoopId| defined.is_none_or(|defined| !facts.is_in(defined, *number));
    let loops: Vec<LoopId> = facts.loops_around(event.scope).filter(outlives).collect();
    let trains = loops.iter().copied().find(|number| facts.trains(events, *number));
    let evaluates = || loops.iter().copied().find(|number| evaluates(facts, event, *number));
    let goes_through_batches = |number: &LoopId| matches!(facts.loops[*number].iterates, Iterates::Batches(_));
    let gathers = || loops.iter().copied().find(|number| tensor.is_data && goes_through_batches(number));
    // Features that the GPU computes of each batch, without a network.
    let computes = || {
        loops.iter().copied().find(|number| {
            let moves =
                |other: &Event<'_>| matches!(other.kind, EventKind::Move { .. }) && facts.is_in(other.scope, *number);
            let is_written_out = facts.loops[*number].repeats == Repeats::Here;
            tensor.graph == Certainty::No && is_written_out && goes_through_batches(number) && events.iter().any(moves)
        })
    };
    let is_by_name = *how == Keeping::Store;
    let collects = || loops.iter().copied().find(|number| collects(facts, events, event, &tensor, *number));
    let number = trains.or_else(evaluates).or_else(gathers).or_else(computes).or_else(collects)?;
    if trains.is_none() && loops.iter().all(|number| runs_few_times(facts, *number)) {
        return None;
    }
    let is_called_elsewhere = facts.loops[number].repeats == Repeats::Forward;
    if is_called_elsewhere && facts.index.usage.is_emptied(container) {
        return None;
    }
    // Emptied from time to time.
    let is_emptied = events.iter().any(|other| {
        matches!(&other.kind, EventKind::Delete { name } if name.strip_prefix(container.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('[')))
            && facts.is_in(other.scope, number)
    });
    if is_emptied {
        return None;
    }
    let has_forward =
        events.iter().any(|other| matches!(other.kind, EventKind::Forward { .. }) && facts.is_in(other.scope, number));
    let is_computed = !tensor.is_data && computes() == Some(number);
    let what = classify(facts, &tensor, *how, has_forward || trains.is_some() || is_computed)?;
    if what == What::Loss && hands_gradient_over(facts, events, facts.text(*expression), &tensor, number) {
        return None;
    }
    let has_graph = matches!(what, What::Loss | What::Graph);
    // A sequence that grows by what the network says next is the network's own input.
    let is_input = events.iter().any(|other| match &other.kind {
        EventKind::Forward { arguments: Some(given), .. } => {
            given.keeps.contains(&at)
                && (*how == Keeping::Concatenate || !tensor.is_data && !facts.is_in(other.scope, number))
        }
        _ => false,
    });
    if is_input && !has_graph {
        return None;
    }
    if !has_graph && ends_when_full(facts, container, number) {
        return None;
    }
    if is_called_elsewhere && !has_graph || is_bounded_by_test(facts, event, container, number) {
        return None;
    }
    // A table with a name for each tensor is wanted as such.
    let is_plain_loop = !matches!(facts.loops[number].iterates, Iterates::Batches(_)) && trains.is_none();
    if is_by_name && is_plain_loop && !has_graph {
        return None;
    }
    // What an inner loop collects for one step of the loop around it, as the candidates of a search, stays small.
    let is_scratch = defined.is_some_and(|defined| facts.loops_around(defined).next().is_some());
    if what == What::Detached && is_scratch && is_plain_loop {
        return None;
    }
    let is_freed = trains.is_some() && is_freed(facts, events, &tensor, number);
    let is_for_one_step = defined.is_some_and(|defined| is_made_for_each_step(facts, events, defined));
    if (what == What::Detached || is_freed) && is_for_one_step {
        return None;
    }
    if what == What::Detached && goes_through_losses(facts, events, number) {
        return None;
    }
    // A container that drops old items still holds the graphs of those it has, unless a backward pass has freed them.
    if *bound == Bound::Many && (!has_graph || is_freed && *how == Keeping::Append) {
        return None;
    }
    let keeps_graph = has_graph && !is_freed;
    let is_tensor = match value {
        Value::Tensor(_) | Value::Structure(_) => true,
        Value::Tuple(_) => has_graph,
        _ => false,
    };
    let stays = || evidence::stays_on_gpu(facts, event.scope, container, event.statement.start());
    let open = if has_graph {
        let is_called = facts.loops[number].repeats == Repeats::Forward;
        evidence::open([(Open::Graph, is_tensor && event.gradients == Gradients::On), (Open::Amount, !is_called)])
    } else {
        evidence::open([
            (Open::Graph, is_tensor),
            (Open::Amount, evidence::goes_through_data(facts, number)),
            (Open::Use, container.contains('.') || !stays()),
        ])
    };
    let subject = kept_subject::subject(facts, event, expression, *how, number, keeps_graph);
    Some(Kept {
        what,
        statement: event.statement,
        expression,
        container: container.clone(),
        how: *how,
        is_freed,
        subject,
        open,
    })
}

/// Whether the loop ends when enough is kept: `if len(kept) >= n: break`.
fn ends_when_full(facts: &FileFacts<'_>, container: &str, number: LoopId) -> bool {
    let body = match facts.loops[number].statement {
        Some(Stmt::For(statement)) => &statement.body,
        Some(Stmt::While(statement)) => &statement.body,
        _ => return false,
    };
    body.iter().any(|statement| match statement {
        Stmt::If(choice) => {
            let text = facts.text(&*choice.test);
            let mut words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.');
            matches!(choice.body.last(), Some(Stmt::Break(_)))
                && choice.test.is_compare_expr()
                && words.any(|word| word == container || facts.index.usage.is_counted(word))
        }
        _ => false,
    })
}

/// Whether a test bounds how often something is kept: `if len(kept) < 50`, `if i < 8` with a loop's counter.
fn is_bounded_by_test(facts: &FileFacts<'_>, event: &Event<'_>, container: &str, number: LoopId) -> bool {
    let targets = match facts.loops[number].statement {
        Some(Stmt::For(statement)) => names::words(&facts.source[statement.target.range()]),
        _ => Vec::new(),
    };
    facts.branches(event.scope, Some(number)).iter().filter_map(|(test, _)| *test).any(|test| {
        comparisons(test).into_iter().any(|compare| {
            let is_below = matches!(compare.ops.first(), Some(CmpOp::Lt | CmpOp::LtE));
            let left = facts.text(&*compare.left);
            let is_count = left == format!("len({container})")
                || facts.index.usage.is_counted(left)
                || compare.left.is_name_expr() && targets.iter().any(|target| target == left);
            is_below && is_count
        })
    })
}

fn comparisons(test: &Expr) -> Vec<&ExprCompare> {
    match test {
        Expr::Compare(compare) => vec![compare],
        Expr::BoolOp(operation) if operation.op == BoolOp::And => {
            operation.values.iter().flat_map(comparisons).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a list is made for each optimizer step, as for the parts of an accumulated batch: then it stays short.
fn is_made_for_each_step(facts: &FileFacts<'_>, events: &[Event<'_>], defined: ScopeId) -> bool {
    let Some(around) = facts.loops_around(defined).next() else { return false };
    events.iter().any(|event| {
        matches!(event.kind, EventKind::Step { .. }) && facts.loops_around(event.scope).next() == Some(around)
    })
}

/// Whether a loop runs backward through one graph again and again: it goes through the losses of one step.
fn goes_through_losses(facts: &FileFacts<'_>, events: &[Event<'_>], number: LoopId) -> bool {
    let mut passes =
        events.iter().filter(|event| facts.is_in(event.scope, number)).filter_map(|event| match event.kind {
            EventKind::Backward { retain, .. } => Some(retain),
            _ => None,
        });
    let has_forward = has_call(facts, events, number);
    passes.next() == Some(true) && passes.all(|retain| retain) && !has_forward
}

/// Whether the loop's backward pass starts at what a loss is computed from, with a gradient that is given: `out.backward(gradient)`. Then
/// the loss function has differentiated its part by itself.
fn hands_gradient_over(
    facts: &FileFacts<'_>,
    events: &[Event<'_>],
    kept: &str,
    tensor: &Tensor,
    number: LoopId,
) -> bool {
    let Some(provenance) = &tensor.provenance else { return false };
    events.iter().filter(|event| facts.is_in(event.scope, number)).any(|event| match &event.kind {
        EventKind::Backward { loss, text: Some(start), .. } if start != kept => {
            let given = facts.source[event.range].strip_prefix(&format!("{start}.backward("));
            let has_gradient = given.is_some_and(|given| !given.starts_with(')') && !given.contains('='));
            let reached = loss.provenance();
            has_gradient
                && reached.is_some_and(|reached| reached.forwards.iter().any(|at| provenance.forwards.contains(at)))
        }
        _ => false,
    })
}

fn classify(facts: &FileFacts<'_>, tensor: &Tensor, how: Keeping, computes: bool) -> Option<What> {
    match tensor.graph {
        Certainty::Yes if tensor.is_loss => Some(What::Loss),
        Certainty::Yes => Some(What::Graph),
        Certainty::Unknown => None,
        Certainty::No => {
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

fn is_freed(facts: &FileFacts<'_>, events: &[Event<'_>], tensor: &Tensor, number: LoopId) -> bool {
    if facts.loops[number].repeats == Repeats::Framework {
        return true;
    }
    let Some(provenance) = &tensor.provenance else { return false };
    events.iter().any(|event| match &event.kind {
        EventKind::Backward { loss, retain, .. } if !retain && facts.is_in(event.scope, number) => {
            let reached = loss.provenance();
            reached.is_some_and(|reached| reached.forwards.iter().any(|forward| provenance.forwards.contains(forward)))
        }
        _ => false,
    })
}

/// Whether a method call can be appended to the expression without parentheses.
pub fn takes_method(expression: &Expr) -> bool {
    matches!(expression, Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) | Expr::Call(_))
}

/// An expression on one line, cut to 40 characters.
pub fn shorten(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 40 { format!("{}…", line.chars().take(39).collect::<String>()) } else { line }
}
