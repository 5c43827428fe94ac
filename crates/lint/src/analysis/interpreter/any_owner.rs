//! Methods that mean the same whatever their owner is: a backward pass, an optimizer's step, a switch of mode, what a container keeps.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use crate::analysis::facts::{EventKind, Keeping};
use crate::analysis::names;
use crate::analysis::value::{Bound, Certainty, Tensor, Value};

impl<'a> Interpreter<'a> {
    /// Methods that mean the same for any owner.
    pub(super) fn whatever_the_owner(
        &mut self,
        owner: &Value,
        expression: &'a Expr,
        name: &str,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
    ) -> Option<Value> {
        let path = names::access_path(expression);
        let range = call.range();
        let is_own_method =
            matches!(owner, Value::Instance(class, _) if self.facts.index.method(*class, name).is_some());
        if is_own_method {
            return None;
        }
        match name {
            "backward" | "manual_backward" => {
                let is_engine = matches!(owner, Value::Accelerator)
                    || name == "manual_backward"
                    || (!arguments.positional.is_empty()
                        && !matches!(owner, Value::Tensor(_) | Value::Structure(_))
                        && !path.as_deref().is_some_and(names::is_loss));
                if is_engine {
                    self.backward(arguments.first(), call.arguments.args.first(), call);
                } else {
                    let loss = self.proven_loss(owner, expression);
                    self.backward(loss, Some(expression), call);
                }
                Some(Value::None)
            }
            "zero_grad" => {
                let keeps_memory = matches!(call.arguments.find_argument_value("set_to_none", 0), Some(Expr::BooleanLiteral(literal)) if !literal.value);
                let owner = match owner {
                    Value::Optimizer(name) | Value::Module(name) => name.to_string(),
                    _ => path.unwrap_or_else(|| "the optimizer".into()),
                };
                self.record(EventKind::ZeroGrad { owner, keeps_memory }, range);
                Some(Value::None)
            }
            "zero_" | "fill_" if is_gradient(expression) => {
                self.record(EventKind::ZeroGrad { owner: "parameters".into(), keeps_memory: false }, range);
                Some(Value::None)
            }
            "step" => {
                let optimizer = match (owner, arguments.positional.first()) {
                    (Value::Scaler, Some(Value::Optimizer(name))) => Some((name.to_string(), false)),
                    (Value::Scaler, _) => Some(("the optimizer".into(), false)),
                    (Value::Optimizer(name), _) => Some((name.to_string(), false)),
                    (Value::Unknown(_) | Value::Module(_), _) => {
                        let path = path.clone().unwrap_or_default();
                        let methods = &self.facts.index.methods_called;
                        let has = |method: &str| methods.get(method).is_some_and(|paths| paths.contains(&path));
                        let is_engine = has("backward");
                        let is_optimizer = has("zero_grad");
                        (is_engine || is_optimizer).then_some((path, is_engine))
                    }
                    _ => None,
                };
                let (optimizer, is_engine) = optimizer?;
                for value in &arguments.positional {
                    if let Value::Function(closure) = *value {
                        let none = Arguments { positional: Vec::new(), keywords: Vec::new() };
                        let loss = self.follow(closure, None, call, &none);
                        self.escape(&loss.provenance());
                    }
                }
                self.record(EventKind::Step { optimizer, is_engine }, range);
                Some(Value::Unknown(arguments.provenance()))
            }
            "eval" | "train"
                if matches!(owner, Value::Module(_) | Value::Instance(..) | Value::Unknown(_) | Value::Criterion)
                    && arguments.positional.len() <= 1 =>
            {
                let switch = call
                    .arguments
                    .args
                    .first()
                    .or_else(|| call.arguments.find_keyword("mode").map(|keyword| &keyword.value));
                let is_evaluation = match (name, switch) {
                    ("eval", None) => true,
                    ("train", None) => false,
                    ("train", Some(switch)) => !self.truth(switch)?,
                    _ => return None,
                };
                let module = match owner {
                    Value::Module(name) => name.to_string(),
                    Value::Instance(_, object) if &**object != "self" => object.to_string(),
                    _ => path?,
                };
                self.switch(&module, is_evaluation, range);
                Some(owner.clone())
            }
            // A meter has `add` too.
            "add" | "put" if !matches!(owner, Value::List(..)) => None,
            "append" | "appendleft" | "add" | "extend" | "insert" | "put"
                if !matches!(
                    owner,
                    Value::Tensor(_) | Value::Structure(_) | Value::Instance(..) | Value::Criterion
                ) || defaulted(expression).is_some() =>
            {
                let container = path.or_else(|| defaulted(expression))?;
                let argument = call.arguments.args.last()?;
                let value = arguments.positional.last()?.clone();
                self.keep(&container, value, argument, Keeping::Append, Bound::Open);
                Some(Value::None)
            }
            "add_" if matches!(owner, Value::Tensor(_)) => {
                let (container, argument) = (path?, call.arguments.args.first()?);
                self.keep(&container, arguments.first(), argument, Keeping::Add, Bound::Open);
                Some(owner.clone())
            }
            "update" | "setdefault"
                if !matches!(owner, Value::Module(_) | Value::Instance(..) | Value::Tensor(_) | Value::Criterion) =>
            {
                let container = path?;
                match (name, &call.arguments.args[..]) {
                    ("update", [Expr::Dict(dict)]) => {
                        self.keep_items(&container, &dict.items);
                    }
                    ("setdefault", [key, value]) if self.is_new_key(key, &container) => {
                        let given = arguments.positional.last().cloned().unwrap_or(Value::UNKNOWN);
                        self.keep(&container, given, value, Keeping::Store, Bound::Open);
                    }
                    // Weights that fit are copied over a network's own.
                    _ => {
                        if let Some(from) = arguments.all().find_map(Value::checkpoint)
                            && let Some(binding) = self.lookup(&container).cloned()
                        {
                            let value = Value::Checkpoint(from);
                            self.store_at(container, super::Binding { value, scope: binding.scope });
                        }
                    }
                }
                None
            }
            "pop" | "popleft" | "popitem" if matches!(owner, Value::List(..) | Value::Unknown(_)) => {
                if let Some(name) = path {
                    self.record(EventKind::Delete { name }, range);
                }
                None
            }
            "clear" => {
                if let Some(path) = &path {
                    self.record(EventKind::Delete { name: path.clone() }, range);
                }
                if let Some(path) = path
                    && let Some(binding) = self.lookup(&path).cloned()
                    && matches!(binding.value, Value::List(..))
                {
                    self.store_at(
                        path,
                        super::Binding {
                            value: Value::List(Rc::new(Value::UNKNOWN), Bound::Open),
                            scope: binding.scope,
                        },
                    );
                }
                Some(Value::None)
            }
            "load_state_dict" => {
                let froms = arguments.all().filter_map(Value::checkpoint);
                let mut froms: Vec<u32> = froms.flat_map(|froms| froms.to_vec()).collect();
                froms.dedup();
                // A scheduler or a scaler has hardly any GPU memory.
                let is_small = matches!(owner, Value::Scheduler | Value::Scaler)
                    || path.as_deref().is_some_and(|path| {
                        let lower = path.to_lowercase();
                        lower.contains("sched") || lower.contains("scaler")
                    });
                // An optimizer takes over the tensors that it is given. A part of a checkpoint leaves the rest.
                let is_optimizer =
                    matches!(owner, Value::Optimizer(_)) || path.as_deref().is_some_and(names::is_optimizer);
                let is_taken = is_optimizer && call.arguments.args.first().is_some_and(Expr::is_call_expr);
                for from in froms.into_iter().filter(|_| !is_small && !is_taken) {
                    self.record(EventKind::LoadState { from, into: path.clone(), is_optimizer }, range);
                }
                Some(Value::Plain)
            }
            "requires_grad_" => {
                let is_off =
                    matches!(call.arguments.args.first(), Some(Expr::BooleanLiteral(literal)) if !literal.value);
                match owner {
                    Value::Module(module) if is_off => {
                        self.frozen.insert(module.to_string());
                    }
                    Value::Instance(_, object) if is_off => {
                        self.frozen.insert(object.to_string());
                    }
                    _ if !is_off => self.record(EventKind::RequiresGrad, range),
                    _ => {}
                }
                let leaf =
                    |tensor: &Tensor| Tensor { is_leaf: !is_off && tensor.graph != Certainty::Yes, ..tensor.clone() };
                Some(match owner {
                    Value::Tensor(tensor) => Value::Tensor(leaf(tensor)),
                    Value::Structure(tensor) => Value::Structure(leaf(tensor)),
                    _ => owner.clone(),
                })
            }
            _ => None,
        }
    }
}

/// `weight.grad`, or `weight.grad.data`.
fn is_gradient(expression: &Expr) -> bool {
    match expression {
        Expr::Attribute(attribute) => match attribute.attr.as_str() {
            "grad" => true,
            "data" => is_gradient(&attribute.value),
            _ => false,
        },
        _ => false,
    }
}

/// The container in `table.setdefault(key, [])`.
fn defaulted(expression: &Expr) -> Option<String> {
    let Expr::Call(call) = expression else { return None };
    match &*call.func {
        Expr::Attribute(method) if method.attr.as_str() == "setdefault" => names::access_path(&method.value),
        _ => None,
    }
}
