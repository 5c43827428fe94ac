//! Methods of networks that run a forward pass under another name: `model.search(x)`, `policy.predict_action(state)`.

use std::rc::Rc;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::Ranged;

use super::Interpreter;
use super::calls::Arguments;
use crate::analysis::facts::{EventKind, Gradients};
use crate::analysis::index::{ClassId, ClassKind, FunctionId};
use crate::analysis::names;
use crate::analysis::value::{Provenance, ProvenanceRef, Value, merge};

/// How many methods of its own a method is followed through.
const DEPTH: usize = 3;

impl<'a> Interpreter<'a> {
    /// The call of a method on a network of a class that the file does not construct: a forward pass if each network that has
    /// such a method computes with its parts in it, and leaves gradients on.
    pub(super) fn pass_by_name(
        &mut self,
        module: &str,
        name: &'a str,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
    ) -> Option<Value> {
        let known = self.facts.index.network_methods(name);
        if known.is_empty() {
            if self.gradients == Gradients::On && !is_of_every_network(name) {
                self.facts.unknown_methods.insert(name);
            }
            return None;
        }
        known.into_iter().all(|method| self.is_pass(method)).then(|| self.forward(module, call, arguments))
    }

    /// Notes that a method of a network was a forward pass of the whole, and that its result comes from it.
    pub(super) fn noted_pass(
        &mut self,
        object: &str,
        method: FunctionId,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
        result: Value,
    ) -> Value {
        if object == "self" || !self.is_pass(method) {
            return result;
        }
        let kind = EventKind::Forward {
            module: object.to_string(),
            arguments: arguments.provenance(),
            is_frozen: self.frozen.contains(object),
            is_made_up: false,
        };
        self.record(kind, call.range());
        let own = Provenance { forwards: vec![call.range().start().to_u32()], keeps: Vec::new() };
        from(&result, &Some(Rc::new(own)))
    }

    /// Whether a method of a network computes with the network's parts, with gradients on.
    fn is_pass(&self, method: FunctionId) -> bool {
        let declared = &self.facts.index.functions[method];
        let text = &self.facts.source[declared.range];
        let is_off = self.decorated(method).is_some()
            || ["no_grad", "inference_mode", "set_grad_enabled", "backward("].iter().any(|word| text.contains(word));
        !is_off && declared.class.is_some_and(|class| self.computes(class, method, DEPTH))
    }

    fn computes(&self, class: ClassId, method: FunctionId, depth: usize) -> bool {
        let mut calls = OwnCalls(Vec::new());
        calls.visit_body(self.facts.index.functions[method].body);
        let text = &self.facts.source[self.facts.index.classes[class].range];
        calls.0.into_iter().any(|name| match self.facts.index.method(class, name) {
            _ if matches!(name, "forward" | "__call__") => true,
            Some(inner) => depth > 0 && inner != method && self.computes(class, inner, depth - 1),
            None => text.contains(&format!("self.{name} = nn.")) || self.is_built_part(text, name),
        })
    }

    /// Whether a network's class makes a network of its own and keeps it in this attribute.
    pub(super) fn is_part_of(&self, class: ClassId, name: &str) -> bool {
        let declared = &self.facts.index.classes[class];
        matches!(declared.kind, ClassKind::Module | ClassKind::Lightning)
            && self.is_built_part(&self.facts.source[declared.range], name)
    }

    /// Whether a method of a network differentiates what it computes, by itself or by what it calls on itself: with gradients off it fails.
    pub(super) fn differentiates(&self, class: ClassId, method: FunctionId, depth: usize) -> bool {
        let declared = &self.facts.index.functions[method];
        let text = &self.facts.source[declared.range];
        if text.contains("autograd.grad(") || text.contains(".backward(") {
            return true;
        }
        let mut calls = OwnCalls(Vec::new());
        calls.visit_body(declared.body);
        let inner = calls.0.into_iter().filter_map(|name| self.facts.index.method(class, name));
        depth > 0 && inner.into_iter().any(|inner| inner != method && self.differentiates(class, inner, depth - 1))
    }

    /// Whether the class assigns a network of its own to an attribute.
    fn is_built_part(&self, class: &str, name: &str) -> bool {
        let assigned = class.split_once(&format!("self.{name} = ")).map(|(_, rest)| rest);
        let maker = assigned.and_then(|rest| rest.split('(').next()).map(names::last);
        maker.is_some_and(|maker| {
            self.facts.index.class_by_name.get(maker).is_some_and(|class| {
                matches!(self.facts.index.classes[*class].kind, ClassKind::Module | ClassKind::Lightning)
            })
        })
    }
}

/// The attributes that are called on `self`; `self(…)` is its forward pass.
struct OwnCalls<'a>(Vec<&'a str>);

impl<'a> Visitor<'a> for OwnCalls<'a> {
    fn visit_expr(&mut self, expression: &'a Expr) {
        if let Expr::Call(call) = expression {
            match &*call.func {
                Expr::Name(name) if name.id.as_str() == "self" => self.0.push("forward"),
                Expr::Attribute(attribute) if matches!(&*attribute.value, Expr::Name(name) if name.id.as_str() == "self") =>
                {
                    self.0.push(attribute.attr.as_str());
                }
                _ => {}
            }
        }
        visitor::walk_expr(self, expression);
    }
}

/// Methods of `torch.nn.Module` that compute nothing.
fn is_of_every_network(name: &str) -> bool {
    matches!(
        name,
        "to" | "cuda"
            | "cpu"
            | "eval"
            | "train"
            | "parameters"
            | "named_parameters"
            | "buffers"
            | "named_buffers"
            | "modules"
            | "named_modules"
            | "children"
            | "named_children"
            | "state_dict"
            | "load_state_dict"
            | "zero_grad"
            | "requires_grad_"
            | "apply"
            | "half"
            | "float"
            | "double"
            | "bfloat16"
            | "forward"
            | "generate"
            | "from_pretrained"
            | "save_pretrained"
            | "gradient_checkpointing_enable"
            | "share_memory"
            | "get_parameter"
            | "get_submodule"
            | "add_module"
            | "compile"
            | "type"
    ) || name.starts_with("register_")
        || name.starts_with("__")
}

/// The same value, computed from something more.
fn from(value: &Value, more: &ProvenanceRef) -> Value {
    match value {
        Value::Unknown(provenance) => Value::Unknown(merge(provenance, more)),
        Value::Tensor(tensor) => {
            let mut tensor = tensor.clone();
            tensor.provenance = merge(&tensor.provenance, more);
            Value::Tensor(tensor)
        }
        Value::Structure(tensor) => {
            let mut tensor = tensor.clone();
            tensor.provenance = merge(&tensor.provenance, more);
            Value::Structure(tensor)
        }
        Value::List(item, bound) => Value::List(Rc::new(from(item, more)), *bound),
        Value::Tuple(items) => Value::Tuple(Rc::new(items.iter().map(|item| from(item, more)).collect())),
        other => other.clone(),
    }
}
