//! What is interpreted first: the module, and each function that nothing in the file calls. Code that others call for each batch
//! (a framework's hooks, a training step, a network's forward pass) runs within a loop elsewhere.

use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};

use super::{Binding, Frame, Interpreter};
use crate::analysis::device::Device;
use crate::analysis::facts::{EventKind, Gradients, Iterates, Repeats, ScopeKind};
use crate::analysis::index::{ClassKind, FunctionId};
use crate::analysis::names::Role;
use crate::analysis::value::{Tensor, Value};

impl<'a> Interpreter<'a> {
    pub(super) fn run(&mut self, body: &'a [Stmt]) {
        let constructors: Vec<FunctionId> = (0..self.facts.index.classes.len())
            .flat_map(|class| {
                let methods = &self.facts.index.classes[class].methods;
                ["__init__", "setup", "configure_optimizers"].into_iter().filter_map(|name| methods.get(name).copied())
            })
            .collect();
        for function in constructors {
            self.modes.clear();
            self.root_function(function);
            self.remember_modes(function);
        }
        self.modes.clear();
        self.root_module(body);
        // Callers before their callees, so that a helper is interpreted as it is used; hooks after what calls the networks.
        let hooks: Vec<FunctionId> =
            (0..self.facts.index.functions.len()).filter(|function| self.is_forward_hook(*function)).collect();
        for wants_uncalled in [true, false] {
            for function in 0..self.facts.index.functions.len() {
                let is_called = self.facts.index.called.contains(self.facts.index.functions[function].name);
                // What other files define is interpreted where it is called.
                let is_own = self.facts.index.functions[function].range.start() < self.facts.index.own_end;
                if is_own && !self.visited[function] && is_called != wants_uncalled && !hooks.contains(&function) {
                    self.root_function(function);
                }
            }
        }
        for function in hooks {
            self.root_function(function);
        }
    }

    /// Whether a function is registered as a forward hook, or is made by a function that makes hooks.
    pub(super) fn is_forward_hook(&self, function: FunctionId) -> bool {
        let index = &self.facts.index;
        let declared = &index.functions[function];
        let has_inner = index.functions.iter().any(|inner| inner.parent == Some(function));
        let is_inner = declared.parent.is_some_and(|parent| index.usage.is_hook(index.functions[parent].name));
        is_inner || index.usage.is_hook(declared.name) && !has_inner
    }

    /// Whether the function around a hook removes it again: then the hook sees that function's own calls of the network.
    fn is_removed(&self, function: FunctionId) -> bool {
        let index = &self.facts.index;
        let parent = index.functions[function].parent;
        parent.is_some_and(|parent| self.facts.source[index.functions[parent].range].contains(".remove()"))
    }

    /// Notes which networks a constructor leaves in evaluation mode for good.
    pub(super) fn remember_modes(&mut self, function: FunctionId) {
        let Some(class) = self.facts.index.functions[function].class else { return };
        let trained = self.facts.index.methods_called.get("train");
        for (module, is_evaluation) in &self.modes {
            if *is_evaluation && module.starts_with("self.") && !trained.is_some_and(|paths| paths.contains(module)) {
                self.switched_by_constructor.push((class, module.clone()));
            }
        }
    }

    /// The grad mode in which the file calls its networks.
    pub(super) fn forward_gradients(&self) -> Gradients {
        let mut modes = self.facts.roots.iter().flatten().filter_map(|event| match event.kind {
            EventKind::Forward { .. } => Some(event.gradients),
            _ => None,
        });
        let Some(first) = modes.next() else { return Gradients::Unknown };
        if first == Gradients::On || modes.any(|mode| mode == Gradients::On) { Gradients::On } else { first }
    }

    pub(super) fn root_module(&mut self, body: &'a [Stmt]) {
        self.scope = self.new_scope(None, ScopeKind::Root(None));
        self.frames.push(Frame::default());
        self.body(body);
        if let Some(frame) = self.frames.pop() {
            self.globals = frame.variables;
        }
        self.module_gradients = self.gradients;
        self.end_root();
    }

    pub(super) fn root_function(&mut self, function: FunctionId) {
        self.visited[function] = true;
        self.scope = self.new_scope(None, ScopeKind::Root(Some(function)));
        self.gradients = self.decorated(function).unwrap_or(self.module_gradients);
        let hook = self.hook(function);
        let is_forward_hook = self.is_forward_hook(function);
        if is_forward_hook && self.is_removed(function) {
            self.gradients = self.forward_gradients();
        } else if is_forward_hook {
            self.gradients = self.forward_gradients();
            self.new_loop_elsewhere(Role::Train, Repeats::Forward);
        } else if hook.is_none() && self.gradients == Gradients::On && self.is_left_to_callers(function) {
            if self.facts.index.functions[function].name == "forward" {
                self.new_loop_elsewhere(Role::Train, Repeats::Forward);
            } else {
                self.gradients = Gradients::Unknown;
            }
        }
        // A method that the file calls without gradients alone.
        let declared = &self.facts.index.functions[function];
        if declared.class.is_some() && self.called_unknown.get(declared.name) == Some(&[false, true]) {
            self.gradients = self.decorated(function).unwrap_or(Gradients::Unknown);
        }
        if let Some((role, gradients)) = hook {
            self.gradients = gradients.unwrap_or(self.gradients);
            self.new_loop_elsewhere(role, Repeats::Framework);
        } else if is_training_step(self.facts.index.functions[function].body) {
            self.new_loop_elsewhere(Role::Train, Repeats::Step);
        }
        let declared = &self.facts.index.functions[function];
        let (parameters, class, statements) = (declared.parameters, declared.class, declared.body);
        let mut frame = Frame { function: Some(function), class, ..Frame::default() };
        // What has a default is no input of a hook.
        let count = parameters.iter_non_variadic_params().filter(|parameter| parameter.default().is_none()).count();
        for (position, parameter) in parameters.iter().enumerate() {
            let name = parameter.name().as_str();
            let mut value = self.guess(name);
            if let (Some(_), Value::Unknown(_)) = (hook, &value)
                && name.contains("batch")
            {
                value = Value::Structure(Tensor { is_data: true, ..Tensor::plain(Device::Gpu) });
            }
            // The network, its inputs, its output.
            if is_forward_hook && position + 1 == count && position > 0 {
                value = Value::Structure(self.forward_tensor(&parameter.name().range()));
            }
            if let (Some(class), "self") = (class, name) {
                value = Value::Instance(class, "self".into());
            }
            frame.variables.insert(name.to_string(), Binding { value, scope: self.scope });
        }
        self.frames.push(frame);
        self.active.push(function);
        let switched: Vec<String> = self
            .switched_by_constructor
            .iter()
            .filter(|(own, _)| Some(*own) == class)
            .map(|(_, name)| name.clone())
            .collect();
        for module in switched {
            self.switch(&module, true, TextRange::empty(self.facts.index.functions[function].range.start()));
        }
        self.body(statements);
        self.active.pop();
        self.frames.pop();
        self.end_root();
    }

    /// Enters a loop that code elsewhere runs.
    pub(super) fn new_loop_elsewhere(&mut self, role: Role, repeats: Repeats) {
        let (_, number) = self.new_loop(Iterates::Batches(role), None);
        self.facts.loops[number].repeats = repeats;
    }

    /// The training hook of a framework that is interpreted as a root: what it returns goes into a backward pass.
    pub(super) fn is_in_training_hook(&self) -> bool {
        match &self.active[..] {
            [function] => matches!(self.hook(*function), Some((Role::Train, _))),
            _ => false,
        }
    }

    /// A method of a model that does not train: its callers, in other files, choose the grad mode.
    pub(super) fn is_left_to_callers(&self, function: FunctionId) -> bool {
        let declared = &self.facts.index.functions[function];
        let is_network = declared.class.is_some_and(|class| self.facts.index.classes[class].kind == ClassKind::Module);
        is_network && !self.facts.source[declared.range].contains("backward(")
    }

    pub(super) fn end_root(&mut self) {
        self.gradients = self.module_gradients;
        self.gradients_set = None;
        let events = std::mem::take(&mut self.events);
        if !events.is_empty() {
            self.facts.roots.push(events);
        }
    }

    /// For a method that a framework calls for each batch: the role of the batches, and the grad mode if it sets one.
    pub(super) fn hook(&self, function: FunctionId) -> Option<(Role, Option<Gradients>)> {
        let declared = &self.facts.index.functions[function];
        let kind = self.facts.index.classes[declared.class?].kind;
        match (kind, declared.name) {
            (ClassKind::Lightning, "training_step" | "on_train_batch_end" | "on_train_batch_start") => {
                Some((Role::Train, None))
            }
            (
                ClassKind::Lightning,
                "validation_step" | "test_step" | "predict_step" | "on_validation_batch_end" | "on_test_batch_end",
            ) => Some((Role::Evaluation, Some(Gradients::Off))),
            (ClassKind::Lightning, name) if name.contains("validation") || name.contains("test_epoch") => {
                Some((Role::Evaluation, Some(Gradients::Off)))
            }
            (ClassKind::Trainer, "training_step" | "compute_loss") => Some((Role::Train, None)),
            (ClassKind::Trainer, "prediction_step") => Some((Role::Evaluation, None)),
            _ => None,
        }
    }
}

/// Whether a function runs a backward pass and an optimizer's step once: others call it for each batch.
fn is_training_step(body: &[Stmt]) -> bool {
    struct Finder {
        has_backward: bool,
        has_step: bool,
    }
    impl<'a> ruff_python_ast::visitor::Visitor<'a> for Finder {
        fn visit_stmt(&mut self, statement: &'a Stmt) {
            if !matches!(statement, Stmt::For(_) | Stmt::While(_) | Stmt::FunctionDef(_) | Stmt::ClassDef(_)) {
                ruff_python_ast::visitor::walk_stmt(self, statement);
            }
        }

        fn visit_expr(&mut self, expression: &'a Expr) {
            if let Expr::Call(call) = expression
                && let Expr::Attribute(method) = &*call.func
            {
                self.has_backward |= matches!(method.attr.as_str(), "backward" | "manual_backward");
                self.has_step |= method.attr.as_str() == "step";
            }
            ruff_python_ast::visitor::walk_expr(self, expression);
        }
    }
    let mut finder = Finder { has_backward: false, has_step: false };
    ruff_python_ast::visitor::Visitor::visit_body(&mut finder, body);
    finder.has_backward && finder.has_step
}
