//! The abstract interpreter: runs a program as Python would, on abstract values.
//!
//! Functions of the file are interpreted at each call, with the caller's loops, arguments and grad mode. A loop's body
//! runs twice: the second pass sees the state that the first one leaves behind.

mod any_owner;
mod assign;
mod by_name;
mod calls;
mod data;
mod expressions;
mod growth;
mod library;
mod library_names;
mod loops;
mod methods;
mod naming;
mod narrowing;
mod networks;
mod owner_methods;
mod parts;
mod passes;
mod proven;
mod roots;
mod statements;
mod variables;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use ruff_python_ast::{Expr, Stmt};
use ruff_text_size::{Ranged, TextRange, TextSize};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};

use super::backward_names::{BackwardNames, backward_names};
use super::device::Device;
use super::facts::{
    Event, EventKind, FileFacts, Gradients, Iterates, Loop, LoopId, Repeats, Scope, ScopeId, ScopeKind,
};
use super::index::{ClassId, FunctionId, Index};
use super::names::{self, Role};
use super::value::{Certainty, Provenance, Tensor, Value};

/// Statements interpreted per file: enough for any script, and a limit for a hostile one.
const BUDGET: u32 = 60_000;
/// Depth of interpreted calls.
const CALL_DEPTH: usize = 5;
/// Depth of loops whose body runs twice.
const LOOP_DEPTH: usize = 3;
/// Depth of nested expressions and blocks.
const NESTING: usize = 200;

#[derive(Clone, Debug)]
struct Binding {
    value: Value,
    scope: ScopeId,
}

type Variables = HashMap<String, Binding>;

#[derive(Clone, Debug, Default)]
struct Frame {
    variables: Variables,
    function: Option<FunctionId>,
    class: Option<ClassId>,
    returned: Option<Value>,
    yielded: Option<Value>,
}

struct Interpreter<'a> {
    facts: FileFacts<'a>,
    events: Vec<Event<'a>>,
    frames: Vec<Frame>,
    globals: HashMap<String, Binding>,
    attributes: Vec<HashMap<String, Binding>>,
    frozen: HashSet<String>,
    /// Networks of which the file trains a part again.
    thawed: HashSet<String>,
    on_gpu: HashSet<String>,
    /// Whether a network is in evaluation mode.
    modes: HashMap<String, bool>,
    /// Networks that a class's constructor leaves in evaluation mode.
    switched_by_constructor: Vec<(ClassId, String)>,
    scope: ScopeId,
    gradients: Gradients,
    /// The grad mode that a statement of the function under interpretation has set for good.
    gradients_set: Option<Gradients>,
    /// The grad mode at the end of the module, in which its functions are called.
    module_gradients: Gradients,
    silent: u32,
    statement: TextRange,
    loop_depth: usize,
    nesting: usize,
    active: Vec<FunctionId>,
    visited: Vec<bool>,
    budget: u32,
    backward_names: HashMap<Option<FunctionId>, Rc<BackwardNames>>,
    /// The access path that the expression under evaluation is assigned to.
    target: Option<String>,
    guesses: RefCell<HashMap<String, Value>>,
    /// Names last bound with grad mode off.
    without_gradients: HashSet<String>,
    /// Methods that the file calls on objects it does not know: whether with gradients, and whether without.
    called_unknown: HashMap<String, [bool; 2]>,
    /// Variables that hold a context manager of grad mode.
    contexts: HashMap<String, Gradients>,
}

/// Interprets a file, which ends at `own_end`; definitions of other files may follow.
pub fn analyse<'a>(body: &'a [Stmt], source: &'a str, own_end: TextSize) -> FileFacts<'a> {
    let index = Index::new(body, source, own_end);
    let mut interpreter = Interpreter {
        attributes: vec![HashMap::default(); index.classes.len()],
        visited: vec![false; index.functions.len()],
        facts: FileFacts {
            index,
            source,
            body,
            scopes: Vec::new(),
            loops: Vec::new(),
            roots: Vec::new(),
            consumed: Vec::new(),
            escaped: HashSet::default(),
            without_graph: HashSet::default(),
            on_cpu: HashSet::default(),
            arrays: HashSet::default(),
            dropped: HashSet::default(),
            built: HashSet::default(),
            unknown_methods: BTreeSet::new(),
        },
        events: Vec::new(),
        frames: Vec::new(),
        globals: HashMap::default(),
        frozen: HashSet::default(),
        thawed: HashSet::default(),
        on_gpu: HashSet::default(),
        modes: HashMap::default(),
        switched_by_constructor: Vec::new(),
        scope: 0,
        gradients: Gradients::On,
        gradients_set: None,
        module_gradients: Gradients::On,
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
        called_unknown: HashMap::default(),
        contexts: HashMap::default(),
    };
    if interpreter.facts.index.is_worth_following {
        interpreter.run(body);
    }
    interpreter.facts
}

impl<'a> Interpreter<'a> {
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
        if let Some(mode) = self.contexts.get(&name) {
            return Some(*mode);
        }
        match names::last(&name) {
            "no_grad" | "inference_mode" => match arguments.and_then(|arguments| arguments.args.first()) {
                Some(Expr::BooleanLiteral(on)) if !on.value => Some(Gradients::On),
                Some(Expr::BooleanLiteral(_)) | None => Some(Gradients::Off),
                // An argument that is not a literal.
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

    /// Enters a scope within the current one, which it returns.
    fn enter(&mut self, kind: ScopeKind<'a>) -> ScopeId {
        let outer = self.scope;
        self.scope = self.new_scope(Some(outer), kind);
        outer
    }

    fn new_loop(&mut self, iterates: Iterates, statement: Option<&'a Stmt>) -> (ScopeId, LoopId) {
        let number = self.facts.loops.len();
        let outer = self.enter(ScopeKind::Loop(number));
        let repeats = Repeats::Here;
        self.facts.loops.push(Loop { iterates, statement, repeats, parent: outer, scope: self.scope });
        (outer, number)
    }

    fn record(&mut self, kind: EventKind<'a>, range: TextRange) {
        if self.silent == 0 {
            let (statement, scope, gradients) = (self.statement, self.scope, self.gradients);
            self.events.push(Event { kind, range, statement, scope, gradients });
        }
    }

    /// Notes that a kept value goes into a backward pass.
    fn consume(&mut self, value: &Value) {
        if let Some(provenance) = value.provenance() {
            self.facts.consumed.extend(provenance.keeps.iter());
        }
    }

    /// Notes that values computed by these calls may be used by code elsewhere.
    fn escape(&mut self, provenance: &super::value::ProvenanceRef) {
        if let Some(provenance) = provenance {
            self.facts.escaped.extend(provenance.forwards.iter());
        }
    }

    /// Notes that a value is taken out of its graph.
    pub(super) fn drop_graph(&mut self, tensor: &Tensor) {
        if let Some(provenance) = &tensor.provenance
            && tensor.graph == Certainty::Yes
        {
            self.facts.dropped.extend(provenance.forwards.iter());
        }
    }

    fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn backward_names(&mut self) -> Rc<BackwardNames> {
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

    /// The tensor that a model call returns.
    fn forward_tensor(&self, at: &impl Ranged) -> Tensor {
        let provenance = Provenance { forwards: vec![at.range().start().to_u32()], keeps: Vec::new() };
        let graph = match self.gradients {
            Gradients::On => Certainty::Yes,
            Gradients::Off => Certainty::No,
            Gradients::Unknown => Certainty::Unknown,
        };
        Tensor { graph, provenance: Some(Rc::new(provenance)), ..Tensor::plain(Device::Unknown) }
    }

    /// The outcome of a test, if known.
    fn truth(&self, test: &Expr) -> Option<bool> {
        match test {
            Expr::BooleanLiteral(literal) => Some(literal.value),
            Expr::Name(_) | Expr::Attribute(_) => match self.lookup(&names::access_path(test)?)?.value {
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
                let value = &self.lookup(&names::access_path(&compare.left)?)?.value;
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
