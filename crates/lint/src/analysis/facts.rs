//! The events of a program in execution order, and the scopes they are in. Rules read these.

use std::collections::BTreeSet;

use ruff_python_ast::{Expr, ExprCall, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::FxHashSet as HashSet;

use super::device::Device;
use super::index::{FunctionId, Index};
use super::names::Role;
use super::value::{Bound, ProvenanceRef, Tensor, Value};

/// Index of a scope.
pub type ScopeId = usize;
/// Index of a loop.
pub type LoopId = usize;

/// Whether autograd records a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// Grad mode is on.
    On,
    /// Grad mode is off.
    Off,
    /// The file does not show it.
    Unknown,
}

/// A part of the program that runs inside another.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The scope around it.
    pub parent: Option<ScopeId>,
    /// Its kind.
    pub kind: ScopeKind<'a>,
}

/// The kind of a scope.
#[derive(Clone, Copy, Debug)]
pub enum ScopeKind<'a> {
    /// The module, or a function that is not called in the file.
    Root(Option<FunctionId>),
    /// A call of a function of the file.
    Call(FunctionId),
    /// A loop.
    Loop(LoopId),
    /// An arm of an `if`, with its test; `else` has none.
    Branch(Option<&'a Expr>, TextRange),
    /// The handler of an exception.
    Handler,
    /// Accelerate's `accumulate`.
    Accumulate,
}

/// What a loop iterates over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterates {
    /// Batches.
    Batches(Role),
    /// Epochs, or a number of steps.
    Count,
    /// Folds, seeds, runs: each is a training of its own.
    Runs,
    /// Anything else.
    Other,
}

/// Who repeats the code of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// The file itself.
    Here,
    /// A framework, for each batch.
    Framework,
    /// Code elsewhere that calls a training step for each batch.
    Step,
    /// Code elsewhere that calls a network, or a hook in one.
    Forward,
}

/// A loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'a> {
    /// What it iterates over.
    pub iterates: Iterates,
    /// The statement; a loop elsewhere has none.
    pub statement: Option<&'a Stmt>,
    /// Who repeats it.
    pub repeats: Repeats,
    /// The scope around it.
    pub parent: ScopeId,
    /// Its own scope.
    pub scope: ScopeId,
}

/// How a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// `list.append(value)` and the like.
    Append,
    /// `total += value`, `total = total + value`.
    Add,
    /// `table[key] = value` with a new key each time.
    Store,
    /// `all = torch.cat([all, value])`.
    Concatenate,
}

/// What happens at an event.
#[derive(Clone, Debug)]
pub enum EventKind<'a> {
    /// A model is called; `is_made_up` if it gets nothing but random or constant tensors.
    Forward { module: String, arguments: ProvenanceRef, is_frozen: bool, is_made_up: bool },
    /// A backward pass.
    Backward { loss: Value, text: Option<String>, retain: bool, create: bool, is_scaled_by_framework: bool },
    /// `torch.autograd.grad`.
    Grad { inputs: ProvenanceRef, retain: bool, create: bool },
    /// An input requires a gradient.
    RequiresGrad,
    /// An optimizer's step; an engine also zeroes gradients by itself.
    Step { optimizer: String, is_engine: bool },
    /// Gradients are freed or zeroed.
    ZeroGrad { owner: String, keeps_memory: bool },
    /// A loss that goes into a backward pass is computed.
    LossMade { name: String },
    /// A container keeps a value.
    Keep { container: String, defined: Option<ScopeId>, value: Value, expression: &'a Expr, how: Keeping, bound: Bound },
    /// A model is set to evaluation or training mode.
    Mode { module: String, is_evaluation: bool },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// Anomaly detection is switched on.
    DetectAnomaly,
    /// `torch.load`.
    Load { call: &'a ExprCall, onto: Device, has_location: bool, bound_to: Option<String> },
    /// A checkpoint, loaded at the offset `from`, goes into a model or an optimizer.
    LoadState { from: u32, into: Option<String>, is_optimizer: bool },
    /// A `DataLoader` is built.
    LoaderBuilt { call: &'a ExprCall, role: Role },
    /// A tensor is moved to the GPU.
    Move { call: &'a ExprCall, tensor: Tensor, source: &'a Expr },
    /// A variable is deleted or emptied.
    Delete { name: String },
}

/// Something that happens, and where.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// What happens.
    pub kind: EventKind<'a>,
    /// Its expression.
    pub range: TextRange,
    /// The statement around that.
    pub statement: TextRange,
    /// The scope it is in.
    pub scope: ScopeId,
    /// The grad mode there.
    pub gradients: Gradients,
}

/// All that the analysis found out about a file.
#[derive(Debug)]
pub struct FileFacts<'a> {
    /// What the file declares.
    pub index: Index<'a>,
    /// Its text.
    pub source: &'a str,
    /// Its statements.
    pub body: &'a [Stmt],
    /// All scopes.
    pub scopes: Vec<Scope<'a>>,
    /// All loops.
    pub loops: Vec<Loop<'a>>,
    /// The events: one list for the module and one for each function that is not called in the file.
    pub roots: Vec<Vec<Event<'a>>>,
    /// Offsets of statements whose kept value goes into a later backward pass.
    pub consumed: Vec<u32>,
    /// Offsets of calls whose results are returned, stored or passed on, so that code elsewhere may use them.
    pub escaped: HashSet<u32>,
    /// Offsets of calls whose results become NumPy arrays as they are, which fails for a tensor with a graph: callers switch
    /// gradients off.
    pub without_graph: HashSet<u32>,
    /// Offsets of calls whose results become NumPy arrays without being brought to main memory: they are on the CPU, or this fails.
    pub on_cpu: HashSet<u32>,
    /// Offsets of calls whose results are taken out of their graph: detached, or turned into numbers.
    pub dropped: HashSet<u32>,
    /// Offsets of calls whose results leave their graph and become NumPy arrays: `out.detach().cpu().numpy()`.
    pub arrays: HashSet<u32>,
    /// Networks that the file makes, by access path.
    pub built: HashSet<String>,
    /// Methods that the file calls on networks, and that no class in it has.
    pub unknown_methods: BTreeSet<&'a str>,
}

impl<'a> FileFacts<'a> {
    /// The scope itself and those around it, from the inside out.
    pub fn scopes_around(&self, scope: ScopeId) -> impl Iterator<Item = ScopeId> + '_ {
        std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent)
    }

    /// The loops around a scope, from the inside out.
    pub fn loops_around(&self, scope: ScopeId) -> impl Iterator<Item = LoopId> + '_ {
        self.scopes_around(scope).filter_map(|scope| match self.scopes[scope].kind {
            ScopeKind::Loop(number) => Some(number),
            _ => None,
        })
    }

    /// Whether `scope` is in the loop.
    pub fn is_in(&self, scope: ScopeId, number: LoopId) -> bool {
        self.loops_around(scope).any(|around| around == number)
    }

    /// The function a scope is in; `None` at module level.
    pub fn function(&self, scope: ScopeId) -> Option<FunctionId> {
        self.scopes_around(scope).find_map(|scope| match self.scopes[scope].kind {
            ScopeKind::Root(function) => Some(function),
            ScopeKind::Call(function) => Some(Some(function)),
            _ => None,
        })?
    }

    /// The scope of the function call around a scope.
    pub fn function_scope(&self, scope: ScopeId) -> ScopeId {
        self.scopes_around(scope)
            .find(|scope| matches!(self.scopes[*scope].kind, ScopeKind::Root(_) | ScopeKind::Call(_)))
            .unwrap_or(scope)
    }

    /// The `if` arms around a scope, from the inside out, up to the loop.
    pub fn branches(&self, scope: ScopeId, up_to: Option<LoopId>) -> Vec<(Option<&'a Expr>, TextRange)> {
        let mut branches = Vec::new();
        for around in self.scopes_around(scope) {
            match self.scopes[around].kind {
                ScopeKind::Loop(number) if Some(number) == up_to => break,
                ScopeKind::Branch(test, range) => branches.push((test, range)),
                _ => {}
            }
        }
        branches
    }

    /// Whether the scope is inside an exception handler.
    pub fn is_in_handler(&self, scope: ScopeId) -> bool {
        self.scopes_around(scope).any(|scope| matches!(self.scopes[scope].kind, ScopeKind::Handler))
    }

    /// The source text of a node.
    pub fn text(&self, node: &impl Ranged) -> &'a str {
        &self.source[node.range()]
    }

    /// Whether the loop has a backward pass or an optimizer step in it, or a framework's training loop.
    pub fn trains(&self, events: &[Event<'a>], number: LoopId) -> bool {
        if self.loops[number].repeats != Repeats::Here && self.loops[number].iterates == Iterates::Batches(Role::Train)
        {
            return true;
        }
        events.iter().any(|event| {
            matches!(event.kind, EventKind::Backward { .. } | EventKind::Step { .. }) && self.is_in(event.scope, number)
        })
    }

    /// The innermost training loop over batches around `scope`: a backward pass or a step is directly in it.
    pub fn batch_loop(&self, events: &[Event<'a>], scope: ScopeId) -> Option<LoopId> {
        let around: Vec<LoopId> = self.loops_around(scope).collect();
        around.into_iter().find(|number| {
            let is_hook = matches!(self.loops[*number].repeats, Repeats::Framework | Repeats::Step)
                && self.loops[*number].iterates == Iterates::Batches(Role::Train);
            is_hook
                || events.iter().any(|event| {
                    matches!(event.kind, EventKind::Backward { .. } | EventKind::Step { .. })
                        && self.loops_around(event.scope).next() == Some(*number)
                        && self.loops[*number].repeats != Repeats::Forward
                })
        })
    }
}
