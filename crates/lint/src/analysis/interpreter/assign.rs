//! Assignments: the new value of a variable, and values kept across iterations.

use std::rc::Rc;

use ruff_python_ast::{Expr, Operator, StmtAugAssign};
use ruff_text_size::Ranged;

use super::{Binding, Interpreter};
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Gradients, Keeping};
use crate::analysis::names::{self, access_path};
use crate::analysis::value::{Certainty, Provenance, Tensor, Value, merge};

impl<'a> Interpreter<'a> {
    pub(super) fn assign(&mut self, targets: &'a [Expr], value: &'a Expr) {
        self.target = targets.first().and_then(access_path);
        let result = self.eval(value);
        self.target = None;
        for target in targets {
            // `keep` has updated an accumulator already.
            if !self.kept_by_assignment(target, value, &result) {
                self.bind(target, result.clone(), Some(value));
            }
        }
    }

    /// `total = total + loss`, `table[step] = loss`, `all = torch.cat([all, out])`.
    fn kept_by_assignment(&mut self, target: &'a Expr, value: &'a Expr, result: &Value) -> bool {
        let Some(name) = access_path(target) else { return false };
        match value {
            Expr::BinOp(operation) if operation.op == Operator::Add => {
                let mut terms = Vec::new();
                summands(value, &mut terms);
                let (own, others): (Vec<&Expr>, Vec<&Expr>) =
                    terms.into_iter().partition(|term| is_multiple_of(term, &name));
                if own.is_empty() {
                    return false;
                }
                let mut is_kept = false;
                for other in others {
                    let added = self.quietly(|this| this.eval(other));
                    let how = if matches!(other, Expr::List(_)) { Keeping::Append } else { Keeping::Add };
                    is_kept |= self.keep(&name, added, other, how);
                }
                is_kept
            }
            // The first iteration has nothing to add to.
            Expr::If(choice) => {
                self.kept_by_assignment(target, &choice.body, result)
                    || self.kept_by_assignment(target, &choice.orelse, result)
            }
            Expr::Call(call) => {
                let function = names::dotted(&call.func).unwrap_or_default();
                if !matches!(names::last(&function), "cat" | "concat" | "concatenate" | "hstack" | "vstack")
                    || !function.starts_with("torch")
                {
                    return false;
                }
                let Some(
                    Expr::List(ruff_python_ast::ExprList { elts, .. })
                    | Expr::Tuple(ruff_python_ast::ExprTuple { elts, .. }),
                ) = call.arguments.args.first()
                else {
                    return false;
                };
                let mut is_kept = false;
                if elts.iter().any(|part| access_path(part).is_some_and(|part| part == name)) {
                    for part in elts.iter().filter(|part| access_path(part).is_none_or(|part| part != name)) {
                        let added = self.quietly(|this| this.eval(part));
                        is_kept |= self.keep(&name, added, part, Keeping::Concatenate);
                    }
                }
                is_kept
            }
            _ => {
                if let Expr::Subscript(subscript) = target
                    && self.is_new_key(&subscript.slice)
                    && let Some(container) = access_path(&subscript.value)
                    && !matches!(
                        self.lookup(&container).map(|binding| &binding.value),
                        Some(Value::Tensor(_) | Value::Structure(_))
                    )
                {
                    self.keep(&container, result.clone(), value, Keeping::Store);
                }
                false
            }
        }
    }

    /// Whether a key is new in each iteration: a loop counter.
    fn is_new_key(&self, key: &Expr) -> bool {
        match key {
            Expr::Name(name) => {
                let counts = [
                    "step",
                    "epoch",
                    "i",
                    "idx",
                    "index",
                    "iteration",
                    "it",
                    "batch_idx",
                    "batch_index",
                    "global_step",
                    "n",
                    "k",
                    "j",
                    "iter",
                    "num",
                    "count",
                ];
                counts.contains(&name.id.as_str())
            }
            Expr::Attribute(attribute) => matches!(attribute.attr.as_str(), "global_step" | "current_epoch" | "step"),
            Expr::Tuple(tuple) => tuple.elts.iter().any(|key| self.is_new_key(key)),
            _ => false,
        }
    }

    pub(super) fn augmented(&mut self, assign: &'a StmtAugAssign) {
        self.target = access_path(&assign.target);
        let value = self.eval(&assign.value);
        self.target = None;
        let Some(name) = access_path(&assign.target) else { return };
        let current = self.lookup(&name).cloned();
        match assign.op {
            Operator::Add => {
                let is_list = matches!(*assign.value, Expr::List(_))
                    || matches!(current.as_ref().map(|binding| &binding.value), Some(Value::List(..)));
                self.keep(&name, value, &assign.value, if is_list { Keeping::Append } else { Keeping::Add });
            }
            Operator::Div | Operator::Mult | Operator::Sub => {
                if let Some(binding) = current {
                    let mut result = self.arithmetic(&binding.value, &value);
                    if let (Value::Tensor(tensor), Operator::Div) = (&mut result, assign.op) {
                        tensor.is_divided = true;
                    }
                    self.store_at(name, Binding { value: result, scope: binding.scope });
                }
            }
            _ => {}
        }
    }

    /// Records that a container keeps a value, and notes that in the container's provenance.
    pub(super) fn keep(&mut self, container: &str, value: Value, expression: &'a Expr, how: Keeping) -> bool {
        let at = self.statement.start().to_u32();
        let value = match (how, value) {
            (Keeping::Add | Keeping::Concatenate, Value::Tensor(tensor)) => Value::Tensor(self.recorded(tensor)),
            (Keeping::Add | Keeping::Concatenate, Value::Structure(tensor)) => Value::Structure(self.recorded(tensor)),
            (_, value) => value,
        };
        let known = self.lookup(container).cloned();
        // A deque with `maxlen` drops old items by itself.
        if let Some(Binding { value: Value::List(_, true), .. }) = known {
            return false;
        }
        let is_foreign = matches!(
            known.as_ref().map(|binding| &binding.value),
            Some(Value::Module(_) | Value::Optimizer(_) | Value::Loader(_) | Value::Instance(..))
        );
        if is_foreign {
            return false;
        }
        let defined = known.as_ref().map(|binding| binding.scope);
        // A container made in this iteration is not kept for the next.
        let innermost = self.facts.loops_around(self.scope).next();
        let is_fresh = match (defined, innermost) {
            (Some(defined), Some(innermost)) => self.facts.is_in(defined, innermost),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_fresh {
            if how == Keeping::Append
                && let Some(binding) = known
            {
                let item = match &binding.value {
                    Value::List(item, _) if **item != Value::UNKNOWN => item.join(&value),
                    _ => value,
                };
                self.store_at(
                    container.to_string(),
                    Binding { value: Value::List(Rc::new(item), false), scope: binding.scope },
                );
                return true;
            }
            if how == Keeping::Add
                && let Some(binding) = known
            {
                let sum = match (&binding.value, &value) {
                    (Value::Plain | Value::None, added) => added.clone(),
                    (before, Value::Plain) => before.clone(),
                    (before, added) => self.arithmetic(before, added),
                };
                let sum = self.named(container, sum, Some(expression));
                self.store_at(container.to_string(), Binding { value: sum, scope: binding.scope });
                return true;
            }
            return false;
        }
        self.record(
            EventKind::Keep { container: container.to_string(), defined, value: value.clone(), expression, how },
            expression.range(),
        );
        let scope = defined.unwrap_or(0);
        let provenance = Provenance { forwards: Vec::new(), keeps: vec![at] };
        let mark = |value: &Value| -> Value {
            match value.tensor() {
                Some(tensor) => {
                    let provenance = merge(&tensor.provenance, &Some(Rc::new(provenance.clone())));
                    Value::Tensor(Tensor { provenance, ..tensor })
                }
                None => Value::Unknown(merge(&value.provenance(), &Some(Rc::new(provenance.clone())))),
            }
        };
        let marked = match (&value, how) {
            (Value::Plain, _) => value,
            (Value::Tuple(items), _) => Value::Tuple(Rc::new(items.iter().map(mark).collect())),
            (other, _) => mark(other),
        };
        let updated = match (how, known.map(|binding| binding.value)) {
            (Keeping::Add | Keeping::Concatenate, Some(before)) => match (&before, &marked) {
                (Value::Plain | Value::None, added) => added.clone(),
                (before, Value::Plain) => before.clone(),
                (before, added) => self.arithmetic(before, added),
            },
            (Keeping::Add | Keeping::Concatenate, None) => marked,
            (_, Some(Value::List(item, is_bounded))) => {
                let item = match &*item {
                    Value::Unknown(None) => marked,
                    known => known.join(&marked),
                };
                Value::List(Rc::new(item), is_bounded)
            }
            _ => Value::List(Rc::new(marked), false),
        };
        self.store_at(container.to_string(), Binding { value: updated, scope });
        true
    }

    /// Assigns a value to a target.
    pub(super) fn bind(&mut self, target: &'a Expr, value: Value, expression: Option<&'a Expr>) {
        match target {
            Expr::Tuple(ruff_python_ast::ExprTuple { elts, .. })
            | Expr::List(ruff_python_ast::ExprList { elts, .. }) => {
                let parts: Vec<Value> = match &value {
                    Value::Tuple(items) if items.len() == elts.len() => items.to_vec(),
                    Value::Structure(tensor) | Value::Tensor(tensor) => {
                        vec![Value::Structure(tensor.clone()); elts.len()]
                    }
                    Value::List(item, _) => vec![(**item).clone(); elts.len()],
                    Value::Accelerator | Value::Plain => vec![Value::UNKNOWN; elts.len()],
                    other => vec![Value::Unknown(other.provenance()); elts.len()],
                };
                for (part, value) in elts.iter().zip(parts) {
                    self.bind(part, value, expression);
                }
            }
            Expr::Starred(starred) => self.bind(&starred.value, value, expression),
            _ => {
                let Some(name) = access_path(target) else { return };
                let value = self.named(&name, value, expression);
                if let Expr::Attribute(attribute) = target
                    && attribute.attr.as_str() == "grad"
                    && matches!(value, Value::None)
                {
                    self.record(
                        EventKind::ZeroGrad { owner: "parameters".into(), keeps_memory: false },
                        target.range(),
                    );
                }
                if let Expr::Attribute(attribute) = target
                    && attribute.attr.as_str() == "requires_grad"
                    && matches!(value, Value::Bool(true))
                {
                    self.record(EventKind::RequiresGrad, target.range());
                }
                if let Expr::Subscript(subscript) = target {
                    // The item joins the container's value, and is stored under its own key below.
                    if let Some(container) = access_path(&subscript.value)
                        && let Some(binding) = self.lookup(&container).cloned()
                    {
                        let inner = match &binding.value {
                            Value::List(item, is_bounded) => {
                                let joined = if **item == Value::UNKNOWN { value.clone() } else { item.join(&value) };
                                Some(Value::List(Rc::new(joined), *is_bounded))
                            }
                            _ => None,
                        };
                        if let Some(inner) = inner {
                            self.store_at(container, Binding { value: inner, scope: binding.scope });
                        }
                    }
                }
                self.forget_parts(&name);
                match self.gradients {
                    Gradients::Off => self.without_gradients.insert(name.clone()),
                    _ => self.without_gradients.remove(&name),
                };
                self.store(name, value);
            }
        }
    }

    /// Rebinding a name invalidates what is known of its attributes and items.
    fn forget_parts(&mut self, name: &str) {
        if name.contains(['.', '[']) {
            return;
        }
        let is_part = |path: &String| {
            path.len() > name.len() && path.starts_with(name) && matches!(path.as_bytes()[name.len()], b'.' | b'[')
        };
        if self.frame().variables.keys().any(is_part) {
            self.frame().variables.retain(|path, _| !is_part(path));
        }
    }

    /// Refines a value by the name it is assigned to: by the name a loss is recognised, and what goes into a backward pass
    /// carries a graph.
    fn named(&mut self, name: &str, value: Value, expression: Option<&'a Expr>) -> Value {
        match value {
            Value::Tensor(mut tensor) => {
                tensor.is_loss |= names::is_loss(name) && tensor.graph != Certainty::No;
                if tensor.graph == Certainty::Unknown
                    && self.gradients == Gradients::On
                    && self.names_into_backward().contains(name)
                {
                    tensor.graph = Certainty::Yes;
                    tensor.is_loss = true;
                }
                self.loss_made(name, &tensor);
                Value::Tensor(tensor)
            }
            Value::Structure(mut tensor) if names::is_loss(name) && !tensor.is_data => {
                tensor.is_loss = true;
                self.loss_made(name, &tensor);
                Value::Structure(tensor)
            }
            Value::Unknown(provenance)
                if self.gradients != Gradients::Off
                    && is_computed(expression)
                    && !expression.is_some_and(|expression| self.is_made_without_gradients(expression)) =>
            {
                if self.names_into_backward().contains(name) {
                    let at = expression.map_or(self.statement.start(), |expression| expression.range().start());
                    let own = Some(Rc::new(Provenance { forwards: vec![at.to_u32()], keeps: Vec::new() }));
                    let tensor = Tensor {
                        graph: Certainty::Yes,
                        is_loss: true,
                        is_divided: false,
                        provenance: merge(&provenance, &own),
                        ..Tensor::plain(Device::Unknown)
                    };
                    self.loss_made(name, &tensor);
                    return Value::Tensor(tensor);
                }
                Value::Unknown(provenance)
            }
            Value::Module(_) if !name.contains('[') => {
                if let Value::Module(known) = &value
                    && self.on_gpu.contains(&**known)
                {
                    self.on_gpu.insert(name.to_string());
                }
                Value::Module(name.into())
            }
            Value::Optimizer(_) if !name.contains('[') => Value::Optimizer(name.into()),
            other => other,
        }
    }

    /// Whether an expression is part of a value computed with grad mode off.
    fn is_made_without_gradients(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Attribute(attribute) => self.is_made_without_gradients(&attribute.value),
            Expr::Subscript(subscript) => self.is_made_without_gradients(&subscript.value),
            Expr::Name(name) => self.without_gradients.contains(name.id.as_str()),
            _ => false,
        }
    }

    fn loss_made(&mut self, name: &str, tensor: &Tensor) {
        if tensor.graph != Certainty::No && self.names_into_backward().contains(name) {
            self.record(EventKind::LossMade { name: name.to_string() }, self.statement);
        }
    }

    /// Evaluates without recording events.
    pub(super) fn quietly<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        self.silent += 1;
        let result = evaluate(self);
        self.silent -= 1;
        result
    }
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
        other => access_path(other).is_some_and(|path| path == name),
    }
}

fn is_computed(expression: Option<&Expr>) -> bool {
    match expression {
        Some(Expr::Call(_) | Expr::BinOp(_) | Expr::Attribute(_) | Expr::Subscript(_) | Expr::Await(_)) => true,
        Some(Expr::If(choice)) => is_computed(Some(&choice.body)) && is_computed(Some(&choice.orelse)),
        _ => false,
    }
}
