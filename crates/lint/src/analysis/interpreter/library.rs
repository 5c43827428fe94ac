//! Calls of PyTorch and its companion libraries.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use super::library_names::{has_no_parameters, is_constant, is_factory, is_index_function};
use crate::analysis::device::Device;
use crate::analysis::facts::EventKind;
use crate::analysis::names::{self, Role};
use crate::analysis::value::{Bound, Certainty, Provenance, Tensor, Value, merge};

/// Stands for a class made by `namedtuple`.
const NAMED_TUPLE: &str = "namedtuple()";

impl<'a> Interpreter<'a> {
    /// A call of something imported, by its full name.
    pub(super) fn library(&mut self, path: &str, call: &'a ExprCall, arguments: &Arguments<'a>) -> Value {
        let last = names::last(path);
        if last == "DataLoader" || last.ends_with("DataLoader") {
            return self.loader_built(call);
        }
        if let Some(rest) = path.strip_prefix("torch.") {
            return self.torch(rest, call, arguments);
        }
        match (path.split('.').next().unwrap_or_default(), last) {
            ("accelerate", "Accelerator") | (_, "Fabric") => return Value::Accelerator,
            ("tqdm" | "rich", _) | (_, "tqdm" | "islice" | "cycle" | "chain") => {
                return match arguments.positional.first() {
                    Some(value @ (Value::Loader(_) | Value::Dataset(_) | Value::List(..))) => value.clone(),
                    _ => arguments.keyword("iterable").cloned().unwrap_or(Value::Unknown(arguments.provenance())),
                };
            }
            ("collections", "deque") => {
                return Value::List(Rc::new(Value::UNKNOWN), self.bound_of(call));
            }
            ("collections", "defaultdict" | "OrderedDict") => return Value::List(Rc::new(Value::UNKNOWN), Bound::Open),
            // The class it returns makes tuples: `Row(step, loss)`.
            ("collections", "namedtuple") => return Value::Library(NAMED_TUPLE.into()),
            _ if path == NAMED_TUPLE => return Value::Tuple(Rc::new(arguments.all().cloned().collect())),
            ("copy", "deepcopy" | "copy") => return arguments.first(),
            ("transformers", _) if last.contains("schedule") => return Value::Scheduler,
            ("transformers", "AdamW" | "Adafactor") => return self.optimizer(),
            (
                "transformers"
                | "timm"
                | "torchvision"
                | "segmentation_models_pytorch"
                | "peft"
                | "diffusers"
                | "monai",
                _,
            ) => {
                let is_data = path.contains("datasets");
                if is_data {
                    return Value::Dataset(self.data_role(call));
                }
                let is_model = path.contains("models.")
                    || last == "create_model"
                    || last == "get_peft_model"
                    || last == "Unet"
                    || last == "from_pretrained"
                        && !path.contains("Tokenizer")
                        && !path.contains("Processor")
                        && !path.contains("Config")
                        && !path.contains("Extractor")
                        && !path.contains("Scheduler")
                        && !path.contains("Pipeline");
                if is_model {
                    return self.module();
                }
            }
            (library, _) if names::is_without_tensors(library) => return Value::Plain,
            // It runs its network itself, without gradients where it evaluates.
            ("ultralytics", _) => return Value::Plain,
            ("datasets", "load_dataset") => return Value::Dataset(self.data_role(call)),
            ("apex", _) if last == "initialize" => return Value::Tuple(Rc::new(arguments.positional.clone())),
            ("deepspeed", "initialize") => return Value::UNKNOWN,
            _ => {}
        }
        self.by_name(path, call, arguments)
    }

    fn module(&self) -> Value {
        Value::Module(self.target.clone().unwrap_or_else(|| "the model".into()).into())
    }

    fn optimizer(&self) -> Value {
        Value::Optimizer(self.target.clone().unwrap_or_else(|| "the optimizer".into()).into())
    }

    fn torch(&mut self, path: &str, call: &'a ExprCall, arguments: &Arguments<'a>) -> Value {
        let last = names::last(path);
        let combined = || arguments.tensor();
        if path.starts_with("optim.lr_scheduler") || path.starts_with("optim.swa_utils") && last.ends_with("LR") {
            return Value::Scheduler;
        }
        if path.starts_with("optim.") && last.starts_with(char::is_uppercase) {
            return self.optimizer();
        }
        if path.starts_with("distributions.") && last.starts_with(char::is_uppercase) {
            return match combined() {
                Some(tensor) => Value::Distribution(tensor),
                None => Value::Unknown(arguments.provenance()),
            };
        }
        if path.starts_with("nn.functional.")
            || path.starts_with("special.")
            || path.starts_with("linalg.")
            || path.starts_with("fft.")
        {
            if names::is_loss_function(last) {
                return self.loss_of(arguments);
            }
            return combined().map_or(Value::Unknown(arguments.provenance()), |tensor| {
                if last == "one_hot" { Value::Tensor(tensor.detached()) } else { Value::Tensor(tensor) }
            });
        }
        if path.starts_with("nn.utils.clip_grad") {
            return Value::Tensor(Tensor::plain(Device::Unknown));
        }
        if path.starts_with("nn.") && last.starts_with(char::is_uppercase) {
            if last.ends_with("Loss") {
                return Value::Criterion;
            }
            // A function of its input, whatever it is called on.
            if has_no_parameters(last) {
                return Value::Library(format!("torch.nn.functional.{last}").into());
            }
            if last == "Parameter" {
                return Value::Tensor(Tensor { is_leaf: true, ..Tensor::plain(Device::Unknown) });
            }
            if let Some(Value::Module(inner)) = arguments.positional.first() {
                let target: Rc<str> = self.target.clone().map_or_else(|| inner.clone(), Into::into);
                if self.on_gpu.contains(&**inner) {
                    self.on_gpu.insert(target.to_string());
                }
                return Value::Module(target);
            }
            if let Some(value @ Value::Instance(..)) = arguments.positional.first()
                && last.ends_with("Parallel")
            {
                return value.clone();
            }
            return self.module();
        }
        match path {
            "load" => return self.load(call),
            "save" | "manual_seed" | "cuda.manual_seed" | "cuda.is_available" | "numel" | "is_tensor" => {
                return Value::Plain;
            }
            "cuda.empty_cache" => {
                self.record(EventKind::EmptyCache, call.range());
                return Value::None;
            }
            "compile" | "jit.script" | "jit.trace" | "autograd.Variable" => return arguments.first(),
            "device" => {
                return Value::Device(
                    call.arguments.args.first().map_or(Device::Unknown, |first| self.device_of(first)),
                );
            }
            "autograd.grad" => {
                let inputs = arguments.provenance();
                let (retain, create) = (is_true(call, "retain_graph"), is_true(call, "create_graph"));
                self.record(EventKind::Grad { inputs: inputs.clone(), retain, create }, call.range());
                self.consume(&Value::Unknown(inputs.clone()));
                let graph = if create { self.graph_here() } else { Certainty::Unknown };
                let own = Provenance { forwards: vec![call.range().start().to_u32()], keeps: Vec::new() };
                let own = Some(Rc::new(own));
                // Gradients without a graph do not reach back.
                let provenance = if create { merge(&inputs, &own) } else { own };
                return Value::Structure(Tensor { graph, provenance, ..Tensor::plain(Device::Unknown) });
            }
            "autograd.backward" => {
                self.backward(arguments.first(), call.arguments.args.first(), call);
                return Value::None;
            }
            "autograd.set_detect_anomaly" | "autograd.detect_anomaly" | "autograd.anomaly_mode.set_detect_anomaly" => {
                let switch = call.arguments.find_argument_value("mode", 0);
                let is_on = match switch {
                    Some(switch) => self.truth(switch) == Some(true),
                    None => last == "detect_anomaly",
                };
                if is_on {
                    self.record(EventKind::DetectAnomaly, call.range());
                }
                return Value::None;
            }
            "set_grad_enabled" | "autograd.set_grad_enabled" => {
                let switch = call.arguments.args.first().and_then(|first| self.truth(first));
                self.set_gradients(match switch {
                    Some(true) => crate::analysis::facts::Gradients::On,
                    Some(false) => crate::analysis::facts::Gradients::Off,
                    None => crate::analysis::facts::Gradients::Unknown,
                });
                return Value::None;
            }
            "cuda.amp.GradScaler" | "amp.GradScaler" | "GradScaler" => return Value::Scaler,
            "utils.data.TensorDataset" | "utils.data.Subset" => return Value::Dataset(self.data_role(call)),
            "utils.data.random_split" => {
                return Value::Tuple(Rc::new(vec![Value::Dataset(Role::Train), Value::Dataset(Role::Evaluation)]));
            }
            "utils.checkpoint.checkpoint" => {
                return match arguments.positional.first() {
                    Some(Value::Module(module)) => {
                        let module = module.clone();
                        self.forward(&module, call, arguments)
                    }
                    _ => combined().map_or(Value::UNKNOWN, Value::Structure),
                };
            }
            "hub.load" => return self.module(),
            "distributed.all_reduce" | "distributed.barrier" => return Value::None,
            _ => {}
        }
        if is_factory(path) {
            let device =
                call.arguments.find_keyword("device").map_or(Device::Cpu, |keyword| self.device_of(&keyword.value));
            let given = arguments.tensor();
            let is_like = last.ends_with("_like");
            let device = if is_like { given.as_ref().map_or(Device::Unknown, |tensor| tensor.device) } else { device };
            let is_leaf = is_true(call, "requires_grad");
            if is_leaf {
                self.record(EventKind::RequiresGrad, call.range());
            }
            // `torch.tensor(loss)` copies the number without the graph.
            let is_made_up = match last {
                "tensor" => call.arguments.args.first().is_some_and(is_constant),
                _ => !is_like,
            };
            return Value::Tensor(Tensor { is_leaf, is_made_up, ..Tensor::plain(device) });
        }
        if matches!(last, "from_numpy" | "as_tensor" | "FloatTensor" | "LongTensor" | "Tensor") {
            let is_made_up = call.arguments.args.first().is_some_and(is_constant);
            let device =
                call.arguments.find_keyword("device").map_or(Device::Cpu, |keyword| self.device_of(&keyword.value));
            return Value::Tensor(Tensor { is_made_up, ..Tensor::plain(device) });
        }
        if is_index_function(last) {
            return combined().map_or(Value::Unknown(arguments.provenance()), |tensor| {
                Value::Tensor(Tensor { is_data: false, ..tensor.detached() })
            });
        }
        if matches!(last, "max" | "min" | "topk" | "sort" | "kthvalue" | "mode" | "median") {
            let has_dimension = arguments.positional.len() > 1
                && !matches!(arguments.positional[1], Value::Tensor(_) | Value::Structure(_))
                || arguments.keyword("dim").is_some()
                || matches!(last, "topk" | "sort" | "kthvalue");
            return match combined() {
                Some(tensor) if has_dimension => values_and_indices(tensor),
                Some(tensor) => Value::Tensor(tensor),
                None => Value::Unknown(arguments.provenance()),
            };
        }
        if path.contains('.') && !path.starts_with("nn.") {
            return Value::Unknown(arguments.provenance());
        }
        let is_weighed = matches!(last, "sum" | "mul" | "div" | "dot" | "einsum");
        combined().map_or(Value::Unknown(arguments.provenance()), |tensor| {
            let tensor = self.recorded(tensor).operated();
            Value::Tensor(Tensor { is_data: false, is_weighed: tensor.is_weighed || is_weighed, ..tensor })
        })
    }
}

/// Whether a keyword argument is `True`.
pub(super) fn is_true(call: &ExprCall, keyword: &str) -> bool {
    matches!(call.arguments.find_keyword(keyword).map(|keyword| &keyword.value), Some(Expr::BooleanLiteral(literal)) if literal.value)
}

/// The result of `max` along a dimension: values with their graph, indices without.
pub(super) fn values_and_indices(tensor: Tensor) -> Value {
    let indices = Tensor { is_data: false, ..tensor.detached() };
    Value::Tuple(Rc::new(vec![Value::Tensor(tensor), Value::Tensor(indices)]))
}
