//! How positions pass through operators, and which operators look something up by position.

/// How the greatest whole number in a result follows from the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greatest {
    /// It is not known.
    Unknown,
    /// One below this argument, as in `arange(end)`.
    Below(usize),
    /// The last of `arange(start, end, step)`.
    LastOfRange,
    /// 1 where an input is compared with a number: some token differs from the padding.
    Compared,
    /// The size of a dimension, where ones are summed along it.
    Counted,
    /// The sum of the first two arguments.
    Sum,
    /// The difference of the first two arguments.
    Difference,
    /// The product of the first two arguments.
    Product,
    /// That of the first argument.
    Same,
}

/// What an operator reads by index from its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Nothing.
    Nothing,
    /// The rows that argument 1 names.
    Rows,
    /// Entries along dimension argument 1, which argument 2 names.
    Along,
    /// What a list of index tensors names, one for each dimension.
    Indexed,
    /// A slice: dimension, start, end, step.
    Slice,
    /// A narrowed dimension: dimension, start, length.
    Narrow,
}
