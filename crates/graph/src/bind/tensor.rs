//! Tensors with numbers for sizes: each distinct type is evaluated once.

use super::bound::BoundTensor;
use super::error::{BYTES_LIMIT, BindError};
use super::evaluate::Binder;
use crate::dims::Dims;
use crate::layout::contiguous_strides;
use crate::model::{Size, Tensor, Type};

/// What tensors of one type have in common.
struct BoundType {
    shape: Dims,
    strides: Dims,
    elements: i64,
    bytes: u64,
    /// How many elements of the storage it spans, first and last included.
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
        let offset = binder.count(tensor.offset, || format!("{}: offset", binder.tensor_name(number)))?;
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
            extent: extent.ok_or_else(|| {
                let field = format!("offset {}", binder.size_text(tensor.offset));
                spread_too_large(binder, &types[at], number, field, &[tensor.offset])
            })?,
            requires_grad: tensor.requires_grad,
            is_leaf: tensor.is_leaf,
            is_on_host: tensor.is_on_host,
            is_view: tensor.is_view,
        });
    }
    Ok(bound)
}

/// Evaluates a type; `tensor` is the first that has it.
fn bind_type(binder: &Binder<'_, '_>, r#type: &Type, tensor: usize) -> Result<BoundType, BindError> {
    let dims = |sizes: &[Size], what: &str| {
        let mut dims = Dims::EMPTY;
        for (dim, size) in sizes.iter().enumerate() {
            dims.push(binder.count(*size, || format!("{}: {what} {dim}", binder.tensor_name(tensor)))?);
        }
        Ok(dims)
    };
    let shape = dims(&r#type.shape, "dimension")?;
    let strides = match &r#type.strides {
        Some(strides) => dims(strides, "stride")?,
        None => {
            // A stride at the limit is one that saturated.
            let strides = contiguous_strides(&shape);
            if strides.contains(&i64::MAX) {
                return Err(too_large(binder, r#type, tensor));
            }
            strides
        }
    };
    let element = r#type.dtype.bytes();
    let (elements, bytes) = elements(&shape, element).ok_or_else(|| too_large(binder, r#type, tensor))?;
    let span = span(&shape, &strides, element).ok_or_else(|| {
        let strides = r#type.strides.as_deref().unwrap_or_default();
        spread_too_large(binder, r#type, tensor, format!("strides {}", binder.shape_text(strides)), strides)
    })?;
    Ok(BoundType { shape, strides, elements, bytes, span })
}

/// The number of elements and their bytes; `None` above [`BYTES_LIMIT`].
fn elements(shape: &[i64], element: u64) -> Option<(i64, u64)> {
    if shape.contains(&0) {
        return Some((0, 0));
    }
    let elements = shape.iter().try_fold(1_i64, |product, size| product.checked_mul(*size))?;
    Some((elements, limited_bytes(elements, element)?))
}

/// How many elements of the storage a tensor spans, first and last included; `None` above [`BYTES_LIMIT`].
fn span(shape: &[i64], strides: &[i64], element: u64) -> Option<i64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let mut span = 1_i64;
    for (size, stride) in shape.iter().zip(strides) {
        span = span.checked_add((size - 1).checked_mul(*stride)?)?;
    }
    limited_bytes(span, element).map(|_| span)
}

fn limited_bytes(elements: i64, element: u64) -> Option<u64> {
    u64::try_from(elements).ok()?.checked_mul(element).filter(|bytes| *bytes <= BYTES_LIMIT)
}

fn too_large(binder: &Binder<'_, '_>, r#type: &Type, tensor: usize) -> BindError {
    let sizes = binder.sizes_text(r#type.shape.iter().copied());
    let is_chosen = !sizes.is_empty() && !binder.is_example();
    BindError::TensorTooLarge {
        location: binder.tensor_name(tensor),
        dtype: r#type.dtype.name(),
        shape: binder.shape_text(&r#type.shape),
        sizes,
        is_chosen,
        origin: binder.origin(),
    }
}

fn spread_too_large(binder: &Binder<'_, '_>, r#type: &Type, tensor: usize, field: String, sizes: &[Size]) -> BindError {
    let sizes = binder.sizes_text(r#type.shape.iter().chain(sizes).copied());
    let is_chosen = !sizes.is_empty() && !binder.is_example();
    BindError::SpreadTooLarge {
        location: binder.tensor_name(tensor),
        field,
        dtype: r#type.dtype.name(),
        shape: binder.shape_text(&r#type.shape),
        sizes,
        is_chosen,
        origin: binder.origin(),
    }
}
