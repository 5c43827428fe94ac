//! The variables of a function that go into a backward pass: they carry a graph, whatever computed them.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Operator, Stmt};
use rustc_hash::FxHashSet as HashSet;

use super::names::{access_path, is_loss};

/// The variables of a function that go into a backward pass.
#[derive(Debug, Default)]
pub struct BackwardNames {
    /// Those that reach `backward()` through names and arithmetic alone.
    pub all: HashSet<String>,
    /// Those on which `backward()` itself is called, perhaps scaled.
    pub direct: HashSet<String>,
}

/// The access paths that reach `backward()`. With `returns_loss`, what the function returns counts too: a framework calls
/// `backward()` on it.
pub fn backward_names(body: &[Stmt], returns_loss: bool) -> BackwardNames {
    let mut collector =
        Collector { names: HashSet::default(), direct: HashSet::default(), assignments: Vec::new(), returns_loss };
    collector.visit_body(body);
    let Collector { mut names, direct, assignments, .. } = collector;
    for _ in 0..4 {
        let before = names.len();
        for (target, value) in &assignments {
            if names.contains(target) {
                // A reward or a weight in the sum is not a loss.
                let mut parts = HashSet::default();
                operands(value, &mut parts);
                names.extend(parts.into_iter().filter(|part| is_loss(part)));
            }
        }
        if names.len() == before {
            break;
        }
    }
    BackwardNames { all: names, direct }
}

struct Collector<'a> {
    names: HashSet<String>,
    direct: HashSet<String>,
    assignments: Vec<(String, &'a Expr)>,
    returns_loss: bool,
}

impl<'a> Visitor<'a> for Collector<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    if let Some(target) = access_path(target) {
                        self.assignments.push((target, &assign.value));
                    }
                }
            }
            Stmt::AugAssign(assign) => {
                if let Some(target) = access_path(&assign.target) {
                    self.assignments.push((target, &assign.value));
                }
            }
            Stmt::With(with) => {
                for item in &with.items {
                    if let (Expr::Call(call), Some(target)) = (&item.context_expr, &item.optional_vars)
                        && let (Some(target), Some(first)) = (access_path(target), call.arguments.args.first())
                    {
                        self.assignments.push((target, first));
                    }
                }
            }
            Stmt::Return(returned) if self.returns_loss => match returned.value.as_deref() {
                Some(Expr::Dict(dict)) => {
                    for item in &dict.items {
                        if let Some(Expr::StringLiteral(key)) = &item.key
                            && key.value.to_str() == "loss"
                        {
                            operands(&item.value, &mut self.names);
                        }
                    }
                }
                Some(Expr::If(choice)) => {
                    for arm in [&choice.body, &choice.orelse] {
                        match &**arm {
                            Expr::Tuple(tuple) => {
                                tuple.elts.iter().take(1).for_each(|first| operands(first, &mut self.names))
                            }
                            other => operands(other, &mut self.names),
                        }
                    }
                }
                Some(value) => operands(value, &mut self.names),
                None => {}
            },
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression
            && let Expr::Attribute(attribute) = &*call.func
        {
            match attribute.attr.as_str() {
                "backward" | "manual_backward" => {
                    operands(&attribute.value, &mut self.names);
                    self.direct.extend(scaled(&attribute.value));
                    if let Some(first) = call.arguments.args.first() {
                        operands(first, &mut self.names);
                        self.direct.extend(scaled(first));
                    }
                }
                _ => {}
            }
        }
        visitor::walk_expr(self, expression);
    }
}

/// The variable in `loss`, `loss / 4` or `scaler.scale(loss)`.
fn scaled(expression: &Expr) -> Option<String> {
    match expression {
        Expr::BinOp(operation) if matches!(operation.op, Operator::Mult | Operator::Div) => scaled(&operation.left),
        Expr::Call(call) => match &*call.func {
            Expr::Attribute(method) if method.attr.as_str() == "scale" => scaled(call.arguments.args.first()?),
            _ => None,
        },
        other => access_path(other),
    }
}

/// The access paths that an expression adds up, multiplies or scales.
fn operands(expression: &Expr, names: &mut HashSet<String>) {
    match expression {
        Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) => names.extend(access_path(expression)),
        Expr::BinOp(operation) => {
            operands(&operation.left, names);
            operands(&operation.right, names);
        }
        Expr::UnaryOp(operation) => operands(&operation.operand, names),
        Expr::Call(call) => {
            if let Expr::Attribute(attribute) = &*call.func {
                match attribute.attr.as_str() {
                    "scale" | "scale_loss" => {
                        if let Some(first) = call.arguments.args.first() {
                            operands(first, names);
                        }
                    }
                    "mean" | "sum" | "div" | "mul" | "float" | "squeeze" => operands(&attribute.value, names),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
