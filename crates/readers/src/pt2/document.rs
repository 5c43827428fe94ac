//! The JSON of an archive as it is: names are still names.

use std::borrow::Cow;

use serde::de::MapAccess;

use super::graph::{RawArgument, RawGraph};
use super::tensor_meta::{TensorMeta, TensorName};
use crate::json::{Named, Object, Read, fields};

/// The whole file.
pub(super) struct Program<'a> {
    pub(super) schema: i64,
    pub(super) graph: RawGraph<'a>,
    pub(super) inputs: Vec<InputSpec<'a>>,
    pub(super) outputs: Vec<OutputSpec<'a>>,
    /// How the returned value is nested, as PyTorch writes it.
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

/// The version alone, which may explain another error.
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
    calls: Vec<RawModuleCall<'a>>,
}

impl<'de> Read<'de> for RawModule<'de> {
    const NEEDED: &'static str = "a graph module";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "graph" => graph, "signature" => signature }, optional { "module_call_graph" => calls });
        Ok(RawModule { graph, signature, calls: calls.unwrap_or_default() })
    }
}

/// A module that was exported, and what it returned.
struct RawModuleCall<'a> {
    path: Cow<'a, str>,
    out_spec: Option<Cow<'a, str>>,
}

impl<'de> Read<'de> for RawModuleCall<'de> {
    const NEEDED: &'static str = "a module call";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "fqn" => path }, optional { "signature" => signature });
        let signature: Option<Option<CallSignature<'de>>> = signature;
        Ok(RawModuleCall { path, out_spec: signature.flatten().map(|CallSignature(spec)| spec) })
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
    /// Given by the caller of the model.
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
    /// Returned to the caller of the model.
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

/// Where the bytes of each weight are: `data/weights/*_config.json`.
pub(super) struct Payloads<'a>(pub(super) Vec<(Cow<'a, str>, Payload<'a>)>);

impl<'de> Read<'de> for Payloads<'de> {
    const NEEDED: &'static str = "the locations of weights";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "config" => config });
        let Named(config) = config;
        Ok(Payloads(config))
    }
}

/// Where the bytes of a weight are, and its type.
pub(super) struct Payload<'a> {
    pub(super) path: Cow<'a, str>,
    pub(super) meta: Option<TensorMeta<'a>>,
}

impl<'de> Read<'de> for Payload<'de> {
    const NEEDED: &'static str = "the location of a weight";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "path_name" => path }, optional { "tensor_meta" => meta });
        let meta: Option<Option<TensorMeta<'de>>> = meta;
        Ok(Payload { path, meta: meta.flatten() })
    }
}
