//! Rows of a capture's tables: symbols, modules, operators, sources, weights, inputs, types, tensors.

use serde::de::{self, MapAccess, SeqAccess};

use crate::error::ReadError;
use crate::json::{List, Object, ParseState, Read, fields, out_of_range};
use vramfit_eager::operators;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Example, Input, Module, Operator, Size, Source, Symbol, Tensor, Type, Weight};

impl<'de> Read<'de> for Dtype {
    const NEEDED: &'static str = "the name of a dtype";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        Dtype::from_name(text)
            .ok_or_else(|| state.fail_with(text, |path, found| ReadError::UnknownDtype { path, found }))
    }
}

impl<'de> Read<'de> for Symbol {
    const NEEDED: &'static str = "a symbol";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "name" => name, "example" => example, "recorded" => recorded, "dims" => dims });
        let dims: Vec<Dimension> = dims;
        let dims = dims.into_iter().map(|it| (it.input, it.dim)).collect();
        Ok(Symbol { name, example: Example::Known(example), recorded, dims, range: None })
    }
}

/// A dimension that is a symbol.
struct Dimension {
    input: String,
    dim: usize,
}

impl<'de> Read<'de> for Dimension {
    const NEEDED: &'static str = "the name of an input or target, and a dimension";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let input = list.required("the name of an input or target")?;
        Ok(Dimension { input, dim: list.required::<u32>("a dimension")? as usize })
    }
}

impl<'de> Read<'de> for Module {
    const NEEDED: &'static str = "a module's path and class";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(Module { path: list.required("a module's path")?, class: list.required("a module's class")? })
    }
}

impl<'de> Read<'de> for Operator {
    const NEEDED: &'static str = "an operator's name and its arguments' names";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(operators::named(list.required("an operator's name")?, list.required("its arguments' names")?))
    }
}

impl<'de> Read<'de> for Source {
    const NEEDED: &'static str = "a file, a line and a function";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(Source {
            file: list.required("a file")?,
            line: list.required("a line")?,
            function: list.required("a function")?,
        })
    }
}

/// A weight that is a parameter.
struct Parameter(Weight);

impl<'de> Read<'de> for Parameter {
    const NEEDED: &'static str = "a parameter";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "names" => names, "tensor" => tensor, "shape" => shape, "dtype" => dtype, "requires_grad" => requires_grad,
        }, optional { "quantized" => quantized });
        let quantization = quantized.map(Box::new);
        Ok(Parameter(Weight { names, tensor, shape, dtype, requires_grad, quantization }))
    }
}

/// A weight that is a buffer.
struct Buffer(Weight);

impl<'de> Read<'de> for Buffer {
    const NEEDED: &'static str = "a buffer";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "names" => names, "tensor" => tensor, "shape" => shape, "dtype" => dtype });
        Ok(Buffer(Weight { names, tensor, shape, dtype, requires_grad: false, quantization: None }))
    }
}

/// The table of parameters.
pub(super) struct Parameters(pub(super) Vec<Weight>);

impl<'de> Read<'de> for Parameters {
    const NEEDED: &'static str = "a list";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let rows: Vec<Parameter> = list.rest()?;
        Ok(Parameters(rows.into_iter().map(|Parameter(weight)| weight).collect()))
    }
}

/// The table of buffers.
pub(super) struct Buffers(pub(super) Vec<Weight>);

impl<'de> Read<'de> for Buffers {
    const NEEDED: &'static str = "a list";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let rows: Vec<Buffer> = list.rest()?;
        Ok(Buffers(rows.into_iter().map(|Buffer(weight)| weight).collect()))
    }
}

impl<'de> Read<'de> for Input {
    const NEEDED: &'static str = "an input";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "name" => name, "tensor" => tensor, "dtype" => dtype, "example" => example, "shape" => shape,
        });
        Ok(Input { name, tensor, dtype, example, shape })
    }
}

impl<'de> Read<'de> for Type {
    const NEEDED: &'static str = "a dtype, a shape and perhaps strides";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Ok(Type { dtype: list.required("a dtype")?, shape: list.required("a shape")?, strides: list.next()? })
    }
}

impl<'de> Read<'de> for Tensor {
    const NEEDED: &'static str = "a tensor's type, storage, offset and flags";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let r#type = list.required("a type")?;
        let storage = list.required("a storage")?;
        let offset: Size = list.required("an offset")?;
        let Flags(flags) = list.required("flags")?;
        Ok(Tensor {
            r#type,
            storage,
            offset,
            requires_grad: flags & 1 != 0,
            is_leaf: flags & 2 != 0,
            is_on_host: flags & 4 != 0,
            is_view: flags & 8 != 0,
        })
    }
}

struct Flags(u8);

impl<'de> Read<'de> for Flags {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        let flags = u8::try_from(value).ok().filter(|flags| *flags < 16);
        flags.map(Flags).ok_or_else(|| out_of_range(state, value.into(), "a sum of the flags 1, 2, 4 and 8"))
    }
}
