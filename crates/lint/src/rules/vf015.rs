//! VF015: a whole data set goes to the GPU at once; tensors made on the CPU and moved in the loop.

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::kept::{What, kept};
use super::rule::Rule;
use super::unit_test::is_unit_test;
use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Gradients, Iterates, Repeats};
use crate::analysis::names;
use crate::evidence::{self, Open};
use crate::finding::{Edit, Finding};
use crate::recorded::Subject;

pub(super) const RULE: Rule = Rule {
    code: "VF015",
    summary: "a whole data set on the GPU, or tensors made on the CPU and moved in the loop",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF015.md"),
    check,
};

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    for kept in kept(facts).into_iter().filter(|kept| kept.what == What::Batch) {
        findings.push(
            whole(kept.statement, format!("`{}` collects every batch of the epoch on the GPU", kept.container))
                .about(kept.subject),
        );
    }
    for events in &facts.roots {
        for event in events {
            let EventKind::Move { call, tensor, source } = &event.kind else { continue };
            if is_unit_test(facts, event.scope) {
                continue;
            }
            if tensor.is_whole {
                findings.push(whole(event.range, "a whole data set is moved to the GPU".into()));
            } else if let Some(number) = facts.batch_loop(events, event.scope) {
                // A loop that tests gradients takes no steps.
                let steps = facts.loops[number].repeats != Repeats::Here
                    || events.iter().any(|other| matches!(other.kind, EventKind::Step { .. }));
                // An evaluation that a training calls now and then has its own loop.
                let mut loops = facts.loops_around(event.scope).take_while(|inner| *inner != number);
                let is_evaluated = event.gradients == Gradients::Off
                    && loops.any(|inner| facts.loops[inner].iterates != Iterates::Count);
                if !steps || is_evaluated {
                    continue;
                }
                if let Some((factory, made)) = factory(facts, source) {
                    let matters = !is_tiny(factory);
                    let finding = made_on_cpu(facts, call, factory, made);
                    findings.push(finding.leaves_open(evidence::open([(Open::Amount, matters)])));
                }
            } else if is_sliced_set(facts, event, source) {
                findings.push(whole(
                    event.range,
                    format!("`{}` holds the whole data set and goes to the GPU at once", facts.text(*source)),
                ));
            }
        }
    }
}

/// How large a data set is, and whether it belongs on the GPU, no source shows.
fn whole(range: TextRange, message: String) -> Finding {
    Finding::new(RULE.code, range, message)
        .leaves_open(vec![Open::Amount])
        .about(Subject::Made)
        .costs("the size of the set, for the whole training; a batch at a time needs the size of a batch")
        .advises("move each batch in the loop: `x = x.to(device, non_blocking=True)` with `pin_memory=True`")
}

/// A PyTorch factory function that could create its tensor on the device, and its name. What is computed from such a tensor and
/// from numbers alone could be computed there too: `(torch.rand(n) * 2).long()`.
fn factory<'a>(facts: &FileFacts<'_>, source: &'a Expr) -> Option<(&'a ExprCall, String)> {
    let call = match source {
        Expr::Call(call) => call,
        Expr::UnaryOp(operation) => return factory(facts, &operation.operand),
        Expr::BinOp(operation) => {
            let (left, right) = (&*operation.left, &*operation.right);
            return match (left.is_number_literal_expr(), right.is_number_literal_expr()) {
                (false, true) => factory(facts, left),
                (true, false) => factory(facts, right),
                _ => None,
            };
        }
        _ => return None,
    };
    if let Expr::Attribute(method) = &*call.func
        && method.value.is_call_expr()
        && call.arguments.args.iter().all(is_number)
        && call.arguments.keywords.iter().all(|keyword| is_number(&keyword.value))
    {
        return factory(facts, &method.value);
    }
    let path = facts.index.resolve(&names::dotted(&call.func)?)?;
    let name = path.strip_prefix("torch.")?;
    if name == "bernoulli" {
        return factory(facts, call.arguments.args.first()?);
    }
    let serves = matches!(
        name,
        "zeros"
            | "ones"
            | "full"
            | "empty"
            | "rand"
            | "randn"
            | "randint"
            | "arange"
            | "linspace"
            | "eye"
            | "randperm"
            | "normal"
            | "logspace"
    );
    // A single number is nothing to save.
    let is_list = |first: &Expr| first.is_list_expr() && is_literal(first);
    let is_literal = name == "tensor" && call.arguments.args.first().is_some_and(is_list);
    let has_device = call.arguments.find_keyword("device").is_some();
    ((serves || is_literal) && !has_device).then(|| (call, name.to_string()))
}

/// Whether a factory makes one row with a number for each of a few parts: `torch.zeros(len(batches))`.
fn is_tiny(factory: &ExprCall) -> bool {
    let is_length = |size: &Expr| matches!(size, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if name.id.as_str() == "len"));
    matches!(&factory.arguments.args[..], [size] if is_length(size))
}

/// A number that needs no tensor's contents: `4`, `len(x)`, `x.size(0)`, `x.shape[0]`.
fn is_number(expression: &Expr) -> bool {
    match expression {
        Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) => true,
        Expr::UnaryOp(operation) => is_number(&operation.operand),
        Expr::BinOp(operation) => is_number(&operation.left) && is_number(&operation.right),
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => name.id.as_str() == "len",
            Expr::Attribute(method) => method.attr.as_str() == "size" && call.arguments.len() == 1,
            _ => false,
        },
        Expr::Subscript(part) => matches!(&*part.value, Expr::Attribute(whole) if whole.attr.as_str() == "shape"),
        _ => false,
    }
}

fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) => true,
        Expr::List(list) => list.elts.iter().all(is_literal),
        Expr::UnaryOp(operation) => is_literal(&operation.operand),
        _ => false,
    }
}

fn made_on_cpu(facts: &FileFacts<'_>, call: &ExprCall, factory: &ExprCall, name: String) -> Finding {
    let moved = match call.arguments.find_argument_value("device", 0) {
        Some(device) => facts.text(device).to_string(),
        None => "\"cuda\"".to_string(),
    };
    let is_random = name.starts_with("rand") || name == "normal";
    let finding = Finding::new(
        RULE.code,
        call.range(),
        format!("`torch.{name}` makes a tensor on the CPU and copies it to the GPU in every step"),
    )
    .costs("each step: the tensor in main memory and a copy that the GPU waits for")
    .advises(format!("make it there: `torch.{name}(…, device={moved})`"));
    let is_moved = matches!(&*call.func, Expr::Attribute(method) if method.value.range() == factory.range());
    let is_simple = is_moved
        && call.arguments.len() <= 1
        && call.arguments.keywords.is_empty()
        && facts.text(factory).ends_with(')')
        && !facts.text(factory).ends_with(",)");
    if !is_simple {
        return finding;
    }
    let separator = if factory.arguments.is_empty() { "" } else { ", " };
    let edits = vec![
        Edit {
            range: TextRange::empty(factory.range().end() - TextSize::from(1)),
            text: format!("{separator}device={moved}"),
        },
        Edit { range: TextRange::new(factory.range().end(), call.range().end()), text: String::new() },
    ];
    // The GPU generates other random numbers than the CPU.
    finding.fixed_by("make it on the device", !is_random, edits)
}

/// Whether a tensor of all examples is moved before the loop and batches are sliced from it.
fn is_sliced_set(facts: &FileFacts<'_>, event: &Event<'_>, source: &Expr) -> bool {
    // A loop of the callers may go through runs.
    let function = facts.function_scope(event.scope);
    let in_loop =
        facts.loops_around(event.scope).any(|number| facts.function_scope(facts.loops[number].scope) == function);
    if facts.index.has_graphs || in_loop || !facts.index.has_torch {
        return false;
    }
    // What a call returns may be anything: a mask, a buffer for results.
    let is_data = match source {
        Expr::Call(call) => {
            names::dotted(&call.func).is_some_and(|name| {
                matches!(
                    names::last(&name),
                    "tensor"
                        | "from_numpy"
                        | "as_tensor"
                        | "FloatTensor"
                        | "LongTensor"
                        | "Tensor"
                        | "stack"
                        | "cat"
                        | "float"
                        | "long"
                        | "load"
                )
            }) || call.func.is_attribute_expr()
                && matches!(&*call.func, Expr::Attribute(method) if method.value.is_call_expr() || matches!(method.attr.as_str(), "float" | "long" | "type"))
        }
        _ => true,
    };
    if !is_data {
        return false;
    }
    let statement = &facts.source[event.statement];
    let target = statement.split('=').next().unwrap_or_default().trim();
    let names: Vec<&str> = target.split(',').map(str::trim).collect();
    let own = names::access_path(source);
    let is_set = |name: &str| {
        let words = names::words(name);
        let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(&word.as_str()));
        has(&names::SETS) && !has(&["loader", "dl", "model", "net", "batch", "loss"])
    };
    let in_dataset = |name: &str| {
        facts.source.match_indices("TensorDataset(").any(|(position, _)| {
            let rest = &facts.source[position..];
            let arguments = &rest[..rest.find('\n').unwrap_or(rest.len())];
            names::words(arguments).join("_").contains(&names::words(name).join("_")) && arguments.contains(name)
        })
    };
    let is_cut = |name: &str| {
        facts.source.match_indices(&format!("{name}[")).any(|(position, _)| {
            let before = facts.source[..position].chars().next_back();
            let inside = &facts.source[position + name.len() + 1..];
            let index = &inside[..inside.find(']').unwrap_or(0)];
            before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_' && letter != '.')
                && (index.contains(':') && index.contains(|letter: char| letter.is_alphabetic())
                    || ["idx", "indices", "perm", "batch", "index", "ids"].iter().any(|word| index.contains(word)))
        })
    };
    // What a network gets in training is cut from it, whatever it is called.
    let feeds = |name: &str| {
        facts.roots.iter().any(|events| {
            events.iter().any(|other| {
                matches!(other.kind, EventKind::Forward { .. })
                    && facts.loops_around(other.scope).any(|number| facts.trains(events, number))
                    && is_cut_in(&facts.source[other.range], name)
            })
        })
    };
    let in_constructor = statement.contains("TensorDataset(");
    let candidates = names.into_iter().chain(own.as_deref());
    in_constructor
        || candidates
            .filter(|name| {
                !name.is_empty()
                    && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '.')
            })
            .any(|name| in_dataset(name) || is_set(name) && is_cut(name) || feeds(name))
}

/// `net(X[rows])`, `net(X[i:i + size])`: an index that is no constant.
fn is_cut_in(call: &str, name: &str) -> bool {
    call.match_indices(&format!("{name}[")).any(|(position, _)| {
        let before = call[..position].chars().next_back();
        let inside = &call[position + name.len() + 1..];
        let index = &inside[..inside.find(']').unwrap_or(0)];
        before.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_' && letter != '.')
            && index.contains(|letter: char| letter.is_alphabetic())
            && !index.contains(['"', '\''])
    })
}
