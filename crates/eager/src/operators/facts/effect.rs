//! What an operator does to its arguments, and which results may be written over.

/// What an operator does to its arguments. Whether a result is a view shows in each recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    ReadsOnly,
    /// Nothing, and its results are a list of views of the first.
    ListsViews,
    /// Nothing, and its result is the first in another shape. It fails where that would take a copy.
    ViewsFirst,
    /// Writes into the first.
    WritesFirst,
    /// Gives the first another shape.
    ReshapesFirst,
    /// Updates running statistics, as a batch norm does.
    UpdatesStatistics,
    /// It is no operator, but something else that a recorded script did.
    Script(ScriptCall),
}

/// Whether a result is a view of memory that has no other name, so that a write into it is one into its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HidesBase {
    /// It is none.
    Never,
    /// It always is.
    Always,
    /// It is that of a linear layer which sees its input as a matrix.
    OfFlatInput,
}

/// What a recorded script did beside calling operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptCall {
    /// `backward()`: from argument 0, the roots, with the gradients in argument 1. The leaves in argument 2, and other tensors that
    /// retain theirs, get the results as `.grad`, where these are not `None`. Argument 3 is `retain_graph`.
    Backward,
    /// `autograd.grad`: the same, and the results are the gradients of the tensors in argument 2, which may be no leaves.
    Gradients,
    /// `tensor.grad = value`, of the first two arguments.
    SetGradient,
    /// The tensors in argument 0 are for what argument 1 says.
    Categorize,
    /// What follows runs on autograd's thread, or on the script's own again: argument 0 says which.
    SwitchThread,
    /// Autograd's formulas use a result that only the graph has: one of the calls that the operator of argument 0 consists of made it.
    /// Argument 1 is the way to its node from that of argument 0, by places among the edges of each node, argument 2 which of its
    /// results it is.
    FindResult,
    /// A phase ends whose name is argument 0.
    EndPhase,
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// `init_process_group`: NCCL takes memory of its own.
    JoinGroup,
}

impl Effect {
    /// Whether the result is the first argument, changed.
    pub const fn is_in_place(self) -> bool {
        matches!(self, Effect::WritesFirst | Effect::ReshapesFirst)
    }
}

/// An activation whose gradient can be computed from its result, so that it may run in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The class of `torch.nn` that has an `inplace` attribute for it.
    pub module: &'static str,
    /// The operator's in-place form.
    pub in_place: &'static str,
}

/// Whether an activation in place may overwrite an operator's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It may: the operator's gradient does not need the result.
    Allowed,
    /// The gradient needs the result, or nobody has checked.
    NotShown,
}
