//! Element types: what autocast does, and what type a result has.

/// What autocast on CUDA does with an operator's arguments (`autocast_mode.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Autocast {
    /// Nothing.
    Unchanged,
    /// Casts them to the lower precision.
    Lower,
    /// Casts them to single precision.
    Single,
    /// Requests a result in single precision, by the operator's own `dtype` argument.
    SingleByDtype,
    /// Casts them to the widest among them.
    Widest,
}

/// Which arguments give a result its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// The first tensor.
    First,
    /// All of them: the result has the widest type.
    Widest,
}

/// What `model.eval()` changes in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    /// Nothing.
    Unchanged,
    /// Sets this argument, a truth value, to false.
    Unsets(&'static str),
    /// Sets this argument, a probability, to zero.
    Zeroes(&'static str),
}
