//! What a configuration asks for: a template, its sizes and its number of layers.

use vramfit_graph::dtype::Dtype;

/// Which template to use, and its sizes.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) template: String,
    /// Values of the template's symbols.
    pub(super) sizes: Vec<(&'static str, i64)>,
    pub(super) stacks: Vec<Stack>,
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
            dtype: None,
            renamed: None,
            causes: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Modules that the layers are in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    pub(super) path: &'static str,
    /// How many layers the template has before the three that are repeated.
    pub(super) kept: u32,
    /// How many there will be in all.
    pub(super) layers: u32,
}

impl Stack {
    /// Layers that are all repeated.
    pub(super) fn of(path: &'static str, layers: u32) -> Vec<Self> {
        vec![Self { path, kept: 0, layers }]
    }
}
