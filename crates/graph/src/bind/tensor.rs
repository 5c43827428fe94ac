//! Tensors with numbers for sizes: each distinct type is worked out once.

use super::argument::Binder;
use super::{BindError, BoundTensor};
use crate::dims::Dims;
use crate::model::{Size, Tensor, Type};

/// A tensor may take up to this many bytes (1 PiB), and a storage up to its last element, so that sums of some
/// thousands still fit 64 bits.
pub const BYTES_LIMIT: u64 = 1 << 50;

/// The strides of a contiguous tensor of this shape, as PyTorch gives them; `None` where they pass 64 bits.
pub fn contiguous_strides(shape: &[i64]) -> Option<Dims> {
    let mut strides = Dims::filled(1, shape.len());
    let mut stride = 1_i64;
    for dim in (0..shape.len()).rev() {
        strides[dim] = stride;
        if dim > 0 {
            stride = stride.checked_mul(shape[dim].max(1))?;
        }
    }
    Some(strides)
}

/// What tensors of one type have in common.
struct BoundType {
    shape: Dims,
    strides: Dims,
    elements: i64,
    bytes: u64,
    /// How many elements lie between the first and the last, that one included.
    span: i64,
}

pub(super) fn bind_tensors(
    binder: &Binder<'_, '_>,
    types: &[Type],
    tensors: &[Tensor],
) -> Result<Vec<BoundTensor>, BindError> {
    let mut known: Vec<Option<BoundType>> = Vec::new();
    known.resize_with(types.len(), || None);
    let mut bound = Vec::with_capacity(tensors.len());
    for (number, tensor) in tensors.iter().enumerate() {
        let at = tensor.r#type as usize;
        let r#type = match &mut known[at] {
            Some(found) => found,
            unknown => unknown.insert(bind_type(binder, &types[at], number)?),
        };
        let dtype = types[at].dtype;
        let offset = binder.count(tensor.offset, || format!("tensor {number}: offset"))?;
        let extent = if r#type.span == 0 { Some(0) } else { r#type.span.checked_add(offset) };
        let extent = extent.and_then(|elements| limited_bytes(elements, dtype.bytes()));
        bound.push(BoundTensor {
            dtype,
            shape: r#type.shape.clone(),
            strides: r#type.strides.clone(),
            storage: tensor.storage,
            offset,
            elements: r#type.elements,
            bytes: r#type.bytes,
            extent: extent.ok_or_else(|| too_large(binder, &types[at], number))?,
            requires_grad: tensor.requires_grad,
            is_leaf: tensor.is_leaf,
            is_on_host: tensor.is_on_host,
            is_view: tensor.is_view,
        });
    }
    Ok(bound)
}

/// Works a type out, for the first tensor that has it.
fn bind_type(binder: &Binder<'_, '_>, r#type: &Type, tensor: usize) -> Result<BoundType, BindError> {
    let dims = |sizes: &[Size], what: &str| {
        let mut dims = Dims::EMPTY;
        for (dim, size) in sizes.iter().enumerate() {
            dims.push(binder.count(*size, || format!("tensor {tensor}: {what} {dim}"))?);
        }
        Ok(dims)
    };
    let shape = dims(&r#type.shape, "dimension")?;
    let strides = match &r#type.strides {
        Some(strides) => dims(strides, "stride")?,
        None => contiguous_strides(&shape).ok_or_else(|| too_large(binder, r#type, tensor))?,
    };
    measure(&shape, &strides, r#type.dtype.bytes())
        .map(|(elements, bytes, span)| BoundType { shape, strides, elements, bytes, span })
        .ok_or_else(|| too_large(binder, r#type, tensor))
}

/// Elements, bytes and span; `None` where one is absurdly large.
fn measure(shape: &[i64], strides: &[i64], element: u64) -> Option<(i64, u64, i64)> {
    if shape.contains(&0) {
        return Some((0, 0, 0));
    }
    let mut elements = 1_i64;
    let mut span = 1_i64;
    for (size, stride) in shape.iter().zip(strides) {
        elements = elements.checked_mul(*size)?;
        span = span.checked_add((size - 1).checked_mul(*stride)?)?;
    }
    limited_bytes(span, element)?;
    Some((elements, limited_bytes(elements, element)?, span))
}

fn limited_bytes(elements: i64, element: u64) -> Option<u64> {
    u64::try_from(elements).ok()?.checked_mul(element).filter(|bytes| *bytes <= BYTES_LIMIT)
}

fn too_large(binder: &Binder<'_, '_>, r#type: &Type, tensor: usize) -> BindError {
    BindError::TensorTooLarge {
        tensor,
        dtype: r#type.dtype.name(),
        shape: binder.shape_text(&r#type.shape),
        sizes: binder.sizes_text(),
    }
}
