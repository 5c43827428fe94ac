//! Methods of tensors and of networks.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use super::library::values_and_indices;
use super::library_names::is_index_function;
use crate::analysis::device::Device;
use crate::analysis::facts::EventKind;
use crate::analysis::names;
use crate::analysis::value::{Bound, Certainty, Tensor, Value};

impl<'a> Interpreter<'a> {
    pub(super) fn tensor_method(
        &mut self,
        tensor: &Tensor,
        owner: &'a Expr,
        name: &str,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
        is_structure: bool,
    ) -> Value {
        let same = |tensor: Tensor| if is_structure { Value::Structure(tensor) } else { Value::Tensor(tensor) };
        if name == "numpy"
            && tensor.graph == Certainty::Yes
            && let Some(provenance) = &tensor.provenance
        {
            self.facts.without_graph.extend(provenance.forwards.iter());
        }
        // Once: what is looked at a second time is not looked at a third.
        if name == "numpy" && tensor.device != Device::Cpu && self.silent == 0 {
            // `out.detach().numpy()` and `out.data.numpy()` leave `out` where it is.
            let whole = match owner {
                Expr::Call(call) if call.arguments.is_empty() => match &*call.func {
                    Expr::Attribute(method) if method.attr.as_str() == "detach" => Some(&*method.value),
                    _ => None,
                },
                Expr::Attribute(attribute) if attribute.attr.as_str() == "data" => Some(&*attribute.value),
                _ => None,
            };
            let made_by = whole.and_then(|whole| self.quietly(|this| this.eval(whole)).provenance());
            self.facts.on_cpu.extend(made_by.iter().flat_map(|provenance| provenance.forwards.iter()));
        }
        if name == "numpy"
            && self.silent == 0
            && let Some(whole) = taken_out(owner)
        {
            let made_by = self.quietly(|this| this.eval(whole)).provenance();
            self.facts.arrays.extend(made_by.iter().flat_map(|provenance| provenance.forwards.iter()));
        }
        if matches!(name, "item" | "tolist" | "detach" | "detach_") {
            self.drop_graph(tensor);
        }
        match name {
            "item" | "tolist" | "numpy" | "size" | "dim" | "numel" | "__len__" | "is_floating_point"
            | "element_size" | "data_ptr" | "nelement" => Value::Plain,
            "detach" | "detach_" => same(tensor.detached()),
            "cpu" => same(tensor.on(Device::Cpu)),
            "cuda" | "to" => {
                let device = if name == "cuda" { Device::Gpu } else { self.device_of_to(tensor, call, arguments) };
                if device != Device::Cpu && device != tensor.device || name == "cuda" {
                    self.record(EventKind::Move { call, tensor: tensor.clone(), source: owner }, call.range());
                }
                same(Tensor { is_whole: false, ..tensor.on(device) })
            }
            "long" | "int" | "bool" | "byte" | "new_zeros" | "new_ones" | "new_tensor" | "new_full" | "new_empty" => {
                same(Tensor { is_data: false, ..tensor.detached() })
            }
            name if is_index_function(name) => {
                self.drop_graph(tensor);
                Value::Tensor(Tensor { is_data: false, ..tensor.detached() })
            }
            "max" | "min" | "topk" | "sort" if !arguments.positional.is_empty() || !arguments.keywords.is_empty() => {
                values_and_indices(tensor.clone())
            }
            "items" | "values" => {
                // A table within a table often has the numbers for the log.
                let is_inner = matches!(owner, Expr::Subscript(subscript) if subscript.slice.is_string_literal_expr());
                let graph = if is_inner { tensor.graph.either(Certainty::Unknown) } else { tensor.graph };
                let item = Value::Structure(Tensor { graph, ..tensor.clone() });
                let item = if name == "items" { Value::Tuple(Rc::new(vec![Value::Plain, item])) } else { item };
                Value::List(Rc::new(item), Bound::Open)
            }
            "keys" => Value::Plain,
            "get" | "pop" => {
                let is_loss = matches!(call.arguments.args.first(), Some(Expr::StringLiteral(key)) if key.value.to_str().contains("loss"));
                Value::Structure(Tensor { is_loss: tensor.is_loss || is_loss, ..tensor.clone() })
            }
            "div" | "div_" | "true_divide" => {
                Value::Tensor(Tensor { is_divided: true, is_weighed: true, ..tensor.operated() })
            }
            "float" | "double" | "half" | "contiguous" | "pin_memory" | "clone" | "view" | "reshape" | "flatten"
            | "unsqueeze" | "squeeze" | "type" => same(tensor.clone()),
            _ => {
                let combined = match arguments.tensor() {
                    Some(other) => tensor.with(&other),
                    None => tensor.operated(),
                };
                let is_weighed = combined.is_weighed || matches!(name, "sum" | "mul" | "mul_" | "div_");
                Value::Tensor(Tensor { is_data: false, is_whole: false, is_weighed, ..combined })
            }
        }
    }

    /// Where `.to(…)` puts a tensor; a change of type leaves it where it is.
    fn device_of_to(&self, tensor: &Tensor, call: &'a ExprCall, arguments: &Arguments<'a>) -> Device {
        let expression = call.arguments.find_argument_value("device", 0);
        match (expression, arguments.positional.first()) {
            (Some(_), Some(Value::Library(path))) if path.starts_with("torch.") => tensor.device,
            (Some(_), Some(Value::Device(device))) => *device,
            // `x.to(y.dtype)`.
            (Some(Expr::Attribute(attribute)), _) if attribute.attr.as_str() == "dtype" => tensor.device,
            // `x.to(torch.get_default_dtype())`.
            (Some(Expr::Call(inner)), _) if names::dotted(&inner.func).is_some_and(|name| name.ends_with("dtype")) => {
                tensor.device
            }
            (Some(expression), _) => self.device_of(expression),
            (None, _) => tensor.device,
        }
    }

    pub(super) fn module_method(
        &mut self,
        module: &str,
        name: &'a str,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
    ) -> Value {
        if let Some(result) = self.pass_by_name(module, name, call, arguments) {
            return result;
        }
        match name {
            "parameters" | "named_parameters" | "buffers" => {
                Value::List(Rc::new(Value::Module(module.into())), Bound::Open)
            }
            "modules" | "children" | "named_modules" | "named_children" => Value::UNKNOWN,
            "to" | "cuda" => {
                let is_gpu = name == "cuda"
                    || matches!(arguments.positional.first(), Some(Value::Device(Device::Gpu)))
                    || call.arguments.args.first().is_some_and(|first| self.device_of(first) == Device::Gpu);
                if is_gpu {
                    self.on_gpu.insert(module.to_string());
                }
                Value::Module(module.into())
            }
            "cpu" | "half" | "float" | "double" | "bfloat16" | "share_memory" | "apply" | "module" => {
                Value::Module(module.into())
            }
            "state_dict"
            | "load_state_dict"
            | "register_forward_hook"
            | "register_buffer"
            | "save_pretrained"
            | "named_buffers" => Value::Plain,
            // Tokens on the GPU, or texts: the network's own code decides.
            "generate" => Value::UNKNOWN,
            "sample" | "reset_parameters" | "init_hidden" => {
                Value::Structure(Tensor { graph: Certainty::No, ..Tensor::plain(Device::Unknown) })
            }
            "forward" | "forward_features" | "encode" | "decode" | "compute_loss" | "get_loss" | "loss"
            | "training_loss" | "log_prob" | "forward_pass" | "extract_features" => {
                let value = self.forward(module, call, arguments);
                match (value, name.contains("loss")) {
                    (Value::Structure(tensor), true) => Value::Structure(Tensor { is_loss: true, ..tensor }),
                    (value, _) => value,
                }
            }
            _ => Value::Unknown(arguments.provenance()),
        }
    }
}

/// What is taken out of its graph and brought to main memory in a chain of methods: `out` in `out.detach().cpu()`.
fn taken_out(expression: &Expr) -> Option<&Expr> {
    let (mut inner, mut is_detached, mut is_brought) = (expression, false, false);
    loop {
        inner = match inner {
            Expr::Call(call) => match &*call.func {
                Expr::Attribute(method) => {
                    match method.attr.as_str() {
                        "detach" => is_detached = true,
                        "cpu" => is_brought = true,
                        "squeeze" | "flatten" | "float" | "clone" | "view" | "reshape" => {}
                        _ => break,
                    }
                    &method.value
                }
                _ => break,
            },
            Expr::Attribute(attribute) if attribute.attr.as_str() == "data" => {
                is_detached = true;
                &attribute.value
            }
            _ => break,
        };
    }
    (is_detached && is_brought).then_some(inner)
}
