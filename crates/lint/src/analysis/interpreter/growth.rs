//! Assignments that make a variable grow: `total = total + loss`, `all = torch.cat([all, out])[:n]`, `table[key] = loss`,
//! `items = [*items, loss]`, `table.update({key: loss})`.

use ruff_python_ast::{DictItem, Expr, ExprCall, Operator, Stmt};

use super::Interpreter;
use crate::analysis::facts::{Keeping, ScopeId};
use crate::analysis::names::{self, access_path};
use crate::analysis::value::{Bound, Value};

impl<'a> Interpreter<'a> {
    /// Records what an assignment keeps. Returns whether the variable has its new value already.
    pub(super) fn kept_by_assignment(&mut self, target: &'a Expr, value: &'a Expr, result: &Value) -> bool {
        let Some(name) = access_path(target) else { return false };
        if let Expr::Subscript(subscript) = target {
            let container = access_path(&subscript.value).unwrap_or_default();
            let is_tensor = matches!(
                self.lookup(&container).map(|binding| &binding.value),
                Some(Value::Tensor(_) | Value::Structure(_))
            );
            // `memory[rows, :] = new` and `table.weight.data[rows] = new` write into a tensor.
            let is_tensor = is_tensor || matches!(names::last(&container), "data" | "weight" | "bias" | "grad");
            let is_sliced = matches!(&*subscript.slice, Expr::Tuple(key) if key.elts.iter().any(Expr::is_slice_expr));
            if !container.is_empty() && !is_tensor && !is_sliced && self.is_new_key(&subscript.slice, &container) {
                self.keep(&container, result.clone(), value, Keeping::Store, Bound::Open);
                return false;
            }
        }
        match value {
            Expr::BinOp(operation) if operation.op == Operator::Add => {
                let mut terms = Vec::new();
                summands(value, &mut terms);
                let (own, others): (Vec<&Expr>, Vec<&Expr>) =
                    terms.into_iter().partition(|term| is_multiple_of(term, &name));
                !own.is_empty() && self.keep_all(&name, others, Keeping::Add, Bound::Open)
            }
            // The first iteration has nothing to add to.
            Expr::If(choice) => {
                self.kept_by_assignment(target, &choice.body, result)
                    || self.kept_by_assignment(target, &choice.orelse, result)
            }
            // A slice bounds the size; the graphs of what is left reach back all the same.
            Expr::Subscript(subscript) if subscript.slice.is_slice_expr() && subscript.value.is_call_expr() => {
                match &*subscript.value {
                    Expr::Call(call) => self.kept_by_call(&name, call, Bound::Many),
                    _ => false,
                }
            }
            Expr::Call(call) => self.kept_by_call(&name, call, Bound::Open),
            Expr::List(ruff_python_ast::ExprList { elts, .. })
            | Expr::Tuple(ruff_python_ast::ExprTuple { elts, .. })
                if elts.iter().any(|part| is_unpacked(part, &name)) =>
            {
                let others = elts.iter().filter(|part| !is_unpacked(part, &name)).collect();
                self.keep_all(&name, others, Keeping::Append, Bound::Open)
            }
            Expr::Dict(dict) if dict.items.iter().any(|item| item.key.is_none() && is_path(&item.value, &name)) => {
                self.keep_items(&name, &dict.items)
            }
            _ => false,
        }
    }

    /// `all = torch.cat([all, out])`, `total = torch.add(total, loss)`, `total = total.add(loss)`.
    fn kept_by_call(&mut self, name: &str, call: &'a ExprCall, bound: Bound) -> bool {
        let Some(function) = names::dotted(&call.func) else { return false };
        let last = names::last(&function);
        let resolved = self.facts.index.resolve(&function).unwrap_or_default();
        let is_torch = resolved.starts_with("torch.") && !resolved.starts_with("torch.nn.");
        if let Expr::Attribute(method) = &*call.func
            && is_path(&method.value, name)
            && matches!(last, "add" | "sub" | "lerp" | "maximum" | "minimum")
        {
            return self.keep_all(name, call.arguments.args.iter().collect(), Keeping::Add, bound);
        }
        if !is_torch || is_empty_result(last) {
            return false;
        }
        let is_joined = matches!(last, "cat" | "concat" | "concatenate" | "hstack" | "vstack" | "stack" | "dstack");
        let parts: Vec<&'a Expr> = match call.arguments.args.first() {
            Some(
                Expr::List(ruff_python_ast::ExprList { elts, .. })
                | Expr::Tuple(ruff_python_ast::ExprTuple { elts, .. }),
            ) => elts.iter().collect(),
            _ => call.arguments.args.iter().collect(),
        };
        let (own, others): (Vec<&Expr>, Vec<&Expr>) = parts.into_iter().partition(|part| is_multiple_of(part, name));
        let how = if is_joined { Keeping::Concatenate } else { Keeping::Add };
        !own.is_empty() && self.keep_all(name, others, how, bound)
    }

    fn keep_all(&mut self, name: &str, values: Vec<&'a Expr>, how: Keeping, bound: Bound) -> bool {
        let mut is_kept = false;
        for value in values {
            let added = self.quietly(|this| this.eval(value));
            if matches!(added, Value::Plain | Value::Bool(_) | Value::None) {
                continue;
            }
            let how = if matches!(value, Expr::List(_)) { Keeping::Append } else { how };
            is_kept |= self.keep(name, added, value, how, bound);
        }
        is_kept
    }

    /// The items of `table.update({key: value})` and `{**table, key: value}`.
    pub(super) fn keep_items(&mut self, container: &str, items: &'a [DictItem]) -> bool {
        let mut is_kept = false;
        for item in items {
            if item.key.as_ref().is_some_and(|key| self.is_new_key(key, container)) {
                let value = self.quietly(|this| this.eval(&item.value));
                is_kept |= self.keep(container, value, &item.value, Keeping::Store, Bound::Open);
            }
        }
        is_kept
    }

    /// Whether a key is another one in each iteration of the loop that outlives the container: it depends on a variable that
    /// this loop sets, or on a counter.
    pub(super) fn is_new_key(&self, key: &Expr, container: &str) -> bool {
        let mut paths = Vec::new();
        key_paths(key, &mut paths);
        let defined = self.lookup(container).map(|binding| binding.scope);
        let outlives = |number: &usize| defined.is_none_or(|defined| !self.facts.is_in(defined, *number));
        let loops: Vec<usize> = self.facts.loops_around(self.scope).filter(outlives).collect();
        let Some(&outermost) = loops.last() else { return false };
        paths.iter().any(|path| {
            if self.facts.index.usage.is_counted(path) || matches!(names::last(path), "global_step" | "current_epoch") {
                return true;
            }
            match self.lookup(path) {
                Some(binding) => self.sets_new_keys(binding.scope, outermost, &loops),
                None => false,
            }
        })
    }

    /// Whether a variable bound in `scope` differs in each iteration of a loop around: a loop over batches or a count, or the only
    /// one that outlives the container. The keys of an inner loop through a fixed set repeat.
    fn sets_new_keys(&self, scope: ScopeId, outermost: usize, loops: &[usize]) -> bool {
        let Some(own) = self.facts.loops_around(scope).find(|number| loops.contains(number)) else { return false };
        use crate::analysis::facts::Iterates;
        own == outermost
            || matches!(self.facts.loops[own].iterates, Iterates::Batches(_) | Iterates::Count)
            || self.goes_through_items_of(own, loops)
    }

    /// Whether an inner loop goes through something that each batch brings anew.
    fn goes_through_items_of(&self, own: usize, loops: &[usize]) -> bool {
        use crate::analysis::facts::Iterates;
        let Some(Stmt::For(statement)) = self.facts.loops[own].statement else { return false };
        let mut paths = Vec::new();
        key_paths(&statement.iter, &mut paths);
        paths.iter().filter_map(|path| self.lookup(path)).any(|binding| {
            let around = self.facts.loops_around(binding.scope).find(|number| loops.contains(number) && *number != own);
            around.is_some_and(|number| self.facts.loops[number].iterates != Iterates::Count)
        })
    }
}

/// The variables that a key depends on.
fn key_paths(key: &Expr, paths: &mut Vec<String>) {
    match key {
        Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) => paths.extend(access_path(key)),
        Expr::Tuple(tuple) => tuple.elts.iter().for_each(|part| key_paths(part, paths)),
        Expr::BinOp(operation) => {
            key_paths(&operation.left, paths);
            key_paths(&operation.right, paths);
        }
        Expr::FString(text) => {
            for element in text.value.elements() {
                if let ruff_python_ast::InterpolatedStringElement::Interpolation(part) = element {
                    key_paths(&part.expression, paths);
                }
            }
        }
        Expr::Call(call) => {
            if let Expr::Attribute(method) = &*call.func {
                key_paths(&method.value, paths);
            }
            call.arguments.args.iter().for_each(|argument| key_paths(argument, paths));
        }
        _ => {}
    }
}

fn is_path(expression: &Expr, path: &str) -> bool {
    access_path(expression).is_some_and(|own| own == path)
}

fn is_unpacked(part: &Expr, name: &str) -> bool {
    matches!(part, Expr::Starred(starred) if is_path(&starred.value, name))
}

/// Functions whose result does not contain their inputs.
fn is_empty_result(name: &str) -> bool {
    super::library_names::is_factory(name) || super::library_names::is_index_function(name) || name == "load"
}

/// The terms of a sum.
fn summands<'a>(expression: &'a Expr, terms: &mut Vec<&'a Expr>) {
    match expression {
        Expr::BinOp(operation) if operation.op == Operator::Add && terms.len() < 16 => {
            summands(&operation.left, terms);
            summands(&operation.right, terms);
        }
        other => terms.push(other),
    }
}

/// `total`, `0.9 * total`, `total / 2`.
fn is_multiple_of(term: &Expr, name: &str) -> bool {
    match term {
        Expr::BinOp(operation) if operation.op == Operator::Mult => {
            is_multiple_of(&operation.left, name) || is_multiple_of(&operation.right, name)
        }
        Expr::BinOp(operation) if operation.op == Operator::Div => is_multiple_of(&operation.left, name),
        // On another device it is the same.
        Expr::Call(call) => match &*call.func {
            Expr::Attribute(method) if matches!(method.attr.as_str(), "to" | "cuda" | "cpu" | "clone" | "type_as") => {
                is_multiple_of(&method.value, name)
            }
            _ => false,
        },
        other => is_path(other, name),
    }
}
