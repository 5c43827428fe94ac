//! What an operator does to its arguments, and which results may be written over.

/// What an operator does to its arguments. Whether a result is a view shows in each recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    ReadsOnly,
    /// Nothing, and its results are a list of views of the first.
    ListsViews,
    /// Writes into the first.
    WritesFirst,
    /// Gives the first another shape.
    ReshapesFirst,
    /// Updates running statistics, as a batch norm does.
    UpdatesStatistics,
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
