//! The dimensions that `--batch` and `--seq` set.

use crate::dtype::Dtype;
use crate::expression::Linear;
use crate::model::{Input, Model};

/// A dimension of the inputs that has a flag of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    /// `--batch`: dimension 0 of inputs and targets.
    Batch,
    /// `--seq`: dimension 1 of integer inputs.
    Sequence,
}

/// A size that can be chosen: where it is, and how it depends on its symbol.
#[derive(Clone, Copy)]
pub(super) struct OpenSize<'a> {
    /// The input and its dimension; `None` where the symbol was given by name.
    pub(super) dimension: Option<(&'a Input, usize)>,
    /// Its expression.
    pub(super) linear: Linear,
}

impl OpenSize<'_> {
    /// The symbol itself.
    pub(super) fn symbol(symbol: usize) -> OpenSize<'static> {
        OpenSize { dimension: None, linear: Linear::of_symbol(symbol as u32) }
    }
}

impl Axis {
    /// Its dimension.
    pub(super) fn dim(self) -> usize {
        match self {
            Axis::Batch => 0,
            Axis::Sequence => 1,
        }
    }

    /// The name of its symbol in a capture; the flag sets that symbol where nothing in the dimension can be chosen.
    pub(super) fn name(self) -> &'static str {
        match self {
            Axis::Batch => "batch",
            Axis::Sequence => "seq",
        }
    }

    /// Its name in messages.
    pub(super) fn text(self) -> &'static str {
        match self {
            Axis::Batch => "dimension 0 of an input or target",
            Axis::Sequence => "dimension 1 of an integer input",
        }
    }

    /// The inputs that have it.
    pub(super) fn inputs(self, model: &Model) -> Vec<&Input> {
        match self {
            Axis::Batch => model.inputs.iter().chain(&model.targets).collect(),
            Axis::Sequence => model.inputs.iter().filter(|input| is_integer(input.dtype)).collect(),
        }
    }

    /// A name for the size of an input's dimension.
    pub(super) fn name_of(input: &Input, dim: usize) -> String {
        match dim {
            0 => Axis::Batch.name().to_owned(),
            1 if is_integer(input.dtype) => Axis::Sequence.name().to_owned(),
            _ => format!("{}_{dim}", input.name),
        }
    }

    /// What can be chosen in it: symbols, and expressions such as `2*h` whose symbol is not itself such a dimension; if there
    /// is neither, the symbol with the axis's name.
    pub(super) fn open_sizes(self, model: &Model) -> Vec<OpenSize<'_>> {
        let (mut found, derived): (Vec<OpenSize<'_>>, Vec<OpenSize<'_>>) = self
            .inputs(model)
            .into_iter()
            .filter_map(|input| {
                let linear = model.linear(*input.shape.get(self.dim())?)?;
                Some(OpenSize { dimension: Some((input, self.dim())), linear })
            })
            .partition(|size| size.linear.is_symbol());
        let bare: Vec<u32> = found.iter().map(|size| size.linear.symbol()).collect();
        found.extend(derived.into_iter().filter(|standing| !bare.contains(&standing.linear.symbol())));
        if found.is_empty() {
            let named = model.symbols.iter().position(|symbol| symbol.name == self.name());
            found.extend(named.map(OpenSize::symbol));
        }
        found
    }
}

/// Whether `vramfit.capture` takes dimension 1 of an input of this type for a sequence. Masks are often boolean.
fn is_integer(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bool | Dtype::Uint8 | Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64)
}
