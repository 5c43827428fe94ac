//! Methods: of tensors, networks, optimizers, scalers, loaders, lists, and of objects of the file.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use super::library::is_true;
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Gradients};
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
                "__len__" | "keys" => Value::Plain,
                // A table of them, with names.
                "items" => Value::List(Rc::new(Value::Tuple(Rc::new(vec![Value::Plain, owner.clone()]))), Bound::Open),
                "values" => Value::List(Rc::new(owner.clone()), Bound::Open),
                _ => owner.clone(),
            },
            Value::Instance(class, object) => {
                let (class, object) = (*class, object.clone());
                let own = self.facts.index.method(class, name);
                let below = if own.is_none() { self.facts.index.methods_below(class, name) } else { Vec::new() };
                if let Some((last, others)) = below.split_last() {
                    for method in others {
                        self.follow(*method, self.facts.index.functions[*method].class, call, arguments);
                    }
                    return self.follow(*last, self.facts.index.functions[*last].class, call, arguments);
                }
                match own {
                    // A `forward` without inputs is a step of an object that holds its batch; that of an object which is no network is
                    // a method like any other.
                    Some(method)
                        if name != "forward"
                            || call.arguments.is_empty()
                            || self.class_kind(&owner) == Some(ClassKind::Other) =>
                    {
                        let result = self.follow(method, Some(class), call, arguments);
                        match self.class_kind(&owner) {
                            Some(ClassKind::Module | ClassKind::Lightning) => {
                                self.noted_pass(&object, method, call, arguments, result)
                            }
                            _ => result,
                        }
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
                                other if name == "forward" => self.parts_of_forward(class, call, arguments, other),
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
                // A whole network may have been saved.
                "get" | "pop" | "items" | "values" | "copy" | "state_dict" => Value::Checkpoint(from.clone()),
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
                let called = self.called_unknown.entry(name.to_string()).or_default();
                called[usize::from(self.gradients != Gradients::On)] = true;
                if names::is_loss_function(name) && !name.starts_with("get_") {
                    return self.loss_of(arguments);
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
