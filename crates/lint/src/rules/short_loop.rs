//! Loops that the file shows to run a few times: through a list that is written out, or one that such a loop fills.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Stmt};

use crate::analysis::FileFacts;
use crate::analysis::facts::LoopId;
use crate::analysis::index::number;
use crate::analysis::names;

/// How many rounds keep so little that nobody needs to free it.
const FEW: usize = 16;

/// Whether a loop runs at most so many times in every run.
pub(super) fn runs_few_times(facts: &FileFacts<'_>, loop_: LoopId) -> bool {
    match facts.loops[loop_].statement {
        Some(Stmt::For(statement)) => is_short(facts, &statement.iter, 2),
        _ => false,
    }
}

fn is_short(facts: &FileFacts<'_>, iterated: &Expr, depth: usize) -> bool {
    match iterated {
        Expr::List(list) => list.elts.len() <= FEW && !list.elts.iter().any(Expr::is_starred_expr),
        Expr::Tuple(tuple) => tuple.elts.len() <= FEW && !tuple.elts.iter().any(Expr::is_starred_expr),
        Expr::Call(call) => match names::dotted(&call.func).as_deref() {
            Some("range") => match &call.arguments.args[..] {
                [end] => number(end).is_some_and(|end| end <= FEW as f64),
                _ => false,
            },
            Some("enumerate" | "zip" | "tqdm" | "reversed" | "sorted") => {
                call.arguments.args.iter().any(|argument| is_short(facts, argument, depth))
            }
            _ => false,
        },
        Expr::Name(name) if depth > 0 => {
            let mut sources = Sources { facts, name: name.id.as_str(), depth, loops: Vec::new(), sizes: Vec::new() };
            sources.visit_body(facts.body);
            !sources.sizes.is_empty() && sources.sizes.iter().all(|is_few| *is_few)
        }
        _ => false,
    }
}

/// Where a list gets its items: each assignment, and each loop that appends to it.
struct Sources<'f, 's, 'n> {
    facts: &'f FileFacts<'s>,
    name: &'n str,
    depth: usize,
    loops: Vec<bool>,
    sizes: Vec<bool>,
}

impl<'a> Visitor<'a> for Sources<'_, '_, '_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::For(inner) => {
                let is_few = is_short(self.facts, &inner.iter, self.depth - 1);
                if inner.target.as_name_expr().is_some_and(|target| target.id.as_str() == self.name) {
                    self.sizes.push(false);
                }
                self.loops.push(is_few);
                visitor::walk_stmt(self, statement);
                self.loops.pop();
                return;
            }
            Stmt::While(_) => {
                self.loops.push(false);
                visitor::walk_stmt(self, statement);
                self.loops.pop();
                return;
            }
            // A parameter of this name may be anything.
            Stmt::FunctionDef(function) => {
                let mut parameters = function.parameters.iter_non_variadic_params();
                if parameters.any(|parameter| parameter.name().as_str() == self.name) {
                    self.sizes.push(false);
                }
            }
            Stmt::Assign(assign) => {
                let is_own = |target: &Expr| target.as_name_expr().is_some_and(|own| own.id.as_str() == self.name);
                if assign.targets.iter().any(is_own) {
                    let is_written_out = assign.value.is_list_expr() || assign.value.is_tuple_expr();
                    self.sizes.push(is_written_out && is_short(self.facts, &assign.value, 0));
                } else if assign.targets.iter().any(|target| names_it(target, self.name)) {
                    self.sizes.push(false);
                }
            }
            Stmt::AugAssign(assign) if names_it(&assign.target, self.name) => self.sizes.push(false),
            _ => {}
        }
        visitor::walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression
            && let Expr::Attribute(method) = &*call.func
            && method.value.as_name_expr().is_some_and(|owner| owner.id.as_str() == self.name)
            && matches!(method.attr.as_str(), "append" | "extend" | "insert")
        {
            let is_one = method.attr.as_str() != "extend";
            self.sizes.push(is_one && self.loops.len() <= 1 && self.loops.iter().all(|is_few| *is_few));
        }
        visitor::walk_expr(self, expression);
    }
}

fn names_it(target: &Expr, name: &str) -> bool {
    match target {
        Expr::Tuple(tuple) => tuple.elts.iter().any(|part| names_it(part, name)),
        other => other.as_name_expr().is_some_and(|own| own.id.as_str() == name),
    }
}
