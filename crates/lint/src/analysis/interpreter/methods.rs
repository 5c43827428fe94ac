//! Methods: of tensors, networks, optimizers, scalers, loaders, lists, and of objects of the file.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::{Arguments, loss_of};
use super::library::is_true;
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Keeping};
use crate::analysis::index::ClassKind;
use crate::analysis::names;
use crate::analysis::usage::is_fluent;
use crate::analysis::value::{Bound, Certainty, Loader, Tensor, Value, merge};

impl<'a> Interpreter<'a> {
    pub(super) fn method(
        &mut self,
        owner: Value,
        owner_expression: &'a Expr,
        name: &'a str,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
    ) -> Value {
        if let Some(value) = self.whatever_the_owner(&owner, owner_expression, name, call, arguments) {
            return value;
        }
        match &owner {
            Value::Tensor(tensor) => {
                let tensor = self.recorded(tensor.clone());
                self.tensor_method(&tensor, owner_expression, name, call, arguments, false)
            }
            // Methods of a structure return its parts.
            Value::Structure(tensor) => self.tensor_method(tensor, owner_expression, name, call, arguments, true),
            Value::Module(module) => self.module_method(&module.clone(), name, call, arguments),
            Value::Optimizer(_) => match name {
                "state_dict" => Value::Plain,
                _ => Value::UNKNOWN,
            },
            Value::Scaler => match name {
                "scale" => arguments.first(),
                _ => Value::UNKNOWN,
            },
            Value::Accelerator => match name {
                "prepare" | "setup" | "setup_dataloaders" => {
                    let given = arguments.positional.iter().zip(&call.arguments.args);
                    let prepared: Vec<Value> =
                        given.map(|(value, expression)| self.prepared(value, expression)).collect();
                    match &prepared[..] {
                        [only] => only.clone(),
                        _ => Value::Tuple(Rc::new(prepared)),
                    }
                }
                "gather" | "gather_for_metrics" | "reduce" | "pad_across_processes" => match arguments.first() {
                    Value::Tuple(items) => Value::Tuple(Rc::new(
                        items
                            .iter()
                            .map(|item| {
                                item.tensor().map_or(Value::UNKNOWN, |tensor| {
                                    Value::Tensor(Tensor { is_data: false, ..tensor.detached().on(Device::Gpu) })
                                })
                            })
                            .collect(),
                    )),
                    first => first.tensor().map_or(Value::UNKNOWN, |tensor| {
                        Value::Tensor(Tensor { is_data: false, ..tensor.detached().on(Device::Gpu) })
                    }),
                },
                "clip_grad_norm_" => Value::Plain,
                "unwrap_model" => arguments.first(),
                _ => Value::Unknown(arguments.provenance()),
            },
            Value::Distribution(tensor) => match name {
                "sample" | "mode" => Value::Tensor(tensor.detached()),
                "log_prob" | "rsample" | "entropy" => Value::Tensor(tensor.clone()),
                _ => Value::Unknown(tensor.provenance.clone()),
            },
            Value::List(item, bound) => match name {
                "pop" | "get" | "setdefault" | "popleft" => (**item).clone(),
                "items" => Value::List(Rc::new(Value::Tuple(Rc::new(vec![Value::Plain, (**item).clone()]))), *bound),
                "keys" => Value::Plain,
                _ => owner.clone(),
            },
            Value::Loader(_) | Value::Dataset(_) => match name {
                "to" | "cuda" => owner.clone(),
                "__len__" => Value::Plain,
                _ => owner.clone(),
            },
            Value::Instance(class, object) => {
                let (class, object) = (*class, object.clone());
                match self.facts.index.method(class, name) {
                    // A `forward` without inputs is a step of an object that holds its batch.
                    Some(method) if name != "forward" || call.arguments.is_empty() => {
                        self.follow(method, Some(class), call, arguments)
                    }
                    _ => match self.class_kind(&owner) {
                        Some(ClassKind::Criterion) if is_fluent(name) => owner.clone(),
                        Some(ClassKind::Module | ClassKind::Lightning) => {
                            let module = if &*object == "self" {
                                names::access_path(owner_expression).unwrap_or_else(|| object.to_string())
                            } else {
                                object.to_string()
                            };
                            match self.module_method(&module, name, call, arguments) {
                                Value::Module(_) => owner.clone(),
                                other => other,
                            }
                        }
                        _ => Value::Unknown(arguments.provenance()),
                    },
                }
            }
            Value::Class(class) => match self.facts.index.method(*class, name) {
                Some(method) => self.follow(method, Some(*class), call, arguments),
                None if name == "from_pretrained" => {
                    Value::Instance(*class, self.target.clone().unwrap_or_default().into())
                }
                None => Value::UNKNOWN,
            },
            Value::Plain => Value::Plain,
            Value::Checkpoint(from) => match name {
                "get" | "pop" | "items" | "values" | "copy" => Value::Checkpoint(*from),
                // The checkpoint was a tensor.
                "cuda" | "to" => {
                    self.tensor_method(&Tensor::plain(Device::Cpu), owner_expression, name, call, arguments, true)
                }
                _ => Value::UNKNOWN,
            },
            // `"cuda:{}".format(rank)`.
            Value::Device(device) if name == "format" => Value::Device(*device),
            Value::Unknown(None)
                if name == "cuda" || name == "to" && arguments.all().any(|value| matches!(value, Value::Device(_))) =>
            {
                let tensor = Tensor { graph: Certainty::Unknown, ..Tensor::plain(Device::Cpu) };
                self.tensor_method(&tensor, owner_expression, name, call, arguments, true)
            }
            Value::Criterion if is_fluent(name) => Value::Criterion,
            // A number, whatever the owner is.
            _ if matches!(name, "size" | "numel" | "dim" | "item" | "tolist") => Value::Plain,
            _ => {
                let provenance = merge(&owner.provenance(), &arguments.provenance());
                if names::is_loss_function(name) && !name.starts_with("get_") {
                    return loss_of(arguments);
                }
                // `log_every(loader)` and the like yield what they wrap.
                if let Some(loader @ Value::Loader(_)) = arguments.positional.first()
                    && name.contains("every")
                {
                    return loader.clone();
                }
                Value::Unknown(provenance)
            }
        }
    }

    /// Methods that mean the same for any owner.
    fn whatever_the_owner(
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
            "zero_" | "fill_" if matches!(expression, Expr::Attribute(attribute) if attribute.attr.as_str() == "grad") =>
            {
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
                        self.follow(closure, None, call, &Arguments { positional: Vec::new(), keywords: Vec::new() });
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
                let mut froms: Vec<u32> = arguments.all().filter_map(Value::checkpoint).collect();
                froms.dedup();
                // A scheduler or a scaler has hardly any GPU memory.
                let is_small = matches!(owner, Value::Scheduler | Value::Scaler)
                    || path.as_deref().is_some_and(|path| {
                        let lower = path.to_lowercase();
                        lower.contains("sched") || lower.contains("scaler")
                    });
                for from in froms.into_iter().filter(|_| !is_small) {
                    self.record(EventKind::LoadState { from, into: path.clone() }, range);
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

    /// Accelerate puts batches on the GPU; what loops go through is a source of batches.
    fn prepared(&self, value: &Value, expression: &Expr) -> Value {
        match (value, names::access_path(expression)) {
            (Value::Loader(loader), _) => Value::Loader(Loader { device: Device::Gpu, ..loader.clone() }),
            (Value::Unknown(_), Some(path)) if self.facts.index.usage.is_iterated(&path) => {
                Value::Loader(Loader { role: names::role(&path), device: Device::Gpu })
            }
            (other, _) => other.clone(),
        }
    }

    /// A backward pass from `loss`.
    pub(super) fn backward(&mut self, loss: Value, expression: Option<&'a Expr>, call: &'a ExprCall) {
        self.consume(&loss);
        let scaled = |expression: &Expr| match expression {
            Expr::Call(inner) => inner.arguments.args.first().and_then(names::access_path),
            other => names::access_path(other),
        };
        let is_scaled_by_framework = matches!(&*call.func, Expr::Attribute(method) if method.attr.as_str() == "manual_backward" || matches!(names::access_path(&method.value).as_deref(), Some(path) if path.ends_with("accelerator") || path.ends_with("fabric")));
        let kind = EventKind::Backward {
            loss,
            text: expression.and_then(scaled),
            retain: is_true(call, "retain_graph"),
            create: is_true(call, "create_graph"),
            is_scaled_by_framework,
        };
        self.record(kind, call.range());
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
