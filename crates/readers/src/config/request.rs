//! What a configuration asks for: a template, its sizes and its number of layers.

use vramfit_graph::dtype::Dtype;

use super::order::Order;

/// Which template to use, and its sizes.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) template: String,
    /// Values of the template's symbols.
    pub(super) sizes: Vec<(&'static str, i64)>,
    pub(super) stacks: Vec<Stack>,
    /// The sequence from which on another template counts.
    pub(super) window: Option<i64>,
    /// The type that the model is built in; `None` where the template is built in it.
    pub(super) dtype: Option<Dtype>,
    /// Classes of the template begin with the first name, those of the family with the second.
    pub(super) renamed: Option<(&'static str, &'static str)>,
    /// Why an estimate cannot be called exact.
    pub(super) causes: Vec<String>,
    /// What the reader of an answer should know.
    pub(super) notes: Vec<String>,
}

impl Request {
    pub(super) fn new(template: impl Into<String>, sizes: Vec<(&'static str, i64)>, stacks: Vec<Stack>) -> Self {
        Self {
            template: template.into(),
            sizes,
            stacks,
            window: None,
            dtype: None,
            renamed: None,
            causes: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Modules that the layers are in.
#[derive(Debug)]
pub(super) struct Stack {
    pub(super) path: &'static str,
    /// How many layers the template has before those that are repeated.
    pub(super) kept: u32,
    /// The layers after these.
    pub(super) order: Order,
    /// Whether all layers are one module, at `path`, that is run several times.
    pub(super) is_shared: bool,
}

impl Stack {
    /// Layers that are all alike, two at least.
    pub(super) fn of(path: &'static str, layers: u32) -> Vec<Self> {
        Self::after(0, path, layers).into_iter().collect()
    }

    /// Layers in this order.
    pub(super) fn of_kinds(path: &'static str, order: Order) -> Self {
        Self { path, kept: 0, order, is_shared: false }
    }

    /// Layers that are all alike, after some that are not; `None` where fewer than two are left.
    pub(super) fn after(kept: u32, path: &'static str, layers: u32) -> Option<Self> {
        Order::alike(layers.checked_sub(kept)?).map(|order| Self { kept, ..Self::of_kinds(path, order) })
    }

    /// One module that is run as many times as there are layers, the first `kept` of which are not repeated.
    pub(super) fn shared(kept: u32, path: &'static str, layers: u32) -> Option<Self> {
        Self::after(kept, path, layers).map(|stack| Self { is_shared: true, ..stack })
    }
}
