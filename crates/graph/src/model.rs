//! A model, with sizes still as expressions of its symbols.

mod function;
mod quantization;
mod script;
mod step;
mod symbol;
mod tensor;
mod variant;

use crate::dtype::Dtype;
use crate::expression::{Expression, Linear};

pub use function::RecordedBackward;
pub use quantization::{Quantization, Scheme};
pub use script::{Caller, Calls, RecordedFile, RecordedScript};
pub use step::{Argument, Call, Cast, MemoryFormat, Step};
pub use symbol::{Example, ExpressionId, Size, Symbol, SymbolRange};
pub use tensor::{Tensor, TensorId, Type};
pub use variant::{Assumed, Late, Mode, Precision, Reach, Variant};

/// The kind of file a model was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A capture, vramfit's own format.
    Capture,
    /// An archive of `torch.export.save`.
    Archive,
    /// A recording of a whole script, made by `vramfit run`.
    Script,
}

impl Origin {
    /// How the user makes the file again, for hints.
    pub fn made_again(self) -> &'static str {
        match self {
            Origin::Capture => "capture the model again with vramfit.capture",
            Origin::Archive => "export the model again with torch.export.save",
            Origin::Script => "record the script again with vramfit run --out",
        }
    }
}

/// A module of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its dotted path; `None` where it was created during the forward pass or belongs to the loss.
    pub path: Option<String>,
    /// Its class.
    pub class: String,
}

impl Module {
    /// Whether it is a recurrent layer of PyTorch, which keeps its weights in one block.
    pub fn is_recurrent(&self) -> bool {
        matches!(self.class.as_str(), "LSTM" | "GRU" | "RNN")
    }
}

/// A line of the model's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, without the path on the machine it was recorded on.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// An entry of the table of operators, which is in `vramfit_eager::operators`: readers look it up by the operator's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperatorId(u16);

impl OperatorId {
    /// The entry at this index of the table.
    pub const fn new(index: u16) -> OperatorId {
        OperatorId(index)
    }

    /// Its index in the table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An operator: its full name and its arguments' names, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Such as `aten.linear.default`.
    pub name: String,
    /// Where what is known of it is found.
    pub id: OperatorId,
    /// Such as `input`, `weight`, `bias`.
    pub arguments: Vec<String>,
}

/// A parameter or buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Its dotted names; tied weights have several.
    pub names: Vec<String>,
    /// Its tensor.
    pub tensor: TensorId,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its type as built.
    pub dtype: Dtype,
    /// Whether it is trained; false for buffers.
    pub requires_grad: bool,
    /// How it is quantised, where it is.
    pub quantization: Option<Box<Quantization>>,
}

/// An input or target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its tensor.
    pub tensor: TensorId,
    /// Its type.
    pub dtype: Dtype,
    /// Its shape in the example.
    pub example: Vec<i64>,
    /// Its shape with symbols.
    pub shape: Vec<Size>,
}

/// A model as read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The kind of file it comes from.
    pub origin: Origin,
    /// The version of PyTorch that made the file, as it calls itself; `None` where the file does not say.
    pub torch: Option<String>,
    /// The class of the module.
    pub class: String,
    /// The sizes the user may choose.
    pub symbols: Vec<Symbol>,
    /// The distinct expressions of the symbols; [`Size::Symbolic`] is an index into them.
    pub expressions: Vec<Expression>,
    /// Messages of the file to the user.
    pub notes: Vec<String>,
    /// The modules.
    pub modules: Vec<Module>,
    /// The operators that are called.
    pub operators: Vec<Operator>,
    /// The lines that call them.
    pub sources: Vec<Source>,
    /// Parameters, in the order optimizers take them.
    pub parameters: Vec<Weight>,
    /// Buffers.
    pub buffers: Vec<Weight>,
    /// Parameters and buffers in the order in which `model.cuda()` moves them.
    pub move_order: Vec<TensorId>,
    /// Inputs.
    pub inputs: Vec<Input>,
    /// Targets.
    pub targets: Vec<Input>,
    /// One for each recorded precision and mode, and for each of its assumptions.
    pub variants: Vec<Variant>,
    /// Types, one list for each group of variants that share it.
    pub types: Vec<Vec<Type>>,
    /// Tensors, likewise.
    pub tensors: Vec<Vec<Tensor>>,
    /// Steps, likewise.
    pub steps: Vec<Vec<Step>>,
    /// How it was changed for fine-tuning after it was read.
    pub fine_tuning: FineTuned,
    /// The script that it records, if it is a recording of one.
    pub script: Option<RecordedScript>,
}

/// How a model was changed for fine-tuning, in the words of the flags; empty where it was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FineTuned {
    /// The rank of its adapters.
    pub lora: String,
    /// The layers that have adapters.
    pub lora_targets: String,
    /// The adapters' chance of dropping an input, in parts of a million.
    pub lora_dropout: u32,
    /// How its weights are quantised.
    pub quantize: String,
    /// The type that the quantised layers compute in.
    pub quantize_compute: String,
    /// Whether `scaled_dot_product_attention` is in place of attention that the model writes itself.
    pub has_fused_attention: bool,
    /// Whether activation modules were put in place.
    pub has_activations_in_place: bool,
}

impl Model {
    /// The names of the symbols, in order.
    pub fn symbol_names(&self) -> Vec<&str> {
        self.symbols.iter().map(|symbol| symbol.name.as_str()).collect()
    }

    /// The names of each parameter, in order.
    pub fn weight_names(&self) -> Vec<&[String]> {
        self.parameters.iter().map(|weight| weight.names.as_slice()).collect()
    }

    /// The example's values of the symbols, in order; `None` where one of them has none.
    pub fn examples(&self) -> Option<Vec<i64>> {
        self.symbols.iter().map(|symbol| symbol.example.value()).collect()
    }

    /// A size as a multiple of one symbol plus a number; `None` where it is not of that form.
    pub fn linear(&self, size: Size) -> Option<Linear> {
        match size {
            Size::Known(_) => None,
            Size::Symbolic(id) => self.expressions[id.0 as usize].linear(),
        }
    }

    /// A size as text, with the symbols' names.
    pub fn size_text(&self, size: Size) -> String {
        match size {
            Size::Known(value) => value.to_string(),
            Size::Symbolic(id) => self.expressions[id.0 as usize].named(&self.symbol_names()).to_string(),
        }
    }

    /// The number of elements of all parameters, tied ones counted once; `None` where it exceeds 64 bits.
    pub fn parameter_count(&self) -> Option<u64> {
        if let Some(script) = &self.script {
            return Some(script.parameters);
        }
        self.parameters.iter().try_fold(0_u64, |sum, weight| sum.checked_add(weight.represented()?))
    }

    /// The variant with the precision, mode and assumption of the one at `index` that is for these sizes.
    pub fn variant_at(&self, index: usize, sizes: &[i64]) -> Option<usize> {
        let chosen = self.variants.get(index)?;
        let is_meant =
            |it: &Variant| it.is_of_same_training(chosen) && it.assumed == chosen.assumed && it.reaches(sizes);
        if is_meant(chosen) { Some(index) } else { self.variants.iter().position(is_meant) }
    }

    /// The variants that record the same precision, mode and sizes as the one at `index` under other assumptions.
    pub fn alternatives(&self, index: usize) -> impl Iterator<Item = usize> {
        let chosen = &self.variants[index];
        let others = self.variants.iter().enumerate().filter(move |(other, _)| *other != index);
        others
            .filter(|(_, other)| other.is_of_same_training(chosen) && other.reach == chosen.reach)
            .map(|(other, _)| other)
    }

    /// The number of tensors that exist before the step, constants excluded: parameters, buffers, inputs and targets. They
    /// have the lowest numbers.
    pub fn given_count(&self) -> usize {
        self.parameters.len() + self.buffers.len() + self.inputs.len() + self.targets.len()
    }
}

impl Weight {
    /// The number of elements of what it stands for: of a quantised weight, those before it was packed.
    fn represented(&self) -> Option<u64> {
        let shape = self.quantization.as_ref().map_or(&self.shape, |quantization| &quantization.shape);
        shape.iter().try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?))
    }

    /// Its number of elements; `None` where it exceeds 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?))
    }
}
