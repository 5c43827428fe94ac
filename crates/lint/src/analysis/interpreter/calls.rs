//! Calls: of libraries, of methods, of functions of the file.

use std::rc::Rc;

use ruff_python_ast::{Expr, ExprCall};

use super::{Binding, CALL_DEPTH, Frame, Interpreter};
use crate::analysis::device::Device;
use crate::analysis::facts::{Gradients, ScopeKind};
use crate::analysis::index::{ClassId, ClassKind, FunctionId};
use crate::analysis::names;
use crate::analysis::usage::is_fluent;
use crate::analysis::value::{Bound, Certainty, ProvenanceRef, Tensor, Value, merge};

/// The evaluated arguments of a call.
pub(super) struct Arguments<'a> {
    pub positional: Vec<Value>,
    pub keywords: Vec<(Option<&'a str>, Value)>,
}

impl Arguments<'_> {
    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.positional.iter().chain(self.keywords.iter().map(|(_, value)| value))
    }

    pub(super) fn provenance(&self) -> ProvenanceRef {
        self.all().fold(None, |all, value| merge(&all, &value.provenance()))
    }

    /// All tensors among the arguments, combined as by an operation.
    pub(super) fn tensor(&self) -> Option<Tensor> {
        let mut tensors = self.all().filter_map(Value::tensor);
        let first = tensors.next()?;
        Some(tensors.fold(first, |all, tensor| all.with(&tensor)))
    }

    pub(super) fn keyword(&self, name: &str) -> Option<&Value> {
        self.keywords.iter().find(|(keyword, _)| *keyword == Some(name)).map(|(_, value)| value)
    }

    pub(super) fn first(&self) -> Value {
        self.positional.first().cloned().unwrap_or(Value::UNKNOWN)
    }
}

impl<'a> Interpreter<'a> {
    pub(super) fn call(&mut self, call: &'a ExprCall) -> Value {
        let target = self.target.take();
        let function = match &*call.func {
            Expr::Attribute(method) => {
                // The attribute may have been assigned, as in `self.step = nn.Linear(…)`.
                let whole = names::access_path(&call.func)
                    .and_then(|path| self.lookup(&path).map(|binding| binding.value.clone()));
                match whole {
                    Some(value) => self.as_part(value, &method.value),
                    None => {
                        // `net = Net(3).cuda()`: what is assigned is the network that the inner call makes.
                        if is_fluent(method.attr.as_str()) && method.value.is_call_expr() {
                            self.target = target.clone();
                        }
                        let owner = self.eval(&method.value);
                        self.target = None;
                        let attribute = self.called_attribute(&owner, call, method.attr.as_str());
                        if attribute.is_none() && !matches!(owner, Value::Library(_)) {
                            let arguments = self.arguments(call);
                            self.target = target;
                            let result = self.method(owner, &method.value, method.attr.as_str(), call, &arguments);
                            self.target = None;
                            return result;
                        }
                        match attribute {
                            Some(attribute) => attribute,
                            None => self.eval(&call.func),
                        }
                    }
                }
            }
            other => self.eval(other),
        };
        let arguments = self.arguments(call);
        self.target = target;
        let result = match function {
            Value::Library(path) => self.library(&path, call, &arguments),
            Value::Function(function) => self.follow(function, None, call, &arguments),
            Value::Class(class) => self.construct(class, call, &arguments),
            // What returns a network makes one, whatever it is called.
            Value::Module(module)
                if self.target.as_deref().is_some_and(|target| target != &*module && self.is_network(target)) =>
            {
                self.builtin(call, &arguments)
            }
            Value::Module(module) => self.forward(&module, call, &arguments),
            Value::Instance(class, name) => match self.facts.index.classes[class].kind {
                ClassKind::Criterion => {
                    let loss = self.loss_of(&arguments);
                    self.parts_of_forward(class, call, &arguments, loss)
                }
                ClassKind::Module | ClassKind::Lightning => {
                    let value = self.forward(&name, call, &arguments);
                    self.note_gradients_inside(class, call);
                    self.parts_of_forward(class, call, &arguments, value)
                }
                _ => match self.facts.index.method(class, "__call__") {
                    Some(method) => self.follow(method, Some(class), call, &arguments),
                    None => Value::Unknown(arguments.provenance()),
                },
            },
            Value::Criterion => self.loss_of(&arguments),
            Value::Unknown(_) | Value::Structure(_)
                if names::access_path(&call.func).is_some_and(|path| self.is_network(&path)) =>
            {
                let path = names::access_path(&call.func).unwrap_or_default();
                self.forward(&path, call, &arguments)
            }
            Value::Structure(_) | Value::Tensor(_) => Value::Unknown(arguments.provenance()),
            _ => self.builtin(call, &arguments),
        };
        self.target = None;
        result
    }

    fn arguments(&mut self, call: &'a ExprCall) -> Arguments<'a> {
        let positional = call.arguments.args.iter().map(|argument| self.eval(argument)).collect();
        let keywords = call.arguments.keywords.iter();
        let keywords = keywords
            .map(|keyword| (keyword.arg.as_ref().map(|name| name.as_str()), self.eval(&keyword.value)))
            .collect();
        Arguments { positional, keywords }
    }

    /// Interprets a function of the file for this call.
    pub(super) fn follow(
        &mut self,
        function: FunctionId,
        class: Option<ClassId>,
        call: &'a ExprCall,
        arguments: &Arguments<'a>,
    ) -> Value {
        let unknown = Value::Unknown(arguments.provenance());
        if self.active.len() >= CALL_DEPTH || self.active.contains(&function) || self.budget == 0 {
            return unknown;
        }
        self.visited[function] = true;
        let declared = &self.facts.index.functions[function];
        let (parameters, body, own_class) = (declared.parameters, declared.body, declared.class.or(class));
        let is_static = declared
            .decorators
            .iter()
            .any(|decorator| names::dotted(&decorator.expression).as_deref() == Some("staticmethod"));
        let is_network = declared.class.is_some_and(|class| self.facts.index.classes[class].kind != ClassKind::Other);
        let is_forward = declared.name == "forward" && is_network && !call.arguments.is_empty();
        if is_forward && self.silent == 0 {
            return unknown;
        }
        let is_method = declared.class.is_some() && !is_static;
        let outer = self.enter(ScopeKind::Call(function));
        let mut frame = Frame { function: Some(function), class: own_class, ..Frame::default() };
        if declared_nested(self, function) {
            frame.class = own_class.or(self.frames.last().and_then(|frame| frame.class));
        }
        let names: Vec<&str> =
            parameters.iter_non_variadic_params().map(|parameter| parameter.name().as_str()).collect();
        let positional = names.iter().skip(usize::from(is_method));
        let mut given: Vec<(&str, Value)> =
            positional.zip(&arguments.positional).map(|(name, value)| (*name, value.clone())).collect();
        given.extend(arguments.keywords.iter().filter_map(|(name, value)| Some(((*name)?, value.clone()))));
        let has_splat = call.arguments.args.iter().any(Expr::is_starred_expr)
            || arguments.keywords.iter().any(|(name, _)| name.is_none());
        for parameter in parameters.iter_non_variadic_params() {
            let name = parameter.name().as_str();
            let value = match given.iter().find(|(known, _)| *known == name) {
                Some((_, Value::Unknown(None))) => self.guess(name),
                Some((_, value)) => value.clone(),
                None if has_splat => self.guess(name),
                None => match parameter.default() {
                    Some(Expr::BooleanLiteral(literal)) => Value::Bool(literal.value),
                    Some(Expr::NoneLiteral(_)) => Value::None,
                    Some(Expr::NumberLiteral(_) | Expr::StringLiteral(_)) => Value::Plain,
                    _ => self.guess(name),
                },
            };
            frame.variables.insert(name.to_string(), Binding { value, scope: self.binding_scope(name, call, outer) });
        }
        if let Some(rest) = &parameters.vararg {
            let taken = names.len().saturating_sub(usize::from(is_method));
            let items: Vec<Value> = arguments.positional.iter().skip(taken).cloned().collect();
            let binding = Binding { value: Value::Tuple(Rc::new(items)), scope: self.scope };
            frame.variables.insert(rest.name.to_string(), binding);
        }
        if let Some(rest) = &parameters.kwarg {
            let others = arguments.keywords.iter().filter(|(name, _)| name.is_none_or(|name| !names.contains(&name)));
            let items: Vec<Value> = others.map(|(_, value)| value.clone()).collect();
            let item = Value::Tuple(Rc::new(items));
            let binding = Binding { value: Value::List(Rc::new(item), Bound::Open), scope: self.scope };
            frame.variables.insert(rest.name.to_string(), binding);
        }
        if is_method && let Some(class) = own_class {
            frame
                .variables
                .insert("self".into(), Binding { value: Value::Instance(class, "self".into()), scope: self.scope });
        }
        let (gradients, outer_set) = (self.gradients, self.gradients_set.take());
        let decorated = self.decorated(function);
        self.gradients = decorated.unwrap_or(gradients);
        let (statement, target) = (self.statement, self.target.take());
        self.frames.push(frame);
        self.active.push(function);
        self.body(body);
        self.active.pop();
        let frame = self.frames.pop().unwrap_or_default();
        let returned = match frame.yielded {
            Some(item) => Some(Value::List(Rc::new(item), Bound::Open)),
            None => frame.returned,
        };
        self.statement = statement;
        self.target = target;
        // What `torch.set_grad_enabled(…)` has set stays set for the caller.
        let set = self.gradients_set.take().filter(|_| decorated.is_none());
        self.gradients = set.unwrap_or(gradients);
        self.gradients_set = set.or(outer_set);
        self.scope = outer;
        match returned {
            Some(Value::Unknown(provenance)) => Value::Unknown(merge(&provenance, &arguments.provenance())),
            Some(value) => value,
            None => Value::None,
        }
    }

    /// The scope in which an argument was bound: a container passed as an argument belongs to the caller.
    fn binding_scope(&self, parameter: &str, call: &ExprCall, outer: usize) -> usize {
        let by_keyword = call.arguments.find_keyword(parameter).map(|keyword| &keyword.value);
        let argument = by_keyword.or_else(|| {
            call.arguments
                .args
                .iter()
                .find(|argument| names::access_path(argument).is_some_and(|path| names::last(&path) == parameter))
        });
        let path = argument.and_then(names::access_path);
        path.and_then(|path| self.lookup(&path).map(|binding| binding.scope)).unwrap_or(outer)
    }

    fn construct(&mut self, class: ClassId, call: &'a ExprCall, arguments: &Arguments<'a>) -> Value {
        let kind = self.facts.index.classes[class].kind;
        if let Some(constructor) = self.facts.index.method(class, "__init__")
            && kind == ClassKind::Other
        {
            self.follow(constructor, Some(class), call, arguments);
        }
        let is_tuple = self.facts.index.classes[class].bases.iter().any(|base| names::last(base) == "NamedTuple");
        match kind {
            ClassKind::Other if is_tuple => Value::Tuple(Rc::new(arguments.all().cloned().collect())),
            // A loss with its parts: its forward shows which of them are numbers.
            ClassKind::Criterion if self.facts.index.method(class, "forward").is_none() => Value::Criterion,
            ClassKind::Dataset => Value::Dataset(self.data_role(call)),
            ClassKind::Other => Value::Instance(class, self.target.clone().unwrap_or_else(|| "object".into()).into()),
            // Its methods are interpreted where they are called.
            ClassKind::Module | ClassKind::Lightning | ClassKind::Trainer | ClassKind::Criterion => Value::Instance(
                class,
                self.target.clone().unwrap_or_else(|| self.facts.index.classes[class].name.to_lowercase()).into(),
            ),
        }
    }

    /// The result of a loss function.
    pub(super) fn loss_of(&self, arguments: &Arguments<'_>) -> Value {
        match loss_from(arguments) {
            Value::Tensor(tensor) if self.gradients == Gradients::Off => Value::Tensor(tensor.detached()),
            loss => loss,
        }
    }

    /// Whether a tensor computed here carries a graph.
    pub(super) fn graph_here(&self) -> Certainty {
        match self.gradients {
            Gradients::On => Certainty::Yes,
            Gradients::Off => Certainty::No,
            Gradients::Unknown => Certainty::Unknown,
        }
    }
}

fn declared_nested(interpreter: &Interpreter<'_>, function: FunctionId) -> bool {
    interpreter.facts.index.functions[function].parent.is_some()
}

/// The result of a loss function, with gradients on.
fn loss_from(arguments: &Arguments<'_>) -> Value {
    match arguments.tensor() {
        Some(tensor) => {
            // A model among the arguments is called inside.
            let others_unknown = arguments
                .all()
                .any(|value| matches!(value, Value::Unknown(_) | Value::Module(_) | Value::Instance(..)));
            let tensor = tensor.operated();
            let graph = if tensor.graph == Certainty::No && others_unknown { Certainty::Unknown } else { tensor.graph };
            Value::Tensor(Tensor {
                graph,
                is_loss: true,
                is_data: false,
                is_divided: false,
                is_weighed: false,
                is_leaf: false,
                provenance: merge(&tensor.provenance, &arguments.provenance()),
                ..tensor
            })
        }
        None => Value::Tensor(Tensor {
            graph: Certainty::Unknown,
            is_loss: true,
            is_divided: false,
            provenance: arguments.provenance(),
            ..Tensor::plain(Device::Unknown)
        }),
    }
}
