//! Parts of values: attributes and items.

use ruff_python_ast::{Expr, ExprAttribute, ExprSubscript};

use super::Interpreter;
use crate::analysis::device::Device;
use crate::analysis::names::{self, Role, access_path};
use crate::analysis::value::{Loader, Tensor, Value};

impl<'a> Interpreter<'a> {
    /// `owner.name`.
    pub(super) fn attribute(&mut self, expression: &'a Expr, attribute: &'a ExprAttribute) -> Value {
        if let Some(path) = access_path(expression)
            && let Some(binding) = self.lookup(&path)
        {
            return binding.value.clone();
        }
        let owner = self.eval(&attribute.value);
        let name = attribute.attr.as_str();
        match owner {
            Value::Library(path) => Value::Library(format!("{path}.{name}").into()),
            Value::Tensor(tensor) | Value::Structure(tensor) => match name {
                "data" => {
                    self.drop_graph(&tensor);
                    Value::Tensor(tensor.detached())
                }
                "grad" => Value::Tensor(tensor.detached()),
                "shape" | "ndim" | "dtype" | "requires_grad" | "is_cuda" | "itemsize" => Value::Plain,
                "device" => Value::Device(tensor.device),
                "loss" if !tensor.is_data => Value::Tensor(Tensor { is_loss: true, ..tensor }),
                "indices" => Value::Tensor(tensor.detached()),
                _ => Value::Structure(tensor),
            },
            Value::Dataset(_) => match name {
                "data" | "targets" | "tensors" | "images" | "labels" => {
                    Value::Tensor(Tensor { is_whole: true, ..Tensor::plain(Device::Cpu) })
                }
                _ => Value::UNKNOWN,
            },
            Value::Loader(loader) => match name {
                "dataset" => Value::Dataset(loader.role),
                _ => Value::UNKNOWN,
            },
            Value::Distribution(tensor) => Value::Tensor(tensor),
            Value::Instance(class, _) => {
                if let Some(method) = self.facts.index.method(class, name) {
                    return Value::Function(method);
                }
                match access_path(expression) {
                    Some(path) => self.guess(&path),
                    None => Value::UNKNOWN,
                }
            }
            Value::Module(_) if matches!(name, "device") => Value::Device(Device::Unknown),
            Value::Module(module) => match access_path(expression) {
                Some(path) if names::is_model(&path) || name == "module" => {
                    if name == "module" {
                        Value::Module(module)
                    } else {
                        Value::Module(path.into())
                    }
                }
                _ => Value::UNKNOWN,
            },
            Value::Accelerator if name == "device" => Value::Device(Device::Gpu),
            // A whole network was saved, or what wraps one.
            Value::Checkpoint(from) => Value::Checkpoint(from),
            Value::Unknown(_) if matches!(name, "shape" | "ndim") => Value::Plain,
            other => match access_path(expression) {
                Some(path) => match self.guess(&path) {
                    Value::Unknown(_) => Value::Unknown(other.provenance()),
                    known => known,
                },
                None => Value::Unknown(other.provenance()),
            },
        }
    }

    /// `owner[index]`.
    pub(super) fn subscript(&mut self, expression: &'a Expr, subscript: &'a ExprSubscript) -> Value {
        if let Some(path) = access_path(expression)
            && let Some(binding) = self.lookup(&path)
        {
            return binding.value.clone();
        }
        let owner = self.eval(&subscript.value);
        if !matches!(&*subscript.slice, Expr::Slice(_)) {
            self.quietly(|this| this.eval(&subscript.slice));
        }
        match owner {
            Value::Tuple(items) => {
                let index = crate::analysis::index::number(&subscript.slice);
                let item = index.and_then(|index| items.get(index as usize)).cloned();
                item.unwrap_or_else(|| {
                    items
                        .iter()
                        .skip(1)
                        .fold(items.first().cloned().unwrap_or(Value::UNKNOWN), |all, item| all.join(item))
                })
            }
            Value::List(item, bound) => {
                match (&*subscript.slice, &*item, access_path(expression)) {
                    (Expr::Slice(_), _, _) => Value::List(item, bound),
                    // Each of several optimizers goes by its own key.
                    (_, Value::Optimizer(_), Some(path)) => Value::Optimizer(path.into()),
                    _ => (*item).clone(),
                }
            }
            // `loss.data[0]` was how a number was read before PyTorch 0.4.
            Value::Tensor(tensor) if tensor.is_loss && is_data_of(&subscript.value) => Value::Plain,
            Value::Tensor(tensor) => Value::Tensor(Tensor { is_whole: false, ..tensor.operated() }),
            Value::Structure(tensor) => {
                let is_loss = matches!(&*subscript.slice, Expr::StringLiteral(key) if key.value.to_str().contains("loss"))
                    && !tensor.is_data;
                Value::Structure(Tensor { is_loss: tensor.is_loss || is_loss, ..tensor })
            }
            Value::Dataset(_) => Value::Structure(Tensor { is_data: true, ..Tensor::plain(Device::Cpu) }),
            Value::Module(module) => Value::Module(module),
            Value::Checkpoint(from) => Value::Checkpoint(from),
            // `loaders["val"]`: several loaders under one name.
            Value::Loader(loader) => {
                let role = match &*subscript.slice {
                    Expr::StringLiteral(key) => names::role(key.value.to_str()),
                    _ => Role::Unknown,
                };
                Value::Loader(Loader { role, ..loader })
            }
            other => Value::Unknown(other.provenance()),
        }
    }
}

fn is_data_of(expression: &Expr) -> bool {
    matches!(expression, Expr::Attribute(attribute) if attribute.attr.as_str() == "data")
}
