//! The events of a variant, before module calls and frees are added.

use vramfit_graph::model::{Call, Step, TensorId};

/// One event.
pub(super) enum Event {
    /// A call, and the number of its call site.
    Call(Call, u32),
    /// The C++ code inside of a decomposed operator drops these: they live until here though no call uses them.
    End(Vec<TensorId>),
    /// An event without tensors.
    Mark(Step),
}
