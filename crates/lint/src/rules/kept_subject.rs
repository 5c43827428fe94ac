//! Which source allocates what a loop keeps.

use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};

use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, Keeping, LoopId};
use crate::analysis::names::access_path;
use crate::analysis::walk::walk_statements;
use crate::recorded::Subject;

/// The memory that the statement of `event` keeps across iterations of the loop `number`.
pub fn subject(
    facts: &FileFacts<'_>,
    event: &Event<'_>,
    expression: &Expr,
    how: Keeping,
    number: LoopId,
    keeps_graph: bool,
) -> Subject {
    let statement = facts.loops[number].statement;
    let function = facts.function(event.scope).map(|function| &facts.index.functions[function]);
    let made = if keeps_graph {
        // Whatever the iteration computes may be part of the graph.
        statement.map(Ranged::range).or(function.map(|function| function.range)).into_iter().collect()
    } else if matches!(how, Keeping::Add | Keeping::Concatenate) {
        // The result is a new tensor, which keeps nothing alive.
        vec![event.statement]
    } else {
        let body = function.map_or(facts.body, |function| function.body);
        let mut made = vec![event.statement];
        made.extend(assignments(body, &variables(expression), event.statement));
        made
    };
    Subject::Kept { made, body: statement.map_or_else(Vec::new, statements) }
}

/// The header of a loop and the statements in it.
fn statements(statement: &Stmt) -> Vec<TextRange> {
    let body = match statement {
        Stmt::For(statement) => &statement.body,
        Stmt::While(statement) => &statement.body,
        _ => return Vec::new(),
    };
    let Some(first) = body.first() else { return Vec::new() };
    // The header ends on the line before the first statement, or shares its line.
    let header = TextRange::new(statement.start(), first.start());
    std::iter::once(header).chain(body.iter().map(Ranged::range)).collect()
}

/// The variables whose memory an expression is: `loss` in `loss.detach()` and `out` in `out[0]`.
fn variables(expression: &Expr) -> Vec<String> {
    let inner = match expression {
        Expr::Name(_) => Vec::new(),
        Expr::Attribute(attribute) => variables(&attribute.value),
        Expr::Subscript(subscript) => variables(&subscript.value),
        Expr::Starred(starred) => variables(&starred.value),
        Expr::Call(call) => match &*call.func {
            Expr::Attribute(method) => variables(&method.value),
            _ => Vec::new(),
        },
        Expr::Tuple(tuple) => tuple.elts.iter().flat_map(variables).collect(),
        Expr::List(list) => list.elts.iter().flat_map(variables).collect(),
        Expr::Dict(dict) => dict.items.iter().flat_map(|item| variables(&item.value)).collect(),
        _ => Vec::new(),
    };
    access_path(expression).into_iter().chain(inner).collect()
}

/// The statements before `until` that give one of the variables its value.
fn assignments(body: &[Stmt], variables: &[String], until: TextRange) -> Vec<TextRange> {
    let binds = |target: &Expr| targets(target).iter().any(|name| variables.contains(name));
    let mut found = Vec::new();
    walk_statements(body, &mut |statement| {
        if statement.start() >= until.start() {
            return;
        }
        match statement {
            Stmt::Assign(assign) if assign.targets.iter().any(binds) => found.push(assign.range),
            Stmt::AnnAssign(assign) if binds(&assign.target) => found.push(assign.range),
            Stmt::AugAssign(assign) if binds(&assign.target) => found.push(assign.range),
            Stmt::For(loop_) if binds(&loop_.target) => found.push(loop_.iter.range()),
            _ => {}
        }
    });
    found
}

fn targets(target: &Expr) -> Vec<String> {
    match target {
        Expr::Tuple(tuple) => tuple.elts.iter().flat_map(targets).collect(),
        Expr::List(list) => list.elts.iter().flat_map(targets).collect(),
        Expr::Starred(starred) => targets(&starred.value),
        target => access_path(target).into_iter().collect(),
    }
}
