//! Statements.

use ruff_python_ast::{ExceptHandler, Expr, Stmt, StmtFor, StmtIf, StmtTry, StmtWith};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap as HashMap;

use super::{Binding, Interpreter, LOOP_DEPTH, NESTING};
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Gradients, Iterates, ScopeKind};
use crate::analysis::names::{self, Role};
use crate::analysis::value::{Tensor, Value};

type Variables = HashMap<String, Binding>;

impl<'a> Interpreter<'a> {
    /// Runs statements in order.
    pub(super) fn body(&mut self, body: &'a [Stmt]) {
        if self.nesting > NESTING {
            return;
        }
        self.nesting += 1;
        for statement in body {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let outer = std::mem::replace(&mut self.statement, statement.range());
            self.statement(statement);
            self.statement = outer;
        }
        self.nesting -= 1;
    }

    fn statement(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::Expr(expression) => {
                self.target = None;
                self.eval(&expression.value);
            }
            Stmt::Assign(assign) => self.assign(&assign.targets, &assign.value),
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assign(std::slice::from_ref(&*assign.target), value);
                }
            }
            Stmt::AugAssign(assign) => self.augmented(assign),
            Stmt::For(statement_for) => self.for_loop(statement, statement_for),
            Stmt::While(while_loop) => {
                self.eval(&while_loop.test);
                let (outer, _) = self.new_loop(Iterates::Count, Some(statement));
                self.twice(|this| this.body(&while_loop.body));
                self.scope = outer;
                self.body(&while_loop.orelse);
            }
            Stmt::If(choice) => self.choice(choice),
            Stmt::With(with) => self.with(with),
            Stmt::Try(attempt) => self.attempt(attempt),
            Stmt::Return(returned) => {
                let value = returned.value.as_deref().map_or(Value::None, |value| self.eval(value));
                if self.active.len() <= 1 {
                    self.escape(&value.provenance());
                }
                if self.is_in_training_hook() && value.provenance().is_some() {
                    self.consume(&value);
                    let kind = EventKind::Backward {
                        loss: value.clone(),
                        text: None,
                        retain: false,
                        create: false,
                        is_scaled_by_framework: true,
                    };
                    self.record(kind, returned.range());
                }
                let frame = self.frame();
                frame.returned =
                    Some(frame.returned.as_ref().map_or_else(|| value.clone(), |known| known.join(&value)));
            }
            Stmt::Delete(delete) => {
                for target in &delete.targets {
                    let targets = match target {
                        Expr::Tuple(tuple) => tuple.elts.iter().collect(),
                        other => vec![other],
                    };
                    for path in targets.into_iter().filter_map(names::access_path) {
                        self.record(EventKind::Delete { name: path.clone() }, target.range());
                        self.frame().variables.remove(&path);
                    }
                }
            }
            Stmt::FunctionDef(function) => {
                let found = self.facts.index.functions.iter().position(|known| known.range == function.range);
                if let Some(id) = found {
                    self.store(function.name.to_string(), Value::Function(id));
                }
            }
            Stmt::ClassDef(class) => {
                if let Some(&id) = self.facts.index.class_by_name.get(class.name.as_str()) {
                    self.store(class.name.to_string(), Value::Class(id));
                }
            }
            Stmt::Match(choice) => {
                self.eval(&choice.subject);
                let arms = choice.cases.iter().map(|case| (None, &*case.body)).collect();
                self.arms(arms, true);
            }
            Stmt::Raise(raise) => {
                if let Some(exception) = &raise.exc {
                    self.eval(exception);
                }
            }
            Stmt::Assert(assert) => {
                self.eval(&assert.test);
            }
            _ => {}
        }
    }

    /// Runs a loop's body twice; only the second pass records events.
    fn twice(&mut self, mut pass: impl FnMut(&mut Self)) {
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

    fn snapshot(&mut self) -> Variables {
        self.frame().variables.clone()
    }

    /// Joins the state before with the state after code that may not have run. A variable keeps the scope it was first
    /// defined in.
    fn merge_over(&mut self, before: &Variables) {
        for (path, binding) in &mut self.frame().variables {
            if let Some(known) = before.get(path) {
                binding.value = known.value.join(&binding.value);
            }
        }
    }

    fn for_loop(&mut self, statement: &'a Stmt, statement_for: &'a StmtFor) {
        self.target = None;
        // The body of a generator runs within the loop that draws from it.
        let is_generator = self.is_generator(&statement_for.iter);
        let source = if is_generator {
            self.quietly(|this| this.eval(&statement_for.iter))
        } else {
            self.eval(&statement_for.iter)
        };
        let iterates = self.iterates(&source, &statement_for.iter, &statement_for.target);
        let item = self.item_of(&source, &statement_for.iter, iterates);
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

    /// `for p in model.parameters(): p.requires_grad = False`.
    fn freezing(&mut self, module: &str, body: &'a [Stmt]) {
        let is_off = |statement: &Stmt| match statement {
            Stmt::Assign(assign) => {
                matches!(&assign.targets[..], [Expr::Attribute(target)] if target.attr.as_str() == "requires_grad")
                    && matches!(&*assign.value, Expr::BooleanLiteral(literal) if !literal.value)
            }
            Stmt::Expr(expression) => {
                matches!(&*expression.value, Expr::Call(call) if matches!(&*call.func, Expr::Attribute(method) if method.attr.as_str() == "requires_grad_")
                    && matches!(call.arguments.args.first(), Some(Expr::BooleanLiteral(literal)) if !literal.value))
            }
            _ => false,
        };
        if body.iter().any(is_off) {
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
            Value::Checkpoint(from) => Value::Checkpoint(*from),
            other => Value::Unknown(other.provenance()),
        };
        if iterates == Iterates::Count && matches!(item, Value::Unknown(None)) {
            return Value::Plain;
        }
        if numbered { Value::Tuple(std::rc::Rc::new(vec![Value::Plain, item])) } else { item }
    }

    fn choice(&mut self, choice: &'a StmtIf) {
        self.eval(&choice.test);
        match self.truth(&choice.test) {
            Some(true) => return self.body(&choice.body),
            Some(false) if choice.elif_else_clauses.is_empty() => return,
            Some(false) => {
                if let [only] = &choice.elif_else_clauses[..]
                    && only.test.is_none()
                {
                    return self.body(&only.body);
                }
            }
            None => {}
        }
        let mut arms: Vec<(Option<&'a Expr>, &'a [Stmt])> = vec![(Some(&*choice.test), &*choice.body)];
        for clause in &choice.elif_else_clauses {
            if let Some(test) = &clause.test {
                self.eval(test);
            }
            arms.push((clause.test.as_ref(), &clause.body));
        }
        let may_skip = choice.elif_else_clauses.last().is_none_or(|clause| clause.test.is_some());
        self.arms(arms, may_skip);
    }

    /// Runs alternatives, each from the same state.
    fn arms(&mut self, arms: Vec<(Option<&'a Expr>, &'a [Stmt])>, may_skip: bool) {
        let before = self.snapshot();
        let mut after: Option<Variables> = may_skip.then(|| before.clone());
        for (test, body) in arms {
            let Some(first) = body.first() else { continue };
            self.frame().variables = before.clone();
            let outer = self.enter(ScopeKind::Branch(test, first.range()));
            let gradients = self.gradients;
            self.body(body);
            self.scope = outer;
            self.gradients = gradients;
            let leaves =
                matches!(body.last(), Some(Stmt::Return(_) | Stmt::Continue(_) | Stmt::Break(_) | Stmt::Raise(_)));
            if leaves {
                continue;
            }
            let arm = std::mem::take(&mut self.frame().variables);
            after = Some(match after {
                None => arm,
                Some(known) => join_variables(known, arm),
            });
        }
        self.frame().variables = after.unwrap_or(before);
    }

    fn with(&mut self, with: &'a StmtWith) {
        let (gradients, outer) = (self.gradients, self.scope);
        for item in &with.items {
            if let Some(mode) = self.grad_context(&item.context_expr) {
                self.gradients = mode;
                continue;
            }
            let value = self.eval(&item.context_expr);
            if let Expr::Call(call) = &item.context_expr
                && let Expr::Attribute(method) = &*call.func
            {
                if method.attr.as_str() == "accumulate" {
                    self.enter(ScopeKind::Accumulate);
                }
                if let (Some(target), "scale_loss") = (&item.optional_vars, method.attr.as_str()) {
                    let loss = call.arguments.args.first().map_or(Value::UNKNOWN, |first| self.eval(first));
                    self.bind(target, loss, None);
                    continue;
                }
            }
            if let Some(target) = &item.optional_vars {
                // `with tqdm(loader) as bar` binds the loader.
                self.bind(target, value, None);
            }
        }
        self.body(&with.body);
        self.gradients = gradients;
        self.scope = outer;
    }

    fn attempt(&mut self, attempt: &'a StmtTry) {
        let before = self.snapshot();
        self.body(&attempt.body);
        self.body(&attempt.orelse);
        let mut after = std::mem::take(&mut self.frame().variables);
        for handler in &attempt.handlers {
            let ExceptHandler::ExceptHandler(handler) = handler;
            self.frame().variables = before.clone();
            let outer = self.enter(ScopeKind::Handler);
            let gradients = self.gradients;
            self.body(&handler.body);
            self.scope = outer;
            self.gradients = gradients;
            let leaves = matches!(
                handler.body.last(),
                Some(Stmt::Return(_) | Stmt::Continue(_) | Stmt::Break(_) | Stmt::Raise(_))
            );
            if !leaves {
                let arm = std::mem::take(&mut self.frame().variables);
                after = join_variables(after, arm);
            }
        }
        self.frame().variables = after;
        self.body(&attempt.finalbody);
    }

    /// Sets the grad mode from here on, as the statement `torch.set_grad_enabled(False)` does.
    pub(super) fn set_gradients(&mut self, gradients: Gradients) {
        self.gradients = gradients;
    }

    /// What data is used for, by its name.
    pub(super) fn role_of(expression: &Expr) -> Role {
        names::access_path(expression).map_or(Role::Unknown, |path| names::role(&path))
    }
}

fn join_variables(mut known: Variables, other: Variables) -> Variables {
    for (path, binding) in other {
        match known.get_mut(&path) {
            Some(there) => there.value = there.value.join(&binding.value),
            None => {
                known.insert(path, binding);
            }
        }
    }
    known
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
