//! Whether a network is only tried out: once, on random or constant tensors, and its result is printed or asserted.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::Ranged;

use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind};
use crate::analysis::names;
use crate::analysis::walk::walk_statements;

/// A sample of a generator starts from random tensors too, but is saved or shown.
pub fn is_shape_check(facts: &FileFacts<'_>, event: &Event<'_>) -> bool {
    let is_made_up = matches!(event.kind, EventKind::Forward { is_made_up: true, .. });
    if !is_made_up || facts.loops_around(event.scope).next().is_some() {
        return false;
    }
    let function = facts.function(event.scope);
    let body = function.map_or(facts.body, |function| facts.index.functions[function].body);
    // At module level, functions have variables of their own.
    let own = body
        .iter()
        .filter(|statement| function.is_some() || !matches!(statement, Stmt::FunctionDef(_) | Stmt::ClassDef(_)));
    let mut results: Vec<String> = Vec::new();
    let mut is_looked_at = true;
    let mut look = |statement: &Stmt| {
        if statement.range() == event.statement {
            match statement {
                Stmt::Assign(assign) => results.extend(assign.targets.iter().flat_map(variables)),
                // Nobody takes the result.
                Stmt::Expr(expression) if expression.value.range() == event.range => {}
                Stmt::Expr(_) | Stmt::Assert(_) => is_looked_at &= is_statement_of_check(statement),
                _ => is_looked_at = false,
            }
        } else if statement.start() > event.statement.end() && mentions(statement, &results) {
            match statement {
                Stmt::Assign(assign) => results.extend(assign.targets.iter().flat_map(variables)),
                // Their own statements follow.
                Stmt::If(_) | Stmt::With(_) | Stmt::Try(_) => {}
                _ => is_looked_at &= is_statement_of_check(statement),
            }
        }
    };
    for statement in own {
        walk_statements(std::slice::from_ref(statement), &mut look);
    }
    is_looked_at
}

/// A test, or a line of output.
fn is_statement_of_check(statement: &Stmt) -> bool {
    match statement {
        Stmt::Assert(_) => true,
        Stmt::Expr(expression) => match &*expression.value {
            Expr::Call(call) => names::dotted(&call.func).is_none_or(|name| {
                let last = names::last(&name);
                matches!(last, "print" | "info" | "debug" | "forward" | "summary") || last.starts_with("assert")
            }),
            _ => true,
        },
        _ => false,
    }
}

/// The variables that an assignment binds.
fn variables(target: &Expr) -> Vec<String> {
    match target {
        Expr::Tuple(tuple) => tuple.elts.iter().flat_map(variables).collect(),
        Expr::List(list) => list.elts.iter().flat_map(variables).collect(),
        other => names::access_path(other).into_iter().collect(),
    }
}

fn mentions(statement: &Stmt, variables: &[String]) -> bool {
    struct Finder<'v> {
        variables: &'v [String],
        is_found: bool,
    }
    impl<'a> Visitor<'a> for Finder<'_> {
        fn visit_expr(&mut self, expression: &'a Expr) {
            let is_one = || names::access_path(expression).is_some_and(|path| self.variables.contains(&path));
            self.is_found |= is_one();
            visitor::walk_expr(self, expression);
        }
    }
    let mut finder = Finder { variables, is_found: false };
    finder.visit_stmt(statement);
    finder.is_found
}
