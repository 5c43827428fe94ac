//! VF004: an evaluation loader whose batch is the whole data set, or at least 16 times the training batch.

use ruff_python_ast::{Expr, ExprCall, Operator};
use ruff_text_size::Ranged;

use super::rule::Rule;
use crate::analysis::FileFacts;
use crate::analysis::facts::EventKind;
use crate::analysis::index::number;
use crate::analysis::names::{self, Role};
use crate::analysis::walk::walk_statements;
use crate::finding::Finding;

pub(super) const RULE: Rule = Rule {
    code: "VF004",
    summary: "an evaluation loader with a huge batch",
    is_default: true,
    page: include_str!("../../../../docs/lint/VF004.md"),
    check,
};

/// An evaluation batch this many times the training batch is reported.
const MIN_RATIO: f64 = 16.0;

fn check(facts: &FileFacts<'_>, findings: &mut Vec<Finding>) {
    let mut built: Vec<(&ExprCall, Role)> = Vec::new();
    for event in facts.roots.iter().flatten() {
        if let EventKind::LoaderBuilt { call, role } = &event.kind
            && !built.iter().any(|(known, _)| known.range() == call.range())
        {
            built.push((call, *role));
        }
    }
    let training: Vec<_> = built
        .iter()
        .filter(|(_, role)| *role == Role::Train)
        .filter_map(|(call, _)| call.arguments.find_argument_value("batch_size", 1))
        .collect();
    for (call, role) in &built {
        if *role != Role::Evaluation {
            continue;
        }
        let Some(size) = call.arguments.find_argument_value("batch_size", 1) else { continue };
        let evaluated = value(facts, size);
        if is_whole(facts, call, size) {
            findings.push(
                Finding::new(RULE.code, call.range(), "the evaluation's batch is the whole data set")
                    .costs("the activations of every example at once; they grow with the set")
                    .advises("use the training batch, or twice it: without gradients that fits"),
            );
            continue;
        }
        // Compare with the largest training batch, so that one small loader causes no finding.
        let times = training
            .iter()
            .filter_map(|size_in_training| ratio(facts, size, evaluated, size_in_training))
            .fold(f64::INFINITY, f64::min);
        if times.is_finite() && times >= MIN_RATIO {
            findings.push(
                Finding::new(
                    RULE.code,
                    call.range(),
                    format!("the evaluation's batch is {times} times the training one"),
                )
                .costs(
                    "evaluation may need more memory than training: outputs and single activations grow with the batch",
                )
                .advises("two to four times the training batch is enough without gradients"),
            );
        }
    }
}

/// Whether the batch size is `len(…)` of the loader's own data.
fn is_whole(facts: &FileFacts<'_>, call: &ExprCall, size: &Expr) -> bool {
    let resolved = resolve(facts, size);
    let size = resolved.unwrap_or(size);
    let Expr::Call(length) = size else { return false };
    if !matches!(&*length.func, Expr::Name(name) if name.id.as_str() == "len") {
        return false;
    }
    let of = length.arguments.args.first().map(|argument| facts.text(argument));
    let data = call.arguments.find_argument_value("dataset", 0).map(|argument| facts.text(argument));
    of.is_some()
        && of.zip(data).is_some_and(|(of, data)| {
            data == of || data.contains(of) || names::role(of) == Role::Evaluation || names::is_dataset(of)
        })
}

/// The value of a name that is assigned exactly once in the file.
fn resolve<'a>(facts: &FileFacts<'a>, expression: &Expr) -> Option<&'a Expr> {
    let Expr::Name(name) = expression else { return None };
    let mut found = None;
    walk_statements(facts.body, &mut |statement| {
        if let ruff_python_ast::Stmt::Assign(assign) = statement
            && matches!(&assign.targets[..], [Expr::Name(target)] if target.id == name.id)
        {
            found = if found.is_none() { Some(Some(&*assign.value)) } else { Some(None) };
        }
    });
    found.flatten()
}

fn value(facts: &FileFacts<'_>, size: &Expr) -> Option<f64> {
    if let Some(number) = number(size) {
        return Some(number);
    }
    match size {
        Expr::Name(_) | Expr::Attribute(_) => {
            let path = names::access_path(size)?;
            let last = names::last(&path);
            let constants = &facts.index.constants;
            constants.get(&path).or_else(|| constants.get(&format!("args.{last}"))).copied()
        }
        Expr::BinOp(operation) => {
            let (left, right) = (value(facts, &operation.left)?, value(facts, &operation.right)?);
            match operation.op {
                Operator::Mult => Some(left * right),
                Operator::Add => Some(left + right),
                Operator::Sub => Some(left - right),
                Operator::FloorDiv => Some((left / right).floor()),
                Operator::Pow => Some(left.powf(right)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn ratio(facts: &FileFacts<'_>, size: &Expr, evaluated: Option<f64>, training: &Expr) -> Option<f64> {
    if let (Some(evaluated), Some(training)) = (evaluated, value(facts, training)) {
        return (training > 0.0).then_some((evaluated / training * 10.0).round() / 10.0);
    }
    // `batch_size * 32` beside `batch_size`, whatever its value.
    let Expr::BinOp(operation) = size else { return None };
    if operation.op != Operator::Mult {
        return None;
    }
    let base = facts.text(training);
    if facts.text(&*operation.left) == base {
        return number(&operation.right);
    }
    (facts.text(&*operation.right) == base).then(|| number(&operation.left))?
}
