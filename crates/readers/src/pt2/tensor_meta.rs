//! Sizes, shapes and types of tensors as the file has them.

use std::borrow::Cow;

use serde::de::{self, MapAccess};

use crate::error::ReadError;
use crate::json::{Object, ParseState, Read, TextId, fields};
use vramfit_graph::dtype::Dtype;

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
                let ExpressionText { text, hint } = object.value()?;
                RawSize::Expression { text, hint }
            }
        };
        object.end()?;
        Ok(size)
    }
}

struct ExpressionText {
    text: TextId,
    hint: Option<i64>,
}

impl<'de> Read<'de> for ExpressionText {
    const NEEDED: &'static str = "an expression";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "expr_str" => text }, optional { "hint" => hint });
        let hint: Option<Option<Hint>> = hint;
        Ok(ExpressionText { text, hint: hint.flatten().and_then(|Hint(value)| value) })
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

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
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
                return Err(state.fail(move |path| ReadError::UnknownDtype { path, found }));
            }
        }))
    }
}

/// The kind of device of a tensor.
pub(super) struct Device<'a>(pub(super) Cow<'a, str>);

impl<'de> Read<'de> for Device<'de> {
    const NEEDED: &'static str = "a device";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "type" => kind });
        Ok(Device(kind))
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
