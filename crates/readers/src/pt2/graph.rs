//! Graphs, their nodes and the nodes' arguments as the file has them. An argument may be a graph.

use std::borrow::Cow;
use std::rc::Rc;

use serde::de::{self, MapAccess};

use super::tensor_meta::{Device, RawSize, ScalarType, TensorMeta, TensorName};
use crate::json::{Distinct, Named, Object, ParseState, Read, TextId, fields, out_of_range};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::MemoryFormat;

/// A graph, the model's or one within it.
#[derive(Default)]
pub(super) struct RawGraph<'a> {
    pub(super) inputs: Vec<RawArgument<'a>>,
    pub(super) outputs: Vec<RawArgument<'a>>,
    pub(super) nodes: Vec<RawNode<'a>>,
    pub(super) tensors: Vec<(Cow<'a, str>, Rc<TensorMeta<'a>>)>,
    pub(super) integers: Vec<(Cow<'a, str>, RawSize)>,
}

impl<'de> Read<'de> for RawGraph<'de> {
    const NEEDED: &'static str = "a graph";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "inputs" => inputs, "outputs" => outputs, "nodes" => nodes, "tensor_values" => tensors,
            "sym_int_values" => integers,
        });
        let (Distinct(tensors), Named(integers)) = (tensors, integers);
        Ok(RawGraph { inputs, outputs, nodes, tensors, integers })
    }
}

/// One call.
pub(super) struct RawNode<'a> {
    pub(super) target: Cow<'a, str>,
    pub(super) inputs: Vec<NamedArgument<'a>>,
    pub(super) outputs: Vec<RawArgument<'a>>,
    pub(super) stack: TextId,
    pub(super) modules: TextId,
    /// The Python function that made it.
    pub(super) function: Cow<'a, str>,
    pub(super) name: Option<Cow<'a, str>>,
}

impl<'de> Read<'de> for RawNode<'de> {
    const NEEDED: &'static str = "a node";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "target" => target, "inputs" => inputs, "outputs" => outputs }, optional {
            "metadata" => metadata, "name" => name,
        });
        let Metadata { stack, modules, function } = match metadata {
            Some(metadata) => metadata,
            None => Metadata { stack: object.state.text(""), modules: object.state.text(""), function: Cow::default() },
        };
        let name: Option<Option<Cow<'de, str>>> = name;
        Ok(RawNode { target, inputs, outputs, stack, modules, function, name: name.flatten() })
    }
}

/// Where a call came from.
struct Metadata<'a> {
    stack: TextId,
    modules: TextId,
    function: Cow<'a, str>,
}

impl<'de> Read<'de> for Metadata<'de> {
    const NEEDED: &'static str = "a node's metadata";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {}, optional { "stack_trace" => stack, "nn_module_stack" => modules, "torch_fn" => function });
        let empty = || object.state.text("");
        let function: Option<Cow<'de, str>> = function;
        Ok(Metadata {
            stack: stack.unwrap_or_else(empty),
            modules: modules.unwrap_or_else(empty),
            function: function.unwrap_or_default(),
        })
    }
}

/// An argument with the name it has in the operator's schema.
pub(super) struct NamedArgument<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) argument: RawArgument<'a>,
}

impl<'de> Read<'de> for NamedArgument<'de> {
    const NEEDED: &'static str = "a named argument";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "name" => name, "arg" => argument });
        Ok(NamedArgument { name, argument })
    }
}

/// An argument or result of a node; tensors and sizes by name.
pub(super) enum RawArgument<'a> {
    None,
    Tensor(Cow<'a, str>),
    Tensors(Vec<Option<Cow<'a, str>>>),
    Int(i64),
    Ints(Vec<i64>),
    Float(f64),
    Floats(Vec<f64>),
    Bool(bool),
    Bools(Vec<bool>),
    Text(Cow<'a, str>),
    SymbolicInt(RawInt<'a>),
    SymbolicInts(Vec<RawInt<'a>>),
    Dtype(Dtype),
    MemoryFormat(Option<MemoryFormat>),
    Device(Cow<'a, str>),
    Graph(Box<RawGraph<'a>>),
    /// Anything else, which decides no memory.
    Other,
}

/// What an argument may say; those after the last that has a meaning here decide no memory.
const KINDS: [&str; 31] = [
    "as_none",
    "as_tensor",
    "as_tensors",
    "as_optional_tensor",
    "as_optional_tensors",
    "as_int",
    "as_ints",
    "as_float",
    "as_floats",
    "as_bool",
    "as_bools",
    "as_string",
    "as_sym_int",
    "as_sym_ints",
    "as_scalar_type",
    "as_memory_format",
    "as_device",
    "as_graph",
    "as_strings",
    "as_layout",
    "as_sym_bool",
    "as_sym_bools",
    "as_sym_float",
    "as_sym_floats",
    "as_custom_obj",
    "as_operator",
    "as_complex",
    "as_nested_tensors",
    "as_int_lists",
    "as_string_to_argument",
    "as_float_lists",
];

impl<'de> Read<'de> for RawArgument<'de> {
    const NEEDED: &'static str = "an argument";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let names = |names: Vec<TensorName<'de>>| names.into_iter().map(|TensorName(name)| Some(name)).collect();
        let argument = match object.only_key(&KINDS)? {
            0 => {
                object.skip()?;
                RawArgument::None
            }
            1 => RawArgument::Tensor(object.value::<TensorName>()?.0),
            2 => RawArgument::Tensors(names(object.value()?)),
            3 => object.value::<OptionalTensor>()?.0.map_or(RawArgument::None, RawArgument::Tensor),
            4 => RawArgument::Tensors(object.value::<Vec<OptionalTensor>>()?.into_iter().map(|it| it.0).collect()),
            5 => RawArgument::Int(object.value()?),
            6 => RawArgument::Ints(object.value()?),
            7 => RawArgument::Float(object.value::<Real>()?.0),
            8 => RawArgument::Floats(object.value::<Vec<Real>>()?.into_iter().map(|Real(value)| value).collect()),
            9 => RawArgument::Bool(object.value()?),
            10 => RawArgument::Bools(object.value()?),
            11 => RawArgument::Text(object.value()?),
            12 => RawArgument::SymbolicInt(object.value()?),
            13 => RawArgument::SymbolicInts(object.value()?),
            14 => RawArgument::Dtype(object.value::<ScalarType>()?.0),
            15 => RawArgument::MemoryFormat(object.value::<Format>()?.0),
            16 => RawArgument::Device(object.value::<Device>()?.0),
            17 => RawArgument::Graph(object.value::<GraphArgument>()?.0),
            _ => {
                object.skip()?;
                RawArgument::Other
            }
        };
        object.end()?;
        Ok(argument)
    }
}

struct GraphArgument<'a>(Box<RawGraph<'a>>);

impl<'de> Read<'de> for GraphArgument<'de> {
    const NEEDED: &'static str = "a graph with its name";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "graph" => graph });
        Ok(GraphArgument(Box::new(graph)))
    }
}

struct OptionalTensor<'a>(Option<Cow<'a, str>>);

impl<'de> Read<'de> for OptionalTensor<'de> {
    const NEEDED: &'static str = "a tensor or none";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let tensor = match object.only_key(&["as_tensor", "as_none"])? {
            0 => Some(object.value::<TensorName>()?.0),
            _ => {
                object.skip()?;
                None
            }
        };
        object.end()?;
        Ok(OptionalTensor(tensor))
    }
}

/// A number, or the name of one.
pub(super) enum RawInt<'a> {
    Known(i64),
    Name(Cow<'a, str>),
}

impl<'de> Read<'de> for RawInt<'de> {
    const NEEDED: &'static str = "a number or a name";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let value = match object.only_key(&["as_int", "as_name"])? {
            0 => RawInt::Known(object.value()?),
            _ => RawInt::Name(object.value()?),
        };
        object.end()?;
        Ok(value)
    }
}

/// A real number; JSON has no digits for some.
struct Real(f64);

impl<'de> Read<'de> for Real {
    const NEEDED: &'static str = "a number";

    fn from_integer<Error: de::Error>(_state: &ParseState, value: i64) -> Result<Self, Error> {
        Ok(Real(value as f64))
    }

    fn from_float<Error: de::Error>(_state: &ParseState, value: f64) -> Result<Self, Error> {
        Ok(Real(value))
    }

    fn from_text<Error: de::Error>(_state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(Real(match text {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            _ => f64::NAN,
        }))
    }
}

struct Format(Option<MemoryFormat>);

impl<'de> Read<'de> for Format {
    const NEEDED: &'static str = "the number of a memory format";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        Ok(Format(match value {
            0 => None,
            1 => Some(MemoryFormat::Contiguous),
            2 => Some(MemoryFormat::ChannelsLast),
            3 => Some(MemoryFormat::ChannelsLast3d),
            4 => Some(MemoryFormat::Preserve),
            _ => return Err(out_of_range(state, value.into(), "a memory format from 0 to 4")),
        }))
    }
}
