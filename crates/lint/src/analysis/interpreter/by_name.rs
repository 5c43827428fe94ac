//! Calls of Python's own functions, and of callables of which only the name and the arguments are known.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use crate::analysis::device::Device;
use crate::analysis::facts::EventKind;
use crate::analysis::index::ClassKind;
use crate::analysis::names;
use crate::analysis::value::{Bound, Tensor, Value};

impl<'a> Interpreter<'a> {
    pub(super) fn builtin(&mut self, call: &'a ExprCall, arguments: &Arguments<'a>) -> Value {
        let name = names::dotted(&call.func).unwrap_or_default();
        match name.as_str() {
            "float" | "int" | "len" | "str" | "bool" | "round" | "print" | "isinstance" | "hasattr" | "type" | "id"
            | "abs" | "range" => match (name.as_str(), arguments.first()) {
                ("abs", value @ Value::Tensor(_)) => value,
                _ => Value::Plain,
            },
            "list" | "tuple" | "set" | "sorted" | "reversed" | "iter" | "enumerate" | "tqdm" | "deque" | "dict"
            | "cycle" | "islice" => match arguments.first() {
                Value::Unknown(provenance) => {
                    let bound = if name == "deque" { self.bound_of(call) } else { Bound::Open };
                    let inner = match name.as_str() {
                        "list" | "dict" | "deque" | "set" => Value::Unknown(provenance),
                        _ => return Value::Unknown(provenance),
                    };
                    Value::List(Rc::new(inner), bound)
                }
                value @ (Value::Loader(_) | Value::Dataset(_)) if name == "list" => {
                    let device = match &value {
                        Value::Loader(loader) => loader.device,
                        _ => Device::Cpu,
                    };
                    Value::List(
                        Rc::new(Value::Structure(Tensor { is_data: true, ..Tensor::plain(device) })),
                        Bound::Open,
                    )
                }
                value => value,
            },
            "next" => match arguments.first() {
                Value::Loader(loader) => Value::Structure(Tensor { is_data: true, ..Tensor::plain(loader.device) }),
                Value::List(item, _) => (*item).clone(),
                other => Value::Unknown(other.provenance()),
            },
            "zip" => {
                if arguments.positional.iter().any(|value| matches!(value, Value::Loader(_))) {
                    return arguments
                        .positional
                        .iter()
                        .find(|value| matches!(value, Value::Loader(_)))
                        .cloned()
                        .unwrap_or(Value::UNKNOWN);
                }
                let items = arguments.positional.iter().map(|value| match value {
                    Value::List(item, _) => (**item).clone(),
                    Value::Tensor(tensor) | Value::Structure(tensor) => Value::Structure(tensor.clone()),
                    other => Value::Unknown(other.provenance()),
                });
                Value::List(Rc::new(Value::Tuple(Rc::new(items.collect()))), Bound::Open)
            }
            "sum" | "max" | "min" => match arguments.first() {
                Value::List(item, _) => match item.tensor() {
                    Some(tensor) => Value::Tensor(tensor),
                    None => (*item).clone(),
                },
                Value::Structure(tensor) | Value::Tensor(tensor) => Value::Tensor(tensor),
                _ => Value::Unknown(arguments.provenance()),
            },
            "defaultdict" => Value::List(Rc::new(Value::UNKNOWN), Bound::Open),
            "copy" | "deepcopy" => arguments.first(),
            "getattr" => Value::UNKNOWN,
            _ => self.by_name(&name, call, arguments),
        }
    }

    /// Calls a callable of which only the name and the arguments are known.
    pub(super) fn by_name(&mut self, name: &str, call: &'a ExprCall, arguments: &Arguments<'a>) -> Value {
        let last = names::last(name);
        if last.ends_with("DataLoader") && last != "get_dataloader" {
            return self.loader_built(call);
        }
        if names::is_loss_function(last) {
            return if self.is_loss_class(last, arguments) { Value::Criterion } else { self.loss_of(arguments) };
        }
        if names::is_loader(last) || last.contains("loader") {
            return Value::Loader(crate::analysis::value::Loader {
                role: self.data_role(call),
                device: self.facts.index.batches,
            });
        }
        // Progress bars and prefetchers yield what they wrap.
        let only_loader = arguments.positional.first().filter(|value| matches!(value, Value::Loader(_)));
        if let Some(loader) = only_loader
            && arguments.all().filter(|value| matches!(value, Value::Module(_))).count() == 0
            && names::words(last).iter().any(|word| {
                matches!(
                    word.as_str(),
                    "tqdm"
                        | "progress"
                        | "bar"
                        | "track"
                        | "prefetcher"
                        | "prefetch"
                        | "wrapper"
                        | "cycle"
                        | "every"
                        | "iterator"
                        | "iter"
                )
            })
        {
            return loader.clone();
        }
        if let Some(Value::Optimizer(_)) = arguments.positional.first()
            && last.to_lowercase().contains("sched")
        {
            return Value::Scheduler;
        }
        if last.to_lowercase().contains("optimizer") && last.starts_with(char::is_uppercase) {
            return Value::Optimizer(self.target.clone().unwrap_or_default().into());
        }
        let is_built = last.starts_with(char::is_uppercase)
            || last.starts_with("build")
            || last.starts_with("create")
            || last.starts_with("get_")
            || last.starts_with("make");
        if let Some(target) = &self.target
            && (is_built && names::is_model(target) || self.is_network(target) || self.is_part(last, target))
        {
            return Value::Module(target.as_str().into());
        }
        if is_built
            && let Some(target) = &self.target
            && names::is_optimizer(target)
        {
            return Value::Optimizer(target.as_str().into());
        }
        self.loaded_elsewhere(last, call, arguments);
        // Who gets a network and its loss may ask for gradients.
        let is_network = |value: &Value| {
            matches!(value, Value::Module(_))
                || matches!(self.class_kind(value), Some(ClassKind::Module | ClassKind::Lightning))
        };
        let has_network = arguments.all().any(is_network);
        let loss = arguments.all().find_map(|value| match value {
            Value::Tensor(tensor) if tensor.is_loss => tensor.provenance.clone(),
            _ => None,
        });
        if has_network && loss.is_some() {
            self.record(EventKind::Grad { inputs: loss, retain: false, create: false }, call.range());
        }
        self.escape(&arguments.provenance());
        Value::Unknown(arguments.provenance())
    }

    /// Whether a class makes a loss function, out of weights, options or a target. A function's result goes into a backward pass.
    fn is_loss_class(&mut self, name: &str, arguments: &Arguments<'a>) -> bool {
        let target = self.target.clone();
        let is_result = target.is_some_and(|target| self.backward_names().all.contains(&target));
        let has_tensors = arguments.provenance().is_some() || arguments.tensor().is_some();
        name.starts_with(char::is_uppercase) && !(has_tensors && (is_result || name.contains('_')))
    }

    /// Whether a class makes a part of a network: an attribute of one, which it calls.
    fn is_part(&self, maker: &str, target: &str) -> bool {
        let class = self.frames.last().and_then(|frame| frame.class);
        let kind = class.map(|class| self.facts.index.classes[class].kind);
        maker.starts_with(char::is_uppercase)
            && target.starts_with("self.")
            && matches!(kind, Some(ClassKind::Module | ClassKind::Lightning))
            && self.facts.index.usage.is_called(target)
    }

    /// A function elsewhere copies a checkpoint into a network: `load_weights(net, state)`.
    pub(super) fn loaded_elsewhere(&mut self, name: &str, call: &'a ExprCall, arguments: &Arguments<'a>) {
        let froms = arguments.all().find_map(|value| match value {
            Value::Checkpoint(from) => Some(from.clone()),
            _ => None,
        });
        let into = arguments.all().find_map(|value| match value {
            Value::Module(name) | Value::Instance(_, name) => Some(name.to_string()),
            _ => None,
        });
        if let (Some(froms), Some(into)) = (froms, into)
            && name.to_lowercase().contains("load")
        {
            for from in froms.iter().copied() {
                let kind = EventKind::LoadState { from, into: Some(into.clone()), is_optimizer: false };
                self.record(kind, call.range());
            }
        }
    }

    /// How many items `deque(…, maxlen)` holds.
    pub(super) fn bound_of(&self, call: &ExprCall) -> Bound {
        /// A container of at most this many graphs is small.
        const FEW: f64 = 255.0;
        match call.arguments.find_argument_value("maxlen", 1) {
            None | Some(Expr::NoneLiteral(_)) => Bound::Open,
            Some(size) => match self.facts.index.number(size) {
                Some(size) if size <= FEW => Bound::Few,
                _ => Bound::Many,
            },
        }
    }
}
