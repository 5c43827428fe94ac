//! What `models/model.json` says, as it says it: names are still names.

use std::borrow::Cow;
use std::rc::Rc;

use serde::de::{self, MapAccess};

use super::argument::RawArgument;
use crate::ReadError;
use crate::json::context::{Context, TextId};
use crate::json::distinct::Distinct;
use crate::json::{Named, Object, Read, fields};
use vramfit_graph::dtype::Dtype;

/// The whole file.
pub(super) struct Program<'a> {
    pub(super) schema: i64,
    pub(super) graph: RawGraph<'a>,
    pub(super) inputs: Vec<InputSpec<'a>>,
    pub(super) outputs: Vec<OutputSpec<'a>>,
    /// How what the model returns was nested, as PyTorch writes it down.
    pub(super) out_spec: Option<Cow<'a, str>>,
    /// The values each symbol may have.
    pub(super) ranges: Vec<(Cow<'a, str>, Range)>,
    /// The paths of all modules, in order.
    pub(super) modules: Vec<Cow<'a, str>>,
}

impl<'de> Read<'de> for Program<'de> {
    const NEEDED: &'static str = "an exported program";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "graph_module" => module, "range_constraints" => ranges, "schema_version" => version });
        let (module, Named(ranges), Version(schema)): (RawModule<'de>, Named<'de, Range>, Version) =
            (module, ranges, version);
        let RawModule { graph, signature, calls } = module;
        let modules = calls.iter().map(|call| call.path.clone()).collect();
        let out_spec = calls.into_iter().find(|call| call.path.is_empty()).and_then(|call| call.out_spec);
        Ok(Program { schema, graph, inputs: signature.inputs, outputs: signature.outputs, out_spec, ranges, modules })
    }
}

/// The version alone, to explain what else may be wrong.
pub(super) struct Head(pub(super) i64);

impl<'de> Read<'de> for Head {
    const NEEDED: &'static str = "an exported program";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "schema_version" => version });
        let Version(version) = version;
        Ok(Head(version))
    }
}

struct Version(i64);

impl<'de> Read<'de> for Version {
    const NEEDED: &'static str = "a version";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "major" => major });
        Ok(Version(major))
    }
}

struct RawModule<'a> {
    graph: RawGraph<'a>,
    signature: Signature<'a>,
    calls: Vec<ModuleCall<'a>>,
}

impl<'de> Read<'de> for RawModule<'de> {
    const NEEDED: &'static str = "a graph module";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "graph" => graph, "signature" => signature }, optional { "module_call_graph" => calls });
        Ok(RawModule { graph, signature, calls: calls.unwrap_or_default() })
    }
}

/// A module that was exported, and what it returned.
struct ModuleCall<'a> {
    path: Cow<'a, str>,
    out_spec: Option<Cow<'a, str>>,
}

impl<'de> Read<'de> for ModuleCall<'de> {
    const NEEDED: &'static str = "a module call";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "fqn" => path }, optional { "signature" => signature });
        let signature: Option<Option<CallSignature<'de>>> = signature;
        Ok(ModuleCall { path, out_spec: signature.flatten().map(|CallSignature(spec)| spec) })
    }
}

struct CallSignature<'a>(Cow<'a, str>);

impl<'de> Read<'de> for CallSignature<'de> {
    const NEEDED: &'static str = "a module's signature";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "out_spec" => spec });
        Ok(CallSignature(spec))
    }
}

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
            None => {
                Metadata { stack: object.context.text(""), modules: object.context.text(""), function: Cow::default() }
            }
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
        let empty = || object.context.text("");
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

/// A size: a number, or sympy's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawSize {
    Known(i64),
    Expression {
        text: TextId,
        /// Its value in the example.
        hint: Option<i64>,
    },
}

impl<'de> Read<'de> for RawSize {
    const NEEDED: &'static str = "a size";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let size = match object.only_key(&["as_int", "as_expr"])? {
            0 => RawSize::Known(object.value()?),
            _ => {
                let Text { text, hint } = object.value()?;
                RawSize::Expression { text, hint }
            }
        };
        object.end()?;
        Ok(size)
    }
}

struct Text {
    text: TextId,
    hint: Option<i64>,
}

impl<'de> Read<'de> for Text {
    const NEEDED: &'static str = "an expression";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "expr_str" => text }, optional { "hint" => hint });
        let hint: Option<Option<Hint>> = hint;
        Ok(Text { text, hint: hint.flatten().and_then(|Hint(value)| value) })
    }
}

struct Hint(Option<i64>);

impl<'de> Read<'de> for Hint {
    const NEEDED: &'static str = "a value";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {}, optional { "as_int" => value });
        Ok(Hint(value))
    }
}

/// Shape, strides and type of a tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorMeta<'a> {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<RawSize>,
    pub(super) strides: Vec<RawSize>,
    pub(super) offset: RawSize,
    pub(super) device: Cow<'a, str>,
    pub(super) requires_grad: bool,
}

impl<'de> Read<'de> for TensorMeta<'de> {
    const NEEDED: &'static str = "a tensor's type";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "dtype" => dtype, "sizes" => shape, "requires_grad" => requires_grad, "device" => device, "strides" => strides,
            "storage_offset" => offset,
        });
        let (ScalarType(dtype), Device(device)) = (dtype, device);
        Ok(TensorMeta { dtype, shape, strides, offset, device, requires_grad })
    }
}

/// A dtype, which the file writes as a number.
pub(super) struct ScalarType(pub(super) Dtype);

impl<'de> Read<'de> for ScalarType {
    const NEEDED: &'static str = "the number of a dtype";

    fn from_integer<Error: de::Error>(context: &Context, value: i64) -> Result<Self, Error> {
        Ok(ScalarType(match value {
            1 => Dtype::Uint8,
            2 => Dtype::Int8,
            3 => Dtype::Int16,
            4 => Dtype::Int32,
            5 => Dtype::Int64,
            6 => Dtype::Float16,
            7 => Dtype::Float32,
            8 => Dtype::Float64,
            10 => Dtype::Complex64,
            11 => Dtype::Complex128,
            12 => Dtype::Bool,
            13 => Dtype::Bfloat16,
            29 => Dtype::Float8E4m3fn,
            30 => Dtype::Float8E5m2,
            other => {
                let found = format!("number {other}");
                return Err(context.fail(move |path| ReadError::UnknownDtype { path, found }));
            }
        }))
    }
}

/// The kind of device a tensor lay on.
pub(super) struct Device<'a>(pub(super) Cow<'a, str>);

impl<'de> Read<'de> for Device<'de> {
    const NEEDED: &'static str = "a device";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "type" => kind });
        Ok(Device(kind))
    }
}

/// The values a symbol may have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) least: Option<i64>,
    pub(super) most: Option<i64>,
}

impl<'de> Read<'de> for Range {
    const NEEDED: &'static str = "a range";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {}, optional { "min_val" => least, "max_val" => most });
        let (least, most): (Option<Option<i64>>, Option<Option<i64>>) = (least, most);
        Ok(Range { least: least.flatten(), most: most.flatten() })
    }
}

struct Signature<'a> {
    inputs: Vec<InputSpec<'a>>,
    outputs: Vec<OutputSpec<'a>>,
}

impl<'de> Read<'de> for Signature<'de> {
    const NEEDED: &'static str = "a graph's signature";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "input_specs" => inputs, "output_specs" => outputs });
        Ok(Signature { inputs, outputs })
    }
}

/// What one of the graph's inputs is.
pub(super) enum InputSpec<'a> {
    Parameter {
        tensor: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    Buffer {
        tensor: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    Constant {
        tensor: Cow<'a, str>,
    },
    /// Given by whoever calls the model.
    Given(RawArgument<'a>),
    Other,
}

impl<'de> Read<'de> for InputSpec<'de> {
    const NEEDED: &'static str = "the meaning of an input";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        const KINDS: [&str; 7] =
            ["parameter", "buffer", "tensor_constant", "user_input", "custom_obj", "token", "constant_input"];
        let spec = match object.only_key(&KINDS)? {
            0 => {
                let Weight { tensor, name } = object.value()?;
                InputSpec::Parameter { tensor, name }
            }
            1 => {
                let Weight { tensor, name } = object.value()?;
                InputSpec::Buffer { tensor, name }
            }
            2 => InputSpec::Constant { tensor: object.value::<Weight>()?.tensor },
            3 => InputSpec::Given(object.value::<WithArgument>()?.0),
            _ => {
                object.skip()?;
                InputSpec::Other
            }
        };
        object.end()?;
        Ok(spec)
    }
}

/// A weight's tensor and its name within the model.
struct Weight<'a> {
    tensor: Cow<'a, str>,
    name: Cow<'a, str>,
}

impl<'de> Read<'de> for Weight<'de> {
    const NEEDED: &'static str = "a weight";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "arg" => tensor }, optional {
            "parameter_name" => parameter, "buffer_name" => buffer, "tensor_constant_name" => constant,
        });
        let TensorName(tensor) = tensor;
        let name: Option<Cow<'de, str>> = parameter.or(buffer).or(constant);
        Ok(Weight { name: name.unwrap_or_else(|| tensor.clone()), tensor })
    }
}

/// `{"name": …}`.
pub(super) struct TensorName<'a>(pub(super) Cow<'a, str>);

impl<'de> Read<'de> for TensorName<'de> {
    const NEEDED: &'static str = "a tensor's name";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "name" => name });
        Ok(TensorName(name))
    }
}

struct WithArgument<'a>(RawArgument<'a>);

impl<'de> Read<'de> for WithArgument<'de> {
    const NEEDED: &'static str = "an argument";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "arg" => argument });
        Ok(WithArgument(argument))
    }
}

/// What one of the graph's outputs is.
pub(super) enum OutputSpec<'a> {
    /// Returned to whoever calls the model.
    Returned(RawArgument<'a>),
    /// The scalar that backward starts from.
    Loss(Cow<'a, str>),
    /// The new value of a buffer and the like.
    Other,
}

impl<'de> Read<'de> for OutputSpec<'de> {
    const NEEDED: &'static str = "the meaning of an output";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        const KINDS: [&str; 8] = [
            "user_output",
            "loss_output",
            "buffer_mutation",
            "gradient_to_parameter",
            "gradient_to_user_input",
            "user_input_mutation",
            "token",
            "parameter_mutation",
        ];
        let spec = match object.only_key(&KINDS)? {
            0 => OutputSpec::Returned(object.value::<WithArgument>()?.0),
            1 => OutputSpec::Loss(object.value::<Weight>()?.tensor),
            _ => {
                object.skip()?;
                OutputSpec::Other
            }
        };
        object.end()?;
        Ok(spec)
    }
}

/// Where each weight's bytes lie: `data/weights/*_config.json`.
pub(super) struct Payloads<'a>(pub(super) Vec<(Cow<'a, str>, Payload<'a>)>);

impl<'de> Read<'de> for Payloads<'de> {
    const NEEDED: &'static str = "the places of weights";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "config" => config });
        let Named(config) = config;
        Ok(Payloads(config))
    }
}

/// Where a weight's bytes lie, and what they are.
pub(super) struct Payload<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) meta: Option<TensorMeta<'a>>,
}

impl<'de> Read<'de> for Payload<'de> {
    const NEEDED: &'static str = "the place of a weight";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "path_name" => path }, optional { "tensor_meta" => meta });
        let meta: Option<Option<TensorMeta<'de>>> = meta;
        Ok(Payload { path, meta: meta.flatten() })
    }
}
