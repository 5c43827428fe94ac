//! How the samples of a batch pass through an operator.

/// How the samples of a batch pass through an operator, where the shapes of its results do not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// A sample of a result comes from that sample of the arguments alone, if the batch is still a dimension.
    Apart,
    /// The same along the first dimension of the first argument. Samples along another meet, as channels and pixels do.
    First,
    /// The same, but samples along the last dimensions of the first argument meet: as many as this argument lists.
    Trailing(usize),
    /// The same, but samples along the last two dimensions of the first argument meet: those of a matrix.
    Matrices,
    /// The same, but steps of time meet: they are the first dimension of the first argument, or with this argument the second.
    Steps {
        /// The argument that says that samples come first.
        batch_first: usize,
    },
    /// Takes part of the first argument. Samples stay apart if all of them are taken.
    Part,
    /// As [`Samples::Apart`], and it is linear in all its arguments together: a mean or sum over the batch remains one.
    Linear,
    /// It is linear in each argument: a mean or sum over the batch remains one if the other arguments do not depend on it.
    Product,
    /// As [`Samples::Product`], but not linear in the second.
    Quotient,
    /// Adds over the dimensions in argument 1, or over all.
    Sum,
    /// The mean over the dimensions in argument 1, or over all.
    Mean,
    /// Samples meet along the dimensions in this argument: a softmax, a sort.
    Along(usize),
    /// Takes entries of the dimension in this argument by index, so that samples may change places.
    Picked(usize),
    /// Takes entries of the first argument by the tensors in the list that is the second.
    Indexed,
    /// Attends along the second dimension from the end.
    Attends,
    /// A loss: its reduction is this argument, 1 for a mean and 2 for a sum. Where labels may be ignored, it takes a softmax over
    /// classes: the second dimension of the first argument, or the only one.
    Loss {
        /// The argument with the reduction.
        reduction: usize,
        /// The argument with the weights of classes, by which the mean is divided.
        class_weights: Option<usize>,
        /// The argument with the target that does not count.
        ignored: Option<usize>,
    },
    /// Its results do not depend on what its arguments hold.
    Ignored,
    /// The same, and they are whole numbers one after the other: as indices they leave samples where they are.
    Range,
    /// Nobody has written it down.
    Unknown,
}
