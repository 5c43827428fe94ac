//! Loops: what they iterate over, and their bodies.

use ruff_python_ast::{Expr, Stmt, StmtFor};
use ruff_text_size::Ranged;

use super::{Interpreter, LOOP_DEPTH};
use crate::analysis::device::Device;
use crate::analysis::facts::Iterates;
use crate::analysis::index::number;
use crate::analysis::names::{self, Role};
use crate::analysis::value::{Tensor, Value};
use crate::analysis::walk::walk_statements;

impl<'a> Interpreter<'a> {
    /// Runs a loop's body twice; only the second pass records events.
    pub(super) fn twice(&mut self, mut pass: impl FnMut(&mut Self)) {
        self.loop_depth += 1;
        if self.loop_depth <= LOOP_DEPTH {
            let before = self.snapshot();
            let budget = self.budget;
            self.silent += 1;
            pass(self);
            self.silent -= 1;
            // Half of the budget is reserved for the pass that records.
            self.budget = self.budget.max(budget / 2);
            self.merge_over(&before);
        }
        let before = self.snapshot();
        pass(self);
        self.merge_over(&before);
        self.loop_depth -= 1;
    }

    pub(super) fn for_loop(&mut self, statement: &'a Stmt, statement_for: &'a StmtFor) {
        self.target = None;
        // The body of a generator runs within the loop that draws from it.
        let is_generator = self.is_generator(&statement_for.iter);
        let source = if is_generator {
            self.quietly(|this| this.eval(&statement_for.iter))
        } else {
            self.eval(&statement_for.iter)
        };
        let iterates = match self.iterates(&source, &statement_for.iter, &statement_for.target) {
            Iterates::Count if self.goes_by_batches(statement_for) => Iterates::Batches(Role::Unknown),
            iterates => iterates,
        };
        let item = match iterates {
            Iterates::Batches(_) if is_strided(&statement_for.iter) => Value::Plain,
            _ => self.item_of(&source, &statement_for.iter, iterates),
        };
        // Whatever it is: what has parameters that are frozen is a frozen network.
        if let Some(path) = owner_of_parameters(&statement_for.iter) {
            self.freezing(&path, &statement_for.body);
        }
        let freezes = matches!(&source, Value::List(inner, _) if matches!(&**inner, Value::Module(_)));
        let (outer, _) = self.new_loop(iterates, Some(statement));
        self.twice(|this| {
            if is_generator {
                this.eval(&statement_for.iter);
            }
            this.bind(&statement_for.target, item.clone(), None);
            if freezes
                && let Value::List(inner, _) = &source
                && let Value::Module(module) = &**inner
            {
                this.freezing(module, &statement_for.body);
            }
            this.body(&statement_for.body);
        });
        self.scope = outer;
        self.body(&statement_for.orelse);
    }

    /// `for i in range(0, n, size)` with a part of the data brought to a device each time.
    fn goes_by_batches(&self, statement: &StmtFor) -> bool {
        let body = statement.body.first().map(Ranged::start).zip(statement.body.last().map(Ranged::end));
        let text = body.map_or("", |(start, end)| &self.facts.source[start.into()..end.into()]);
        is_strided(&statement.iter) && (text.contains(".to(") || text.contains(".cuda("))
    }

    /// Whether an expression calls a generator of the file, perhaps within `enumerate` or a progress bar.
    fn is_generator(&self, expression: &Expr) -> bool {
        let Expr::Call(call) = expression else { return false };
        let function = match &*call.func {
            Expr::Name(name) => self.facts.index.by_name.get(name.id.as_str()).and_then(|known| known.last()).copied(),
            Expr::Attribute(method) => match &*method.value {
                Expr::Name(owner) if owner.id.as_str() == "self" => {
                    let class = self.frames.last().and_then(|frame| frame.class);
                    class.and_then(|class| self.facts.index.method(class, method.attr.as_str()))
                }
                _ => None,
            },
            _ => None,
        };
        match function {
            Some(function) => self.facts.index.functions[function].is_generator,
            None => call.arguments.args.first().is_some_and(|first| self.is_generator(first)),
        }
    }

    /// `for p in model.parameters(): p.requires_grad = False`. Where such a loop switches some of them on again, a part is trained.
    fn freezing(&mut self, module: &str, body: &'a [Stmt]) {
        let mut switches_on = false;
        walk_statements(body, &mut |statement| switches_on |= requires_grad(statement) == Some(true));
        if switches_on {
            self.thawed.insert(module.to_string());
            self.frozen.remove(module);
        } else if body.iter().any(|statement| requires_grad(statement) == Some(false)) && !self.thawed.contains(module)
        {
            self.frozen.insert(module.to_string());
        }
    }

    /// What a loop iterates over.
    pub(super) fn iterates(&self, source: &Value, expression: &Expr, target: &Expr) -> Iterates {
        match source {
            Value::Loader(loader) => return Iterates::Batches(loader.role),
            Value::Dataset(role) => return Iterates::Batches(*role),
            Value::List(inner, _) if matches!(**inner, Value::Module(_)) => return Iterates::Other,
            _ => {}
        }
        let text = &self.facts.source[expression.range()];
        let targets = &self.facts.source[target.range()];
        let is_range = matches!(expression, Expr::Call(call) if matches!(&*call.func, Expr::Name(name) if matches!(name.id.as_str(), "range" | "trange" | "count")));
        if names::is_fold(targets)
            || names::words(text)
                .iter()
                .any(|word| matches!(word.as_str(), "kfold" | "folds" | "kf" | "skf" | "seeds" | "runs"))
        {
            return Iterates::Runs;
        }
        if is_range || text.contains("range(") || targets.contains("epoch") {
            return Iterates::Count;
        }
        Iterates::Other
    }

    /// The value of the loop variable.
    pub(super) fn item_of(&self, source: &Value, expression: &Expr, iterates: Iterates) -> Value {
        let numbered = matches!(expression, Expr::Call(call) if is_enumerate(&call.func));
        let item = match source {
            Value::Loader(loader) => Value::Structure(Tensor { is_data: true, ..Tensor::plain(loader.device) }),
            Value::Dataset(_) => Value::Structure(Tensor { is_data: true, ..Tensor::plain(Device::Cpu) }),
            Value::List(inner, _) => (**inner).clone(),
            Value::Tensor(tensor) | Value::Structure(tensor) => Value::Structure(tensor.clone()),
            Value::Tuple(items) => {
                let mut items = items.iter();
                let first = items.next().cloned().unwrap_or(Value::UNKNOWN);
                items.fold(first, |all, item| all.join(item))
            }
            Value::Checkpoint(from) => Value::Checkpoint(from.clone()),
            other => Value::Unknown(other.provenance()),
        };
        if iterates == Iterates::Count && matches!(item, Value::Unknown(None)) {
            return Value::Plain;
        }
        if numbered { Value::Tuple(std::rc::Rc::new(vec![Value::Plain, item])) } else { item }
    }
}

/// What `p.requires_grad = False` or `p.requires_grad_(False)` sets.
fn requires_grad(statement: &Stmt) -> Option<bool> {
    let literal = |expression: &Expr| expression.as_boolean_literal_expr().map(|literal| literal.value);
    match statement {
        Stmt::Assign(assign) => match &assign.targets[..] {
            [Expr::Attribute(target)] if target.attr.as_str() == "requires_grad" => literal(&assign.value),
            _ => None,
        },
        Stmt::Expr(expression) => match &*expression.value {
            Expr::Call(call) => match &*call.func {
                Expr::Attribute(method) if method.attr.as_str() == "requires_grad_" => {
                    call.arguments.args.first().map_or(Some(true), literal)
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// `range(start, end, size)`, perhaps within a progress bar.
fn is_strided(expression: &Expr) -> bool {
    let Expr::Call(call) = expression else { return false };
    let is_range = names::access_path(&call.func).is_some_and(|path| matches!(names::last(&path), "range" | "trange"));
    match &call.arguments.args[..] {
        [_, _, step] if is_range => number(step) != Some(1.0),
        [inner, ..] if !is_range => is_strided(inner),
        _ => false,
    }
}

/// `enumerate` and functions that number items in the same way.
pub(super) fn is_enumerate(function: &Expr) -> bool {
    match function {
        Expr::Name(name) => matches!(name.id.as_str(), "enumerate" | "tenumerate"),
        _ => false,
    }
}

/// The network in `net.parameters()`.
fn owner_of_parameters(expression: &Expr) -> Option<String> {
    let Expr::Call(call) = expression else { return None };
    match &*call.func {
        Expr::Attribute(method) if method.attr.as_str() == "parameters" => names::access_path(&method.value),
        _ => None,
    }
}
