//! Variables and attributes: what is known of a name.

use std::rc::Rc;

use super::{Binding, Interpreter};
use crate::analysis::device::Device;
use crate::analysis::index::ClassId;
use crate::analysis::names;
use crate::analysis::value::{Bound, Loader, Value};

impl Interpreter<'_> {
    /// The key under which an attribute of `self` or of a known object is stored.
    fn attribute_key(&self, path: &str) -> Option<(ClassId, String)> {
        let (owner, rest) = path.split_once('.')?;
        let frame = self.frames.last()?;
        if let (Some(class), "self") = (frame.class, owner) {
            return Some((class, path.to_string()));
        }
        match self.lookup_variable(owner)?.value {
            Value::Instance(class, _) => Some((class, format!("self.{rest}"))),
            _ => None,
        }
    }

    pub(super) fn lookup_variable(&self, path: &str) -> Option<&Binding> {
        let mut frames = self.frames.iter().rev();
        let frame = frames.next()?;
        if let Some(binding) = frame.variables.get(path) {
            return Some(binding);
        }
        // A nested function sees the variables of the functions around it.
        let is_nested = frame.function.is_some_and(|function| self.facts.index.functions[function].parent.is_some());
        if is_nested && let Some(binding) = frames.find_map(|frame| frame.variables.get(path)) {
            return Some(binding);
        }
        let module = self.frames.first().filter(|frame| frame.function.is_none());
        module.and_then(|frame| frame.variables.get(path)).or_else(|| self.globals.get(path))
    }

    pub(super) fn lookup(&self, path: &str) -> Option<&Binding> {
        match self.attribute_key(path) {
            Some((class, key)) => self.attributes[class].get(&key),
            None => self.lookup_variable(path),
        }
    }

    pub(super) fn store(&mut self, path: String, value: Value) {
        let scope = self.scope;
        self.store_at(path, Binding { value, scope });
    }

    pub(super) fn store_at(&mut self, path: String, binding: Binding) {
        match self.attribute_key(&path) {
            Some((class, key)) => {
                // Attributes outlive the arms of an `if`: `cuda` in one and the CPU in the other.
                let is_gpu_elsewhere = matches!(binding.value, Value::Device(Device::Cpu))
                    && self.attributes[class].get(&key).is_some_and(|known| known.value == Value::Device(Device::Gpu));
                if !is_gpu_elsewhere {
                    self.attributes[class].insert(key, binding);
                }
            }
            None => {
                self.frame().variables.insert(path, binding);
            }
        }
    }

    /// The value of an unassigned name, by its usage in the file and by the name itself.
    pub(super) fn guess(&self, path: &str) -> Value {
        if let Some(known) = self.guesses.borrow().get(path) {
            return known.clone();
        }
        let value = self.guess_uncached(path);
        self.guesses.borrow_mut().insert(path.to_string(), value.clone());
        value
    }

    fn guess_uncached(&self, path: &str) -> Value {
        let index = &self.facts.index;
        let has = |method: &str| index.methods_called.get(method).is_some_and(|paths| paths.contains(path));
        let lower = names::last(path).to_lowercase();
        if lower.contains("sched") {
            return Value::Scheduler;
        }
        // What zeroes gradients and steps is an optimizer; an engine runs the backward pass too.
        let acts_as_optimizer = has("zero_grad") && has("step") && !has("backward");
        if names::is_optimizer(path) || acts_as_optimizer {
            return Value::Optimizer(path.into());
        }
        if lower.contains("scaler") && has("scale") {
            return Value::Scaler;
        }
        if lower.contains("accelerator") || lower == "fabric" {
            return Value::Accelerator;
        }
        if lower == "device" {
            return Value::Device(Device::Unknown);
        }
        if names::is_loader(path) {
            return Value::Loader(Loader { role: names::role(path), device: self.facts.index.batches });
        }
        if names::is_dataset(path) {
            return Value::Dataset(names::role(path));
        }
        if names::is_loss_function(path) && !names::last(path).to_lowercase().ends_with("losses") && lower != "loss" {
            return Value::Criterion;
        }
        if index.usage.holds_networks(path) {
            return Value::List(Rc::new(Value::Module(path.into())), Bound::Open);
        }
        let acts_as_model =
            ["parameters", "state_dict", "named_parameters"].into_iter().any(has) || (has("train") && has("eval"));
        if acts_as_model && !lower.contains("trainer")
            || names::is_model(path) && !names::is_action(path)
            || index.usage.is_network(path)
        {
            return Value::Module(path.into());
        }
        Value::UNKNOWN
    }
}
