//! Goes through a program as Python would, with what can be known of each value instead of the value.
//!
//! Functions of the file are followed where they are called, so that what they do is seen with the caller's loops,
//! arguments and grad mode. A loop's body is gone through twice: what the first pass leaves behind is what the second
//! one finds.

mod assign;
mod calls;
mod expressions;
mod library;
mod methods;
mod statements;

use std::cell::RefCell;
use std::rc::Rc;

use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextRange, TextSize};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::backward_names::backward_names;
use super::facts::{Event, Facts, Gradients, Iterates, Kind, Loop, LoopId, Scope, ScopeId, ScopeKind};
use super::index::{ClassId, ClassKind, FunctionId, Index};
use super::names::{self, Role};
use super::value::{Device, Known, Loader, Tensor, Trace, Value};

/// Statements gone through for one file: enough for any script, and an end for a hostile one.
const BUDGET: u32 = 60_000;
/// Functions followed into functions.
const CALL_DEPTH: usize = 5;
/// Nested loops that are gone through twice.
const LOOP_DEPTH: usize = 3;
/// Nested expressions and blocks that are looked into.
const NESTING: usize = 200;

#[derive(Clone, Debug)]
struct Binding {
    value: Value,
    scope: ScopeId,
}

#[derive(Clone, Debug, Default)]
struct Frame {
    variables: HashMap<String, Binding>,
    function: Option<FunctionId>,
    class: Option<ClassId>,
    returned: Option<Value>,
}

struct Interpreter<'a> {
    facts: Facts<'a>,
    events: Vec<Event<'a>>,
    frames: Vec<Frame>,
    globals: HashMap<String, Binding>,
    attributes: Vec<HashMap<String, Binding>>,
    frozen: HashSet<String>,
    on_gpu: HashSet<String>,
    scope: ScopeId,
    gradients: Gradients,
    /// What the module leaves autograd at for whoever calls its functions.
    left_at: Gradients,
    silent: u32,
    statement: TextRange,
    loop_depth: usize,
    nesting: usize,
    active: Vec<FunctionId>,
    visited: Vec<bool>,
    budget: u32,
    backward_names: HashMap<Option<FunctionId>, Rc<HashSet<String>>>,
    /// The name the value under evaluation is going to have.
    target: Option<String>,
    guesses: RefCell<HashMap<String, Value>>,
    /// Names that were last bound where autograd does not record.
    without_gradients: HashSet<String>,
}

/// Finds out what happens in a file.
pub fn analyse<'a>(body: &'a [Stmt], source: &'a str) -> Facts<'a> {
    let index = Index::new(body, source);
    let mut interpreter = Interpreter {
        attributes: vec![HashMap::default(); index.classes.len()],
        visited: vec![false; index.functions.len()],
        facts: Facts {
            index,
            source,
            body,
            scopes: Vec::new(),
            loops: Vec::new(),
            roots: Vec::new(),
            consumed: Vec::new(),
        },
        events: Vec::new(),
        frames: Vec::new(),
        globals: HashMap::default(),
        frozen: HashSet::default(),
        on_gpu: HashSet::default(),
        scope: 0,
        gradients: Gradients::On,
        left_at: Gradients::On,
        silent: 0,
        statement: TextRange::empty(TextSize::new(0)),
        loop_depth: 0,
        nesting: 0,
        active: Vec::new(),
        budget: BUDGET,
        backward_names: HashMap::default(),
        target: None,
        guesses: RefCell::default(),
        without_gradients: HashSet::default(),
    };
    if interpreter.facts.index.is_worth_following {
        interpreter.run(body);
    }
    interpreter.facts
}

impl<'a> Interpreter<'a> {
    fn run(&mut self, body: &'a [Stmt]) {
        let constructors: Vec<FunctionId> = (0..self.facts.index.classes.len())
            .flat_map(|class| {
                let methods = &self.facts.index.classes[class].methods;
                ["__init__", "setup", "configure_optimizers"].into_iter().filter_map(|name| methods.get(name).copied())
            })
            .collect();
        for function in constructors {
            self.root_function(function);
        }
        self.root_module(body);
        // Callers before those they call, so that a helper is seen as it is used.
        for wants_uncalled in [true, false] {
            for function in 0..self.facts.index.functions.len() {
                let is_called = self.facts.index.called.contains(self.facts.index.functions[function].name);
                if !self.visited[function] && is_called != wants_uncalled {
                    self.root_function(function);
                }
            }
        }
    }

    fn root_module(&mut self, body: &'a [Stmt]) {
        self.scope = self.new_scope(None, ScopeKind::Root(None));
        self.frames.push(Frame::default());
        self.body(body);
        if let Some(frame) = self.frames.pop() {
            self.globals = frame.variables;
        }
        self.left_at = self.gradients;
        self.end_root();
    }

    fn root_function(&mut self, function: FunctionId) {
        self.visited[function] = true;
        self.scope = self.new_scope(None, ScopeKind::Root(Some(function)));
        self.gradients = self.decorated(function).unwrap_or(self.left_at);
        let hook = self.hook(function);
        if hook.is_none() && self.gradients == Gradients::On && self.is_left_to_callers(function) {
            self.gradients = Gradients::Unknown;
        }
        if let Some((role, gradients)) = hook {
            self.gradients = gradients.unwrap_or(self.gradients);
            let outer = self.scope;
            self.new_loop(Iterates::Batches(role), None);
            debug_assert_ne!(outer, self.scope);
        }
        let declared = &self.facts.index.functions[function];
        let (parameters, class, statements) = (declared.parameters, declared.class, declared.body);
        let mut frame = Frame { function: Some(function), class, ..Frame::default() };
        for parameter in parameters.iter() {
            let name = parameter.name().as_str();
            let mut value = self.guess(name);
            if let (Some(_), Value::Unknown(_)) = (hook, &value)
                && name.contains("batch")
            {
                value = Value::Structure(Tensor { is_data: true, ..Tensor::plain(Device::Gpu) });
            }
            if let (Some(class), "self") = (class, name) {
                value = Value::Instance(class, "self".into());
            }
            frame.variables.insert(name.to_string(), Binding { value, scope: self.scope });
        }
        self.frames.push(frame);
        self.active.push(function);
        self.body(statements);
        self.active.pop();
        self.frames.pop();
        self.end_root();
    }

    /// A method of a network that nobody in the file is seen to call, and that trains nothing itself.
    fn is_left_to_callers(&self, function: FunctionId) -> bool {
        let declared = &self.facts.index.functions[function];
        let is_network = declared.class.is_some_and(|class| self.facts.index.classes[class].kind == ClassKind::Module);
        is_network && !self.facts.source[declared.range].contains("backward(")
    }

    fn end_root(&mut self) {
        self.gradients = self.left_at;
        let events = std::mem::take(&mut self.events);
        if !events.is_empty() {
            self.facts.roots.push(events);
        }
    }

    /// What a framework calls batch by batch, and whether autograd records there.
    fn hook(&self, function: FunctionId) -> Option<(Role, Option<Gradients>)> {
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

    /// The grad mode a decorator sets.
    fn decorated(&self, function: FunctionId) -> Option<Gradients> {
        let decorators = self.facts.index.functions[function].decorators;
        decorators.iter().find_map(|decorator| self.grad_context(&decorator.expression))
    }

    /// The grad mode a context manager or decorator sets.
    fn grad_context(&self, expression: &Expr) -> Option<Gradients> {
        let (function, arguments) = match expression {
            Expr::Call(call) => (&*call.func, Some(&call.arguments)),
            Expr::If(choice) => {
                let arms = [self.grad_context(&choice.body), self.grad_context(&choice.orelse)];
                return (arms != [None, None]).then_some(if arms[0] == arms[1] {
                    Gradients::Off
                } else {
                    Gradients::Unknown
                });
            }
            other => (other, None),
        };
        let name = names::dotted(function)?;
        match names::last(&name) {
            "no_grad" | "inference_mode" => match arguments.and_then(|arguments| arguments.args.first()) {
                Some(Expr::BooleanLiteral(on)) if !on.value => Some(Gradients::On),
                Some(Expr::BooleanLiteral(_)) | None => Some(Gradients::Off),
                // `@torch.no_grad` around a function is a decorator; a switch is not known.
                Some(_) => Some(Gradients::Unknown),
            },
            "enable_grad" => Some(Gradients::On),
            "set_grad_enabled" => Some(match arguments.and_then(|arguments| arguments.args.first()) {
                Some(switch) => match self.truth(switch) {
                    Some(true) => Gradients::On,
                    Some(false) => Gradients::Off,
                    None => Gradients::Unknown,
                },
                None => Gradients::Unknown,
            }),
            last => {
                let lower = last.to_lowercase();
                (lower.contains("no_grad")
                    || lower.contains("nograd")
                    || lower.contains("inference_mode")
                    || lower.contains("grad_mode"))
                .then_some(Gradients::Unknown)
            }
        }
    }

    fn new_scope(&mut self, parent: Option<ScopeId>, kind: ScopeKind<'a>) -> ScopeId {
        self.facts.scopes.push(Scope { parent, kind });
        self.facts.scopes.len() - 1
    }

    /// Enters a scope within this one; gives back this one.
    fn enter(&mut self, kind: ScopeKind<'a>) -> ScopeId {
        let outer = self.scope;
        self.scope = self.new_scope(Some(outer), kind);
        outer
    }

    fn new_loop(&mut self, iterates: Iterates, statement: Option<&'a Stmt>) -> (ScopeId, LoopId) {
        let number = self.facts.loops.len();
        let outer = self.enter(ScopeKind::Loop(number));
        self.facts.loops.push(Loop { iterates, statement, parent: outer, scope: self.scope });
        (outer, number)
    }

    fn record(&mut self, kind: Kind<'a>, range: TextRange) {
        if self.silent == 0 {
            let (statement, scope, gradients) = (self.statement, self.scope, self.gradients);
            self.events.push(Event { kind, range, statement, scope, gradients });
        }
    }

    /// Notes that what was kept there went into a backward pass.
    fn consume(&mut self, value: &Value) {
        if let Some(trace) = value.trace() {
            self.facts.consumed.extend(trace.keeps.iter());
        }
    }

    fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// Where `self.…` of the function at hand, or of a known object, is written down.
    fn attribute_key(&self, place: &str) -> Option<(ClassId, String)> {
        let (owner, rest) = place.split_once('.')?;
        let frame = self.frames.last()?;
        if let (Some(class), "self") = (frame.class, owner) {
            return Some((class, place.to_string()));
        }
        match self.lookup_variable(owner)?.value {
            Value::Instance(class, _) => Some((class, format!("self.{rest}"))),
            _ => None,
        }
    }

    fn lookup_variable(&self, place: &str) -> Option<&Binding> {
        let mut frames = self.frames.iter().rev();
        let frame = frames.next()?;
        if let Some(binding) = frame.variables.get(place) {
            return Some(binding);
        }
        // A function within a function sees what is around it.
        let is_nested = frame.function.is_some_and(|function| self.facts.index.functions[function].parent.is_some());
        if is_nested && let Some(binding) = frames.find_map(|frame| frame.variables.get(place)) {
            return Some(binding);
        }
        let module = self.frames.first().filter(|frame| frame.function.is_none());
        module.and_then(|frame| frame.variables.get(place)).or_else(|| self.globals.get(place))
    }

    fn lookup(&self, place: &str) -> Option<&Binding> {
        match self.attribute_key(place) {
            Some((class, key)) => self.attributes[class].get(&key),
            None => self.lookup_variable(place),
        }
    }

    fn store(&mut self, place: String, value: Value) {
        let scope = self.scope;
        self.store_at(place, Binding { value, scope });
    }

    fn store_at(&mut self, place: String, binding: Binding) {
        match self.attribute_key(&place) {
            Some((class, key)) => {
                self.attributes[class].insert(key, binding);
            }
            None => {
                self.frame().variables.insert(place, binding);
            }
        }
    }

    /// What a name that nothing is known of stands for, going by how it is used and by what it is called.
    fn guess(&self, place: &str) -> Value {
        if let Some(known) = self.guesses.borrow().get(place) {
            return known.clone();
        }
        let value = self.guess_anew(place);
        self.guesses.borrow_mut().insert(place.to_string(), value.clone());
        value
    }

    fn guess_anew(&self, place: &str) -> Value {
        let index = &self.facts.index;
        let has = |method: &str| index.methods_called.get(method).is_some_and(|places| places.contains(place));
        let lower = names::last(place).to_lowercase();
        if lower.contains("sched") {
            return Value::Scheduler;
        }
        if names::is_optimizer(place) {
            return Value::Optimizer(place.into());
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
        if names::is_loader(place) {
            return Value::Loader(Loader { role: names::role(place), device: self.facts.index.batches });
        }
        if names::is_dataset(place) {
            return Value::Dataset(names::role(place));
        }
        if names::is_loss_function(place) && !names::last(place).to_lowercase().ends_with("losses") && lower != "loss" {
            return Value::Criterion;
        }
        let acts_as_model =
            ["parameters", "state_dict", "named_parameters"].into_iter().any(has) || (has("train") && has("eval"));
        if acts_as_model && !lower.contains("trainer") || names::is_model(place) {
            return Value::Module(place.into());
        }
        Value::UNKNOWN
    }

    fn names_into_backward(&mut self) -> Rc<HashSet<String>> {
        let function = self.frames.last().and_then(|frame| frame.function);
        if let Some(known) = self.backward_names.get(&function) {
            return known.clone();
        }
        let found = match function {
            Some(function) => {
                let returns_loss = matches!(self.hook(function), Some((Role::Train, _)));
                backward_names(self.facts.index.functions[function].body, returns_loss)
            }
            None => backward_names(self.facts.body, false),
        };
        let found = Rc::new(found);
        self.backward_names.insert(function, found.clone());
        found
    }

    /// The value of a tensor that a network gives at this place.
    fn forward_tensor(&self, at: &impl Ranged) -> Tensor {
        let trace = Trace { forwards: vec![at.range().start().to_u32()], keeps: Vec::new() };
        let graph = match self.gradients {
            Gradients::On => Known::Yes,
            Gradients::Off => Known::No,
            Gradients::Unknown => Known::Unknown,
        };
        Tensor { graph, trace: Some(Rc::new(trace)), ..Tensor::plain(Device::Unknown) }
    }

    /// Whether a test is known to come out so.
    fn truth(&self, test: &Expr) -> Option<bool> {
        match test {
            Expr::BooleanLiteral(literal) => Some(literal.value),
            Expr::Name(_) | Expr::Attribute(_) => match self.lookup(&names::place(test)?)?.value {
                Value::Bool(value) => Some(value),
                Value::None => Some(false),
                Value::Optimizer(_) | Value::Module(_) | Value::Instance(..) | Value::Function(_)
                    if self.frames.len() > 1 =>
                {
                    Some(true)
                }
                _ => None,
            },
            Expr::UnaryOp(operation) if operation.op == ruff_python_ast::UnaryOp::Not => {
                self.truth(&operation.operand).map(|value| !value)
            }
            Expr::Compare(compare) if compare.comparators.len() == 1 => {
                let is_none = matches!(compare.comparators[0], Expr::NoneLiteral(_));
                let value = &self.lookup(&names::place(&compare.left)?)?.value;
                let is = match value {
                    Value::None => true,
                    Value::Optimizer(_)
                    | Value::Module(_)
                    | Value::Instance(..)
                    | Value::Function(_)
                    | Value::Scheduler
                    | Value::Scaler
                        if self.frames.len() > 1 =>
                    {
                        false
                    }
                    _ => return None,
                };
                match compare.ops[0] {
                    ruff_python_ast::CmpOp::Is if is_none => Some(is),
                    ruff_python_ast::CmpOp::IsNot if is_none => Some(!is),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
