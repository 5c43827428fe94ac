//! Calls of networks: which attributes and variables are networks, and what a forward pass returns.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use crate::analysis::device::Device;
use crate::analysis::facts::EventKind;
use crate::analysis::index::{ClassId, ClassKind};
use crate::analysis::names;
use crate::analysis::value::{Certainty, Provenance, Value, merge};

impl<'a> Interpreter<'a> {
    /// A network or loss function in an attribute that the file calls and never assigns: of an object of the file, of something
    /// that hands over its network, or a part of a network.
    pub(super) fn called_attribute(&self, owner: &Value, call: &ExprCall, name: &str) -> Option<Value> {
        let path = names::access_path(&call.func)?;
        // A noun by itself; `get_model(…)` is a method.
        let is_noun = || !call.arguments.is_empty() && names::words(name).len() == 1 && names::is_model(name);
        match owner {
            Value::Instance(class, whole) => {
                if self.facts.index.method(*class, name).is_some() {
                    return None;
                }
                // A part that the class of the network makes is in the mode of the whole.
                if &**whole != "self" && self.is_part_of(*class, name) {
                    let is_apart = self.frozen.contains(&path) || self.modes.contains_key(&path);
                    return Some(Value::Module(if is_apart { path.into() } else { whole.clone() }));
                }
                let guess = self.guess(&path);
                matches!(guess, Value::Module(_) | Value::Criterion).then_some(guess)
            }
            Value::Unknown(_) => (self.is_network(&path) || is_noun()).then(|| Value::Module(path.into())),
            // A part is in the mode of the whole, unless it is switched by itself.
            Value::Module(whole) => (self.is_network(&path) || is_noun()).then(|| {
                let is_apart = self.frozen.contains(&path) || self.modes.contains_key(&path);
                Value::Module(if is_apart { path.into() } else { whole.clone() })
            }),
            _ => None,
        }
    }

    /// A network that is an attribute of another object than `self`: it is in the mode of the whole, unless it is switched by itself.
    pub(super) fn as_part(&self, value: Value, owner: &Expr) -> Value {
        let (Value::Instance(_, own) | Value::Module(own)) = &value else { return value };
        let whole = names::access_path(owner).and_then(|path| self.lookup(&path).map(|binding| binding.value.clone()));
        match (whole, &value) {
            (Some(Value::Instance(class, whole)), _)
                if own.starts_with("self.")
                    && &*whole != "self"
                    && matches!(self.facts.index.classes[class].kind, ClassKind::Module | ClassKind::Lightning)
                    && !self.frozen.contains(&**own)
                    && !self.modes.contains_key(&**own) =>
            {
                match &value {
                    Value::Instance(class, _) => Value::Instance(*class, whole),
                    _ => Value::Module(whole),
                }
            }
            _ => value,
        }
    }

    /// Whether the file uses a variable as a network.
    pub(super) fn is_network(&self, path: &str) -> bool {
        let usage = &self.facts.index.usage;
        let is_item = || names::container(path).is_some_and(|container| usage.holds_networks(container));
        (usage.is_network(path) || is_item()) && !self.facts.index.imports.contains_key(path)
    }

    /// Calls a model.
    pub(super) fn forward(&mut self, module: &str, call: &'a ExprCall, arguments: &Arguments<'a>) -> Value {
        let is_frozen = self.frozen.contains(module);
        let given = arguments.tensor();
        let is_made_up = given.as_ref().is_some_and(|given| given.is_made_up)
            && arguments.all().all(|value| {
                matches!(value, Value::Tensor(_) | Value::List(..) | Value::Plain | Value::Bool(_) | Value::None)
            });
        self.record(
            EventKind::Forward { module: module.to_string(), arguments: arguments.provenance(), is_frozen, is_made_up },
            call.range(),
        );
        if self.gets_main_memory(module, arguments) {
            self.facts.on_cpu.insert(call.range().start().to_u32());
        }
        let mut tensor = self.forward_tensor(call);
        if let Some(given) = given {
            tensor.provenance = merge(&tensor.provenance, &given.provenance);
            // A batch that the file does not move may be moved inside the model.
            tensor.device = if given.is_data && given.device == Device::Cpu { Device::Unknown } else { given.device };
            if is_frozen && tensor.graph == Certainty::Yes {
                tensor.graph = given.graph;
            }
        } else if is_frozen && tensor.graph == Certainty::Yes {
            tensor.graph = Certainty::No;
        }
        if self.on_gpu.contains(module) {
            tensor.device = Device::Gpu;
        }
        Value::Structure(tensor)
    }

    /// Whether a network gets tensors that the file makes in main memory and moves nowhere, and nothing else: on a GPU it would fail.
    /// One that the file shows on a GPU moves its inputs itself, as `DataParallel` does.
    fn gets_main_memory(&self, module: &str, arguments: &Arguments<'a>) -> bool {
        let is_there = |value: &Value| match value {
            Value::Tensor(tensor) => tensor.device == Device::Cpu && !tensor.is_data && tensor.provenance.is_none(),
            _ => false,
        };
        let is_neutral = |value: &Value| matches!(value, Value::Plain | Value::Bool(_) | Value::None);
        let moves_by_itself = ["DataParallel", "set_default_device", "set_default_tensor_type", "device_map"];
        arguments.all().any(is_there)
            && arguments.all().all(|value| is_there(value) || is_neutral(value))
            && !self.on_gpu.contains(module)
            && !moves_by_itself.iter().any(|name| self.facts.source.contains(name))
    }

    /// A forward pass that differentiates inside wants its own graph.
    pub(super) fn note_gradients_inside(&mut self, class: ClassId, call: &'a ExprCall) {
        let Some(forward) = self.facts.index.method(class, "forward") else { return };
        if self.differentiates(class, forward, 3) {
            let own = Provenance { forwards: vec![call.range().start().to_u32()], keeps: Vec::new() };
            self.record(EventKind::Grad { inputs: Some(Rc::new(own)), retain: false, create: false }, call.range());
        }
    }

    /// What a model of the file returns: of several results, some may be plain numbers.
    pub(super) fn parts_of_forward(
        &mut self,
        class: ClassId,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
        value: Value,
    ) -> Value {
        let Some(forward) = self.facts.index.method(class, "forward") else { return value };
        let (visited, scopes) = (self.visited[forward], self.facts.consumed.len());
        let returned = self.quietly(|this| this.follow(forward, Some(class), call, arguments));
        self.visited[forward] = visited;
        self.facts.consumed.truncate(scopes);
        match returned {
            Value::Tuple(items) if items.iter().any(|item| matches!(item, Value::Plain | Value::Unknown(_))) => {
                let part = |item: &Value| match item {
                    Value::Plain => Value::Plain,
                    // What a function of another file makes of numbers may be a number.
                    Value::Unknown(_) => Value::Unknown(value.provenance()),
                    _ => value.clone(),
                };
                Value::Tuple(Rc::new(items.iter().map(part).collect()))
            }
            // Every part is computed from what is given.
            Value::Tuple(_) => value.tensor().map_or(value, Value::Structure),
            _ => value,
        }
    }
}
