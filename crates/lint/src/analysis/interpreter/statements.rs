//! Statements.

use ruff_python_ast::{ExceptHandler, Expr, Stmt, StmtIf, StmtTry, StmtWith};
use ruff_text_size::Ranged;

use super::{Interpreter, NESTING, Variables};
use crate::analysis::facts::{EventKind, Gradients, Iterates, ScopeKind};
use crate::analysis::names::{self, Role};
use crate::analysis::value::Value;

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
                let skipped = self.snapshot();
                self.arms(arms, Some(skipped));
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

    pub(super) fn snapshot(&mut self) -> Variables {
        self.frame().variables.clone()
    }

    /// Joins the state before with the state after code that may not have run. A variable keeps the scope it was first
    /// defined in.
    pub(super) fn merge_over(&mut self, before: &Variables) {
        for (path, binding) in &mut self.frame().variables {
            if let Some(known) = before.get(path) {
                binding.value = known.value.join(&binding.value);
            }
        }
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
        let skipped = may_skip.then(|| {
            let mut variables = self.snapshot();
            super::narrowing::skipped(choice, &mut variables);
            variables
        });
        self.arms(arms, skipped);
    }

    /// Runs alternatives, each from the same state; `skipped` is the state if none of them runs.
    fn arms(&mut self, arms: Vec<(Option<&'a Expr>, &'a [Stmt])>, skipped: Option<Variables>) {
        let before = self.snapshot();
        let mut after = skipped;
        let (gradients, outer_set) = (self.gradients, self.gradients_set.take());
        for (test, body) in arms {
            let Some(first) = body.first() else { continue };
            self.frame().variables = before.clone();
            let outer = self.enter(ScopeKind::Branch(test, first.range()));
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
        // One of the arms may have set another grad mode.
        if self.gradients_set.is_some_and(|set| set != gradients) {
            self.set_gradients(Gradients::Unknown);
        } else {
            self.gradients_set = outer_set;
        }
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
        self.gradients_set = Some(gradients);
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
