//! What a variable is from its assignment on: a network under its name, a copy of one, a loss.

use std::rc::Rc;

use ruff_python_ast::Expr;
use ruff_text_size::Ranged;

use super::Interpreter;
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Gradients};
use crate::analysis::names::{self, access_path};
use crate::analysis::value::{Bound, Certainty, Loader, Provenance, Tensor, Value, merge};

impl<'a> Interpreter<'a> {
    /// Refines a value by the name it is assigned to: by the name a loss is recognised, and what goes into a backward pass
    /// carries a graph.
    pub(super) fn named(&mut self, name: &str, value: Value, expression: Option<&'a Expr>) -> Value {
        if expression.is_some_and(|expression| self.wraps_frozen(expression)) {
            self.frozen.insert(name.to_string());
        }
        let value = self.holding_networks(name, value, expression);
        // What is moved may be a batch; what is called as well is a network.
        let is_open = match &value {
            // A network may have been saved whole.
            Value::Unknown(_) | Value::Checkpoint(_) => true,
            Value::Structure(tensor) => tensor.graph != Certainty::Yes && !tensor.is_data,
            _ => false,
        };
        let is_switched = matches!(value, Value::Structure(_)) && self.facts.index.usage.has_mode(name);
        let is_part = matches!(value, Value::Checkpoint(_)) && expression.is_some_and(Expr::is_subscript_expr);
        let is_network = is_open
            && (is_made(expression) || is_part)
            && (self.is_network(name) || is_switched)
            && !names::is_loss_function(name);
        let value = if is_network { Value::UNKNOWN } else { value };
        match value {
            Value::Tensor(mut tensor) => {
                tensor.is_loss |= names::is_loss(name) && tensor.graph != Certainty::No;
                // Whatever it is called: `backward()` is called on it.
                tensor.is_loss |= tensor.graph == Certainty::Yes && self.backward_names().direct.contains(name);
                if tensor.graph == Certainty::Unknown
                    && self.gradients == Gradients::On
                    && self.backward_names().all.contains(name)
                {
                    tensor.graph = Certainty::Yes;
                    tensor.is_loss = true;
                    tensor.provenance = merge(&tensor.provenance, &self.prove_operand(expression));
                }
                // `with scale_loss(loss) as scaled` makes nothing.
                if expression.is_some() {
                    self.loss_made(name, &tensor);
                }
                Value::Tensor(tensor)
            }
            Value::Structure(mut tensor) if names::is_loss(name) && !tensor.is_data => {
                tensor.is_loss = true;
                self.loss_made(name, &tensor);
                Value::Structure(tensor)
            }
            Value::Unknown(_) if is_network => {
                if !expression.is_some_and(|expression| self.wraps_network(expression)) {
                    self.facts.built.insert(name.to_string());
                }
                if let Some(is_evaluation) = expression.and_then(switched) {
                    self.switch(name, is_evaluation, self.statement);
                }
                Value::Module(name.into())
            }
            Value::Unknown(None) if is_made(expression) && names::is_loader(name) => {
                Value::Loader(Loader { role: names::role(name), device: self.facts.index.batches })
            }
            Value::Unknown(provenance)
                if self.gradients != Gradients::Off
                    && is_computed(expression)
                    && !expression.is_some_and(|expression| self.is_made_without_gradients(expression)) =>
            {
                if self.backward_names().all.contains(name) {
                    let at = expression.map_or(self.statement.start(), |expression| expression.range().start());
                    let own = Some(Rc::new(Provenance { forwards: vec![at.to_u32()], keeps: Vec::new() }));
                    let tensor = Tensor {
                        graph: Certainty::Yes,
                        is_loss: true,
                        is_divided: false,
                        provenance: merge(&merge(&provenance, &own), &self.prove_operand(expression)),
                        ..Tensor::plain(Device::Unknown)
                    };
                    self.loss_made(name, &tensor);
                    return Value::Tensor(tensor);
                }
                Value::Unknown(provenance)
            }
            // An item of a list of networks, whichever it is, goes by the list's name.
            Value::Module(known) if expression.is_none() && self.facts.index.usage.holds_networks(&known) => {
                Value::Module(known)
            }
            Value::Module(known) if !name.contains('[') => {
                if expression.is_some_and(|expression| self.is_library_network(expression)) {
                    self.replaced(name);
                } else {
                    self.renamed(&known, name, is_made(expression));
                }
                if is_made(expression) && !expression.is_some_and(|expression| self.wraps_network(expression)) {
                    self.facts.built.insert(name.to_string());
                }
                Value::Module(name.into())
            }
            Value::Optimizer(_) if !name.contains('[') => Value::Optimizer(name.into()),
            other => other,
        }
    }

    /// A list or dictionary whose items the file uses as networks.
    fn holding_networks(&mut self, name: &str, value: Value, expression: Option<&Expr>) -> Value {
        if !self.facts.index.usage.holds_networks(name) {
            return value;
        }
        let is_open = |item: &Value| match item {
            Value::Unknown(_) | Value::Module(_) => true,
            // What is moved may be a batch, for all that is known of it.
            Value::Structure(tensor) | Value::Tensor(tensor) => tensor.graph == Certainty::Unknown,
            _ => false,
        };
        match &value {
            Value::List(item, bound) if is_open(item) => {
                let is_empty = matches!(&**item, Value::Unknown(None));
                if !is_empty {
                    self.facts.built.insert(name.to_string());
                }
                Value::List(Rc::new(Value::Module(name.into())), *bound)
            }
            Value::Unknown(_) if is_made(expression) => Value::List(Rc::new(Value::Module(name.into())), Bound::Open),
            _ => value,
        }
    }

    /// A network gets another name, under which it is where it was and in the mode it was in.
    fn renamed(&mut self, known: &str, name: &str, is_returned: bool) {
        if self.on_gpu.contains(known) {
            self.on_gpu.insert(name.to_string());
        }
        if self.frozen.contains(known) {
            self.frozen.insert(name.to_string());
        }
        if (known != name || is_returned)
            && let Some(&is_evaluation) = self.modes.get(known)
        {
            self.switch(name, is_evaluation, self.statement);
        }
    }

    /// Whether a library makes a network here, out of no other. These make it in training mode.
    fn is_library_network(&self, expression: &Expr) -> bool {
        let Expr::Call(call) = expression else { return false };
        let path = names::dotted(&call.func).and_then(|name| self.facts.index.resolve(&name));
        let is_made = |path: String| {
            ["torchvision.models.", "timm.", "torch.nn."].into_iter().any(|library| path.starts_with(library))
        };
        path.is_some_and(is_made) && !self.wraps_network(expression)
    }

    /// A new network takes the place of another one: it is in training mode.
    fn replaced(&mut self, name: &str) {
        if self.modes.get(name) == Some(&true) {
            self.switch(name, false, self.statement);
        }
    }

    /// Whether a call takes frozen networks and no others: then what it makes is frozen too.
    fn wraps_frozen(&self, expression: &Expr) -> bool {
        let Expr::Call(call) = expression else { return false };
        if let Expr::Attribute(method) = &*call.func
            && method.value.is_call_expr()
        {
            return self.wraps_frozen(&method.value);
        }
        let mut given =
            call.arguments.args.iter().filter_map(access_path).filter_map(|path| match &self.lookup(&path)?.value {
                Value::Module(name) | Value::Instance(_, name) => Some(self.frozen.contains(&**name)),
                _ => self.frozen.contains(&path).then_some(true),
            });
        given.next() == Some(true) && given.all(|is_frozen| is_frozen)
    }

    /// Whether a call takes a network, as `DataParallel(net)` does, or is a method of one.
    fn wraps_network(&self, expression: &Expr) -> bool {
        let Expr::Call(call) = expression else { return true };
        let is_network = |expression: &Expr| {
            let known =
                access_path(expression).and_then(|path| self.lookup(&path).map(|binding| binding.value.clone()));
            matches!(known, Some(Value::Module(_) | Value::Instance(..) | Value::List(..) | Value::Tuple(_)))
        };
        let own = match &*call.func {
            Expr::Attribute(method) if method.value.is_call_expr() => self.wraps_network(&method.value),
            Expr::Attribute(method) => is_network(&method.value),
            _ => false,
        };
        // A copy is another network.
        if names::dotted(&call.func).is_some_and(|name| names::last(&name) == "deepcopy") {
            return false;
        }
        own || call.arguments.args.iter().any(is_network)
            || call.arguments.keywords.iter().any(|keyword| is_network(&keyword.value))
    }

    /// Whether an expression is part of a value computed with grad mode off.
    fn is_made_without_gradients(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Attribute(attribute) => self.is_made_without_gradients(&attribute.value),
            Expr::Subscript(subscript) => self.is_made_without_gradients(&subscript.value),
            Expr::Name(name) => self.without_gradients.contains(name.id.as_str()),
            _ => false,
        }
    }

    fn loss_made(&mut self, name: &str, tensor: &Tensor) {
        if tensor.graph != Certainty::No && self.backward_names().all.contains(name) {
            self.record(EventKind::LossMade { name: name.to_string() }, self.statement);
        }
    }
}

/// The mode that `net.eval()` or `Net(3).train().cuda()` leaves a network in.
fn switched(expression: &Expr) -> Option<bool> {
    let Expr::Call(call) = expression else { return None };
    let Expr::Attribute(method) = &*call.func else { return None };
    match method.attr.as_str() {
        "eval" => Some(true),
        "train" if call.arguments.is_empty() => Some(false),
        name if crate::analysis::usage::is_fluent(name) => switched(&method.value),
        _ => None,
    }
}

/// Whether an expression makes something new.
fn is_made(expression: Option<&Expr>) -> bool {
    match expression {
        Some(Expr::Call(_)) => true,
        Some(Expr::If(choice)) => is_made(Some(&choice.body)) && is_made(Some(&choice.orelse)),
        _ => false,
    }
}

fn is_computed(expression: Option<&Expr>) -> bool {
    match expression {
        Some(Expr::Call(_) | Expr::BinOp(_) | Expr::Attribute(_) | Expr::Subscript(_) | Expr::Await(_)) => true,
        Some(Expr::UnaryOp(operation)) => is_computed(Some(&operation.operand)),
        Some(Expr::If(choice)) => is_computed(Some(&choice.body)) && is_computed(Some(&choice.orelse)),
        _ => false,
    }
}
