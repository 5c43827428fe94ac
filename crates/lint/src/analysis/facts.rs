//! What happens in a program, in the order in which it happens: the events that rules look at, and where they stand.

use ruff_python_ast::{Expr, ExprCall, Stmt};
use ruff_text_size::{Ranged, TextRange};

use super::index::{FunctionId, Index};
use super::names::Role;
use super::value::{Device, Tensor, TraceRef, Value};

/// Number of a scope.
pub type ScopeId = usize;
/// Number of a loop.
pub type LoopId = usize;

/// Whether autograd records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// It does.
    On,
    /// It does not.
    Off,
    /// It depends on what the program does not show.
    Unknown,
}

/// A part of the program that is gone through inside another.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// What it is in.
    pub parent: Option<ScopeId>,
    /// What it is.
    pub kind: ScopeKind<'a>,
}

/// Kinds of scopes.
#[derive(Clone, Copy, Debug)]
pub enum ScopeKind<'a> {
    /// The module, or a function that nobody in the file calls.
    Root(Option<FunctionId>),
    /// A function of the file, called.
    Call(FunctionId),
    /// A loop.
    Loop(LoopId),
    /// An arm of an `if`, with the test that leads there; none for `else`.
    Branch(Option<&'a Expr>, TextRange),
    /// The handler of an exception.
    Handler,
    /// Accelerate's `accumulate`.
    Accumulate,
}

/// What a loop goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterates {
    /// Batches.
    Batches(Role),
    /// Epochs, or a number of steps.
    Count,
    /// Folds, seeds, runs: each a training of its own.
    Runs,
    /// Anything else.
    Other,
}

/// A loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop<'a> {
    /// What it goes through.
    pub iterates: Iterates,
    /// The statement; a framework's own loop has none.
    pub statement: Option<&'a Stmt>,
    /// The scope it stands in.
    pub parent: ScopeId,
    /// Its own scope.
    pub scope: ScopeId,
}

/// How something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// `list.append(value)` and the like.
    Append,
    /// `total += value`, `total = total + value`.
    Add,
    /// `table[key] = value` under ever new keys.
    Store,
    /// `all = torch.cat([all, value])`.
    Concatenate,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Kind<'a> {
    /// A network was called.
    Forward { module: String, arguments: TraceRef, is_frozen: bool },
    /// A backward pass.
    Backward { loss: Value, text: Option<String>, retain: bool, create: bool, is_scaled_by_framework: bool },
    /// `torch.autograd.grad`.
    Grad { inputs: TraceRef, retain: bool, create: bool },
    /// An input asks for its gradient.
    RequiresGrad,
    /// An optimizer's step; an engine that zeroes by itself says so.
    Step { optimizer: String, is_engine: bool },
    /// Gradients are let go or zeroed.
    ZeroGrad { owner: String, keeps_memory: bool },
    /// A loss that goes into a backward pass is made.
    LossMade { name: String },
    /// Something is kept.
    Keep { container: String, defined: Option<ScopeId>, value: Value, expression: &'a Expr, how: Keeping },
    /// A network is set to evaluation (true) or training.
    Mode { module: String, is_evaluation: bool },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// `torch.load`.
    Load { call: &'a ExprCall, onto: Device, has_location: bool },
    /// A checkpoint loaded there goes into a network or an optimizer.
    LoadState { from: u32, into: Option<String> },
    /// A `DataLoader` is built under a name.
    LoaderBuilt { call: &'a ExprCall, role: Role },
    /// A tensor goes to the GPU.
    Move { call: &'a ExprCall, tensor: Tensor, source: &'a Expr },
    /// A variable is let go.
    Delete { name: String },
}

/// Something that happened, and where.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// What.
    pub kind: Kind<'a>,
    /// Where it is written.
    pub range: TextRange,
    /// The statement it is written in.
    pub statement: TextRange,
    /// The scope it stands in.
    pub scope: ScopeId,
    /// Whether autograd records there.
    pub gradients: Gradients,
}

/// What was found out about a file.
#[derive(Debug)]
pub struct Facts<'a> {
    /// What the file declares.
    pub index: Index<'a>,
    /// The text.
    pub source: &'a str,
    /// The statements of the file.
    pub body: &'a [Stmt],
    /// All scopes.
    pub scopes: Vec<Scope<'a>>,
    /// All loops.
    pub loops: Vec<Loop<'a>>,
    /// What happens, one list for each part of the program that runs by itself.
    pub roots: Vec<Vec<Event<'a>>>,
    /// What was kept and went into a backward pass later.
    pub consumed: Vec<u32>,
}

impl<'a> Facts<'a> {
    /// The scopes around, from the inside out.
    pub fn scopes_around(&self, scope: ScopeId) -> impl Iterator<Item = ScopeId> + '_ {
        std::iter::successors(Some(scope), |scope| self.scopes[*scope].parent)
    }

    /// The loops around, from the inside out.
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

    /// The function something stands in; none at the module's level.
    pub fn function(&self, scope: ScopeId) -> Option<FunctionId> {
        self.scopes_around(scope).find_map(|scope| match self.scopes[scope].kind {
            ScopeKind::Root(function) => Some(function),
            ScopeKind::Call(function) => Some(Some(function)),
            _ => None,
        })?
    }

    /// The scope of the function call something stands in.
    pub fn function_scope(&self, scope: ScopeId) -> ScopeId {
        self.scopes_around(scope)
            .find(|scope| matches!(self.scopes[*scope].kind, ScopeKind::Root(_) | ScopeKind::Call(_)))
            .unwrap_or(scope)
    }

    /// The tests under which something happens, from the inside out, up to the loop.
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

    /// Whether it happens where memory has run out.
    pub fn is_in_handler(&self, scope: ScopeId) -> bool {
        self.scopes_around(scope).any(|scope| matches!(self.scopes[scope].kind, ScopeKind::Handler))
    }

    /// The text of a part of the source.
    pub fn text(&self, node: &impl Ranged) -> &'a str {
        &self.source[node.range()]
    }

    /// Whether the loop has a backward pass or an optimizer's step in it, or a framework does that for it.
    pub fn trains(&self, events: &[Event<'a>], number: LoopId) -> bool {
        if self.loops[number].statement.is_none() && self.loops[number].iterates == Iterates::Batches(Role::Train) {
            return true;
        }
        events.iter().any(|event| {
            matches!(event.kind, Kind::Backward { .. } | Kind::Step { .. }) && self.is_in(event.scope, number)
        })
    }

    /// The innermost loop that trains around `scope` and does so batch by batch: a backward pass stands in it and in no
    /// other loop within it.
    pub fn batch_loop(&self, events: &[Event<'a>], scope: ScopeId) -> Option<LoopId> {
        let around: Vec<LoopId> = self.loops_around(scope).collect();
        around.into_iter().find(|number| {
            let is_hook = self.loops[*number].statement.is_none()
                && self.loops[*number].iterates == Iterates::Batches(Role::Train);
            is_hook
                || events.iter().any(|event| {
                    matches!(event.kind, Kind::Backward { .. } | Kind::Step { .. })
                        && self.loops_around(event.scope).next() == Some(*number)
                })
        })
    }
}
