//! Assignments: the new value of a variable, and values kept across iterations.

use std::rc::Rc;

use ruff_python_ast::{Expr, Operator, StmtAugAssign};
use ruff_text_size::Ranged;

use super::{Binding, Interpreter};
use crate::analysis::facts::{EventKind, Gradients, Keeping};
use crate::analysis::names::{self, access_path};
use crate::analysis::usage::is_fluent;
use crate::analysis::value::{Bound, Certainty, Provenance, Tensor, Value, merge};

impl<'a> Interpreter<'a> {
    pub(super) fn assign(&mut self, targets: &'a [Expr], value: &'a Expr) {
        self.target = targets.first().and_then(access_path);
        let result = self.eval(value);
        self.target = None;
        let is_empty = is_empty(value);
        // `context = torch.enable_grad if training else torch.no_grad`.
        if let [target] = targets
            && let Some(name) = access_path(target)
        {
            match self.grad_context(value) {
                Some(mode) => self.contexts.insert(name, mode),
                None => self.contexts.remove(&name),
            };
        }
        for target in targets {
            if let Some(name) = access_path(target).filter(|name| is_empty && self.lookup(name).is_some()) {
                self.record(EventKind::Delete { name }, target.range());
            }
            // `keep` has updated an accumulator already.
            if !self.kept_by_assignment(target, value, &result) {
                self.bind(target, result.clone(), Some(value));
            }
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
                let how = if is_list { Keeping::Append } else { Keeping::Add };
                self.keep(&name, value, &assign.value, how, Bound::Open);
            }
            Operator::Div | Operator::Mult | Operator::Sub => {
                if let Some(binding) = current {
                    let mut result = self.arithmetic(&binding.value, &value);
                    if let Value::Tensor(tensor) = &mut result {
                        tensor.is_divided |= assign.op == Operator::Div;
                        tensor.is_weighed |= matches!(assign.op, Operator::Div | Operator::Mult);
                    }
                    self.store_at(name, Binding { value: result, scope: binding.scope });
                }
            }
            _ => {}
        }
    }

    /// Records that a container keeps a value, and notes that in the container's provenance.
    pub(super) fn keep(
        &mut self,
        container: &str,
        value: Value,
        expression: &'a Expr,
        how: Keeping,
        bound: Bound,
    ) -> bool {
        let at = self.statement.start().to_u32();
        let value = match (how, value) {
            (Keeping::Add | Keeping::Concatenate, Value::Tensor(tensor)) => Value::Tensor(self.recorded(tensor)),
            (Keeping::Add | Keeping::Concatenate, Value::Structure(tensor)) => Value::Structure(self.recorded(tensor)),
            (_, value) => value,
        };
        let known = self.lookup(container).cloned();
        // A deque with `maxlen` drops old items by itself.
        let bound = match &known {
            Some(Binding { value: Value::List(_, own), .. }) => own.either(bound),
            _ => bound,
        };
        if bound == Bound::Few {
            return false;
        }
        let is_foreign = matches!(
            known.as_ref().map(|binding| &binding.value),
            Some(Value::Module(_) | Value::Optimizer(_) | Value::Loader(_) | Value::Instance(..))
        );
        if is_foreign {
            return false;
        }
        // An item that is not known itself lives as long as what it is an item of.
        let whole =
            container.split(['[', '.']).next().filter(|whole| whole.len() < container.len() && *whole != "self");
        let whole = whole.and_then(|whole| self.lookup_variable(whole).map(|binding| binding.scope));
        let defined = known.as_ref().map(|binding| binding.scope).or(whole);
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
                    Binding { value: Value::List(Rc::new(item), Bound::Open), scope: binding.scope },
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
            EventKind::Keep { container: container.to_string(), defined, value: value.clone(), expression, how, bound },
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
            (Value::Plain | Value::Checkpoint(_), _) => value,
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
            (_, Some(Value::List(item, bound))) => {
                let item = match &*item {
                    Value::Unknown(None) => marked,
                    known => known.join(&marked),
                };
                Value::List(Rc::new(item), bound)
            }
            _ => Value::List(Rc::new(marked), Bound::Open),
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
                    Value::Tensor(tensor) if tensor.is_loss => {
                        elts.iter().map(|part| self.loss_part(tensor, part)).collect()
                    }
                    Value::Structure(tensor) | Value::Tensor(tensor) => {
                        vec![Value::Structure(tensor.clone()); elts.len()]
                    }
                    Value::List(item, _) => vec![(**item).clone(); elts.len()],
                    Value::Checkpoint(_) => vec![value.clone(); elts.len()],
                    Value::Accelerator | Value::Plain => vec![Value::UNKNOWN; elts.len()],
                    other => vec![Value::Unknown(other.provenance()); elts.len()],
                };
                // `a, b = A(), B()` makes two.
                let made: Option<&'a [Expr]> = match expression {
                    Some(Expr::Tuple(tuple)) if tuple.elts.len() == elts.len() => Some(&tuple.elts),
                    _ => None,
                };
                for (number, (part, value)) in elts.iter().zip(parts).enumerate() {
                    self.bind(part, value, made.map_or(expression, |made| made.get(number)));
                }
            }
            Expr::Starred(starred) => self.bind(&starred.value, value, expression),
            _ => {
                let Some(name) = access_path(target) else { return };
                let value = self.named(&name, value, expression);
                if !target.is_name_expr() {
                    self.escape(&value.provenance());
                }
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
                            Value::List(item, bound) => {
                                let joined = if **item == Value::UNKNOWN { value.clone() } else { item.join(&value) };
                                Some(Value::List(Rc::new(joined), *bound))
                            }
                            Value::Plain | Value::Unknown(_) if matches!(value, Value::Checkpoint(_)) => {
                                Some(value.clone())
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

    /// A part of what a loss function returns: beside the loss there may be numbers.
    fn loss_part(&mut self, tensor: &Tensor, part: &Expr) -> Value {
        let is_loss =
            access_path(part).is_some_and(|name| names::is_loss(&name) || self.backward_names().all.contains(&name));
        let graph = if is_loss { tensor.graph } else { tensor.graph.either(Certainty::Unknown) };
        Value::Structure(Tensor { graph, ..tensor.clone() })
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

    /// A network is switched to evaluation or training.
    pub(super) fn switch(&mut self, module: &str, is_evaluation: bool, range: ruff_text_size::TextRange) {
        self.modes.insert(module.to_string(), is_evaluation);
        self.record(EventKind::Mode { module: module.to_string(), is_evaluation }, range);
    }

    /// Evaluates without recording events.
    pub(super) fn quietly<T>(&mut self, evaluate: impl FnOnce(&mut Self) -> T) -> T {
        self.silent += 1;
        let result = evaluate(self);
        self.silent -= 1;
        result
    }
}

/// Whether an expression makes an empty container: `[]`, `dict()`, `torch.tensor([]).to(device)`.
fn is_empty(expression: &Expr) -> bool {
    match expression {
        Expr::List(list) => list.elts.is_empty(),
        Expr::Tuple(tuple) => tuple.elts.is_empty(),
        Expr::Dict(dict) => dict.items.is_empty(),
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => {
                matches!(name.id.as_str(), "list" | "dict" | "set" | "defaultdict") && call.arguments.is_empty()
            }
            Expr::Attribute(method) if is_fluent(method.attr.as_str()) => is_empty(&method.value),
            Expr::Attribute(method) => {
                let is_factory = matches!(method.attr.as_str(), "tensor" | "Tensor" | "FloatTensor" | "LongTensor");
                let first = call.arguments.args.first();
                is_factory && first.map_or(method.attr.as_str() != "tensor", is_empty)
            }
            _ => false,
        },
        _ => false,
    }
}
