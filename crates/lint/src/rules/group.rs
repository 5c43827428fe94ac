//! Tests that hold once in a group of batches: `if (i + 1) % n == 0`.

use ruff_python_ast::{Expr, ExprBinOp, Operator, Stmt};
use ruff_text_size::{TextRange, TextSize};

use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, LoopId};
use crate::analysis::walk::walk_statements;

/// A step once in a group of batches.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The test.
    pub test: &'a Expr,
    /// The `step % n` in it.
    pub modulus: &'a ExprBinOp,
    /// What runs only when it holds.
    pub under: Under,
}

/// The code that runs only when the group's test holds.
#[derive(Clone, Copy, Debug)]
pub enum Under {
    /// The arm of an `if`.
    Branch(TextRange),
    /// Everything after an `if … continue`.
    After(TextSize),
}

/// `step % n` in a test.
pub fn modulus(test: &Expr) -> Option<&ExprBinOp> {
    match test {
        Expr::BinOp(operation) if operation.op == Operator::Mod => Some(operation),
        Expr::Compare(compare) => modulus(&compare.left).or_else(|| compare.comparators.iter().find_map(modulus)),
        Expr::BoolOp(operation) => operation.values.iter().find_map(modulus),
        Expr::UnaryOp(operation) => modulus(&operation.operand),
        _ => None,
    }
}

/// Tests that the loop assigns to a name first: `is_update = (i + 1) % n == 0`.
pub fn named_tests<'a>(facts: &FileFacts<'a>, number: LoopId) -> Vec<(&'a str, &'a Expr)> {
    let mut named = Vec::new();
    walk_statements(loop_body(facts, number), &mut |statement| {
        if let Stmt::Assign(assign) = statement
            && let [Expr::Name(target)] = &assign.targets[..]
            && modulus(&assign.value).is_some()
        {
            named.push((target.id.as_str(), &*assign.value));
        }
    });
    named
}

/// The test that a name stands for, or the test itself.
pub fn resolved<'a>(test: &'a Expr, named: &[(&'a str, &'a Expr)]) -> &'a Expr {
    match test {
        Expr::Name(name) => named.iter().find(|(known, _)| *known == name.id.as_str()).map_or(test, |(_, test)| test),
        _ => test,
    }
}

/// `if (i + 1) % n: continue` before the step.
pub fn skipped_before<'a>(
    facts: &FileFacts<'a>,
    step: &Event<'_>,
    number: LoopId,
    named: &[(&'a str, &'a Expr)],
) -> Option<Group<'a>> {
    loop_body(facts, number).iter().find_map(|statement| match statement {
        Stmt::If(choice)
            if choice.range.end() <= step.range.start()
                && choice.elif_else_clauses.is_empty()
                && matches!(choice.body.last(), Some(Stmt::Continue(_))) =>
        {
            let test = resolved(&choice.test, named);
            Some(Group { test, modulus: modulus(test)?, under: Under::After(choice.range.end()) })
        }
        _ => None,
    })
}

/// The statements of a loop.
pub fn loop_body<'a>(facts: &FileFacts<'a>, number: LoopId) -> &'a [Stmt] {
    match facts.loops[number].statement {
        Some(Stmt::For(statement)) => &statement.body,
        Some(Stmt::While(statement)) => &statement.body,
        _ => &[],
    }
}

/// Whether an event is in the code that runs only when the group's test holds.
pub fn is_under(facts: &FileFacts<'_>, event: &Event<'_>, under: Under, number: LoopId) -> bool {
    match under {
        Under::Branch(branch) => facts.branches(event.scope, Some(number)).iter().any(|(_, range)| *range == branch),
        Under::After(end) => event.range.start() >= end,
    }
}
