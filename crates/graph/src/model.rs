//! A captured model, with sizes still as expressions of its symbols.

use std::fmt;

use crate::dtype::Dtype;
use crate::expression::{Expression, Linear};

/// The number of a tensor within a variant. Parameters, buffers, inputs and targets have the same in every variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// The number of an expression in [`Model::expressions`]. Each distinct expression has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpressionId(pub u32);

/// A whole number, or an expression of the model's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// Known.
    Known(i64),
    /// Depends on symbols.
    Symbolic(ExpressionId),
}

/// A size the user may choose, such as the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its value in the example that was captured.
    pub example: Example,
    /// The values at which it was recorded.
    pub recorded: Vec<i64>,
    /// Where it stands: input or target, and dimension.
    pub dims: Vec<(String, usize)>,
    /// The values it may have; `None` where nothing says so.
    pub range: Option<SymbolRange>,
}

/// The value of a symbol in the example that a file was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Example {
    /// This one, which is the default.
    Told(i64),
    /// The file does not say, as where data decides it: it must be chosen.
    Untold {
        /// What makes it, for people.
        maker: String,
    },
}

impl Example {
    /// The value, where the file tells it.
    pub fn value(&self) -> Option<i64> {
        match self {
            Example::Told(value) => Some(*value),
            Example::Untold { .. } => None,
        }
    }
}

/// The values a symbol may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolRange {
    /// The least.
    pub least: i64,
    /// The greatest, if there is one.
    pub most: Option<i64>,
}

/// What kind of file a model was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A capture of vramfit's own.
    Capture,
    /// An archive of `torch.export.save`.
    Archive,
}

impl Origin {
    /// How to make the file once more, for people.
    pub fn made_again(self) -> &'static str {
        match self {
            Origin::Capture => "capture the model again with vramfit.capture",
            Origin::Archive => "export the model again with torch.export.save",
        }
    }
}

/// A module of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its dotted path; `None` where it was made on the way or belongs to the loss.
    pub path: Option<String>,
    /// Its class.
    pub class: String,
}

/// A line of the model's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, without any machine's path.
    pub file: String,
    /// The line.
    pub line: u32,
    /// The function.
    pub function: String,
}

/// An operator: its full name and its arguments' names, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// Such as `aten.linear.default`.
    pub name: String,
    /// Such as `input`, `weight`, `bias`.
    pub arguments: Vec<String>,
}

/// A parameter or buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Its dotted names; tied ones have several.
    pub names: Vec<String>,
    /// Its tensor.
    pub tensor: TensorId,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its type as built.
    pub dtype: Dtype,
    /// Whether it is trained; false for buffers.
    pub requires_grad: bool,
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

/// The precision a variant was recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// As the module was built.
    AsBuilt,
    /// The whole model cast.
    Cast(Dtype),
    /// Single-precision weights under autocast.
    Autocast(Dtype),
}

/// The mode a variant was recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// `model.train()`.
    Train,
    /// `model.eval()` under `no_grad`.
    Eval,
    /// `model.eval()` with gradients.
    EvalGrad,
}

/// One recording of the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its precision.
    pub precision: Precision,
    /// Its mode.
    pub mode: Mode,
    /// Whether gradients are on at the start.
    pub has_grad: bool,
    /// The types section it uses.
    pub types: usize,
    /// The tensors section it uses.
    pub tensors: usize,
    /// The steps section it uses.
    pub steps: usize,
    /// Tensors that exist before the step, though neither weights nor inputs.
    pub constants: Vec<TensorId>,
    /// The tensors the model returned, in order, each once.
    pub outputs: Vec<TensorId>,
    /// How each of them is reached from what the model returned, as Python writes it: nothing, `.loss`, `[0]`, `["out"]`;
    /// empty where the file does not tell.
    pub paths: Vec<String>,
    /// The same in the order in which Python lets go of them: lists from their end.
    pub released: Vec<TensorId>,
    /// The scalar that backward starts from.
    pub loss: Option<TensorId>,
    /// Every tensor that was alive when the step ended.
    pub held: Vec<TensorId>,
    /// Tensors that Python may hold for longer than the steps say, by the end of that; empty where the frees were recorded.
    pub late: Vec<Late>,
    /// Why an estimate from it cannot be called exact; empty where it can.
    pub causes: Vec<String>,
}

/// A tensor that Python may hold for longer than the steps say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The tensor.
    pub tensor: TensorId,
    /// The step before which it goes at the latest.
    pub until: usize,
}

/// Element type, shape and strides, shared by many tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The elements' type.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<Size>,
    /// The strides; `None` is contiguous.
    pub strides: Option<Vec<Size>>,
}

/// A tensor of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its type, a row of the types section.
    pub r#type: u32,
    /// Its storage: tensors with the same number share memory.
    pub storage: u32,
    /// Where it begins in the storage, in elements.
    pub offset: Size,
    /// Whether it required grad when it was made.
    pub requires_grad: bool,
    /// Whether it is a leaf.
    pub is_leaf: bool,
    /// Whether it lives on the host.
    pub is_on_host: bool,
    /// Whether it was made as a view.
    pub is_view: bool,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(Size),
    /// A real number.
    Float(f64),
    /// A tensor.
    Tensor(TensorId),
    /// A list.
    List(Vec<Argument>),
    /// A text.
    Text(String),
    /// An element type.
    Dtype(Dtype),
    /// Where a result is to live: true is the host.
    Device {
        /// Whether it is the host.
        is_host: bool,
    },
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// Anything else, which decides no memory.
    Other,
}

impl Argument {
    /// Calls `visit` with every tensor in the argument, those in lists included.
    pub fn each_tensor(&self, visit: &mut impl FnMut(TensorId)) {
        match self {
            Argument::Tensor(id) => visit(*id),
            Argument::List(items) => items.iter().for_each(|item| item.each_tensor(visit)),
            _ => {}
        }
    }

    /// Calls `visit` with every tensor in the argument, which it may replace.
    pub fn each_tensor_mut(&mut self, visit: &mut impl FnMut(&mut TensorId)) {
        match self {
            Argument::Tensor(id) => visit(id),
            Argument::List(items) => items.iter_mut().for_each(|item| item.each_tensor_mut(visit)),
            _ => {}
        }
    }
}

/// How a tensor is to be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFormat {
    /// Row-major.
    Contiguous,
    /// As the source.
    Preserve,
    /// Channels last, four dimensions.
    ChannelsLast,
    /// Channels last, five dimensions.
    ChannelsLast3d,
}

/// Whether autocast made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// No.
    No,
    /// A cast for one call.
    ForCall,
    /// A cast of a weight that is kept until the outermost region ends.
    Kept,
}

/// A call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The operator, a row of the model's table.
    pub operator: u32,
    /// Its arguments, in the operator's order.
    pub arguments: Vec<Argument>,
    /// Its results; `None` for an undefined one.
    pub results: Vec<Option<TensorId>>,
    /// The line of the model that made it.
    pub source: Option<u32>,
    /// Whether autocast made it.
    pub cast: Cast,
}

/// Something that happened during the step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An operator was called.
    Call(Call),
    /// Python let go of these tensors, in this order.
    Free(Vec<TensorId>),
    /// A module call begins, with these tensor arguments.
    Enter(u32, Vec<TensorId>),
    /// A module call ends, with these results.
    Exit(u32, Vec<TensorId>),
    /// The grad mode changes.
    Grad(bool),
    /// An autocast region begins.
    Autocast {
        /// Whether it is one for the GPU; others change nothing there.
        is_gpu: bool,
        /// The type it casts to.
        dtype: Option<Dtype>,
        /// Whether it is on.
        is_enabled: bool,
        /// Whether weights' casts are kept.
        has_cache: bool,
    },
    /// An autocast region ends.
    EndAutocast,
    /// A checkpointed region of the model's own begins.
    Checkpoint {
        /// Whether it is the reentrant kind.
        is_reentrant: bool,
        /// Whether it keeps the state of the random number generators.
        preserves_rng: bool,
        /// Its arguments.
        arguments: Vec<TensorId>,
    },
    /// A checkpointed region ends, with these results.
    EndCheckpoint(Vec<TensorId>),
    /// A custom `autograd.Function` begins.
    Function {
        /// Its class.
        name: String,
        /// Its arguments.
        arguments: Vec<TensorId>,
    },
    /// A custom `autograd.Function` ends.
    EndFunction {
        /// Its results.
        results: Vec<TensorId>,
        /// What it gave to `save_for_backward`.
        saved: Vec<TensorId>,
    },
    /// The loss function begins.
    Loss,
    /// The loss function ends.
    EndLoss,
}

/// A captured model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Where it comes from.
    pub origin: Origin,
    /// The class of the module.
    pub class: String,
    /// The sizes the user may choose.
    pub symbols: Vec<Symbol>,
    /// The distinct expressions of the symbols, which [`Size::Symbolic`] names.
    pub expressions: Vec<Expression>,
    /// What the capture says to people.
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
    /// One a precision and mode.
    pub variants: Vec<Variant>,
    /// Sections of types.
    pub types: Vec<Vec<Type>>,
    /// Sections of tensors.
    pub tensors: Vec<Vec<Tensor>>,
    /// Sections of steps.
    pub steps: Vec<Vec<Step>>,
}

impl Model {
    /// The names of the symbols, in order.
    pub fn symbol_names(&self) -> Vec<&str> {
        self.symbols.iter().map(|symbol| symbol.name.as_str()).collect()
    }

    /// The example's values of the symbols, in order; `None` where the file does not tell all.
    pub fn examples(&self) -> Option<Vec<i64>> {
        self.symbols.iter().map(|symbol| symbol.example.value()).collect()
    }

    /// A size as a multiple of one symbol plus a number, where it is that.
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

    /// How many numbers the parameters hold together, tied ones counted once; `None` where that passes 64 bits.
    pub fn parameter_count(&self) -> Option<u64> {
        self.parameters.iter().try_fold(0_u64, |sum, weight| sum.checked_add(weight.elements()?))
    }

    /// How many tensors exist before the step, constants left out: parameters, buffers, inputs and targets, which have
    /// the lowest numbers.
    pub fn given_count(&self) -> usize {
        self.parameters.len() + self.buffers.len() + self.inputs.len() + self.targets.len()
    }
}

impl Weight {
    /// How many numbers it holds; `None` where that passes 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?))
    }
}

/// As a capture names it: `as-built`, `fp32`, `amp-bf16`.
impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Precision::AsBuilt => formatter.write_str("as-built"),
            Precision::Cast(dtype) => formatter.write_str(dtype.short_name()),
            Precision::Autocast(dtype) => write!(formatter, "amp-{}", dtype.short_name()),
        }
    }
}

/// As a capture names it: `train`, `eval`, `eval-grad`.
impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mode::Train => "train",
            Mode::Eval => "eval",
            Mode::EvalGrad => "eval-grad",
        })
    }
}
