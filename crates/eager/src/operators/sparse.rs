//! Sparse gradients: taken apart and put together, and what other operators do with them.
//!
//! A kernel that adds sparse rows to a dense tensor takes no memory.

use smallvec::{SmallVec, smallvec};

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use crate::autograd::{Context, Distinct, Rows, Tensor, append, coalesced};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

const fn of_sparse(rule: Rule) -> Facts {
    Facts { memory: Modelled(rule), sparse: Modelled(rule), ..FAMILY }
}

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(&["vramfit.coalesce"], of_sparse(coalesce)),
    Operator::new(&["aten._indices.default"], Facts { launch: Launch::Nothing, ..of_sparse(indices) }),
    Operator::new(&["aten._values.default"], Facts { launch: Launch::Nothing, ..of_sparse(values) }),
    Operator::new(&["aten.sparse_coo_tensor.indices_size"], of_sparse(made)),
    Operator::new(&["aten.sparse_mask.default"], of_sparse(masked)),
    Operator::new(&["aten._to_dense.default"], of_sparse(dense)),
];

/// The rows of a sparse argument.
fn rows_of(call: &Call<'_>, index: usize) -> Result<Rows, Unmodelled> {
    call.tensor(index)?.rows().map(|rows| rows.borrow().clone()).ok_or(Unmodelled)
}

/// `coalesce(self, distinct, is_certain)`: how many different rows there are, where that is known, and whether another run has as many.
fn coalesce(context: &mut Context, call: &Call<'_>) -> Outcome {
    let distinct = match (call.int(1), call.bool(2)?) {
        (Ok(distinct), true) => Distinct::Always(distinct),
        (Ok(distinct), false) => Distinct::Once(distinct),
        (Err(_), _) => Distinct::Unknown,
    };
    let layout = call.tensor(0)?.shared_layout();
    let rows = coalesced(context, &rows_of(call, 0)?, &layout, distinct);
    Ok(smallvec![Tensor::sparse(rows, layout)])
}

fn indices(_context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![rows_of(call, 0)?.indices.detach()])
}

fn values(_context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![rows_of(call, 0)?.values.detach()])
}

/// `sparse_coo_tensor(indices, values, size)`: on the memory of both.
fn made(context: &mut Context, call: &Call<'_>) -> Outcome {
    context.has_met_sparse = true;
    let rows = Rows { values: call.tensor(1)?.detach(), indices: call.tensor(0)?.detach() };
    Ok(smallvec![Tensor::sparse(rows, call.result(0)?)])
}

/// `sparse_mask(self, mask)`: ones where the mask has rows, times the rows of `self`.
fn masked(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, mask) = (call.tensor(0)?, rows_of(call, 1)?);
    if source.is_sparse() {
        return Err(Unmodelled);
    }
    if mask.count() == 0 {
        return Ok(smallvec![Tensor::sparse(mask.none(context), source.shared_layout())]);
    }
    let one = context.empty_contiguous(mask.values.dtype(), &[1]);
    let picked = context.empty_contiguous(source.dtype(), mask.values.shape());
    let rows = mask.like(context);
    drop(picked);
    drop(one);
    Ok(smallvec![Tensor::sparse(rows, source.shared_layout())])
}

fn dense(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    Ok(smallvec![context.empty_contiguous(source.dtype(), source.shape())])
}

/// The first argument, in which nothing is new.
pub(super) fn same(_context: &mut Context, call: &Call<'_>) -> Outcome {
    Ok(smallvec![call.tensor(0)?.clone()])
}

/// Puts other rows into a sparse tensor.
fn replace(tensor: &Tensor, rows: impl FnOnce(&Rows) -> Rows) {
    let Some(held) = tensor.rows() else { return };
    let before = held.borrow().clone();
    let new = rows(&before);
    drop(held.replace(new));
    drop(before);
}

/// `zero_()`: no rows are left.
pub(super) fn clear(context: &mut Context, call: &Call<'_>) -> Outcome {
    let target = call.tensor(0)?;
    replace(target, |rows| rows.none(context));
    Ok(smallvec![target.clone()])
}

/// `clone()`, and operators that change the values of a copy.
pub(super) fn copied(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    Ok(smallvec![Tensor::sparse(rows_of(call, 0)?.copied(context), source.shared_layout())])
}

/// Times a number.
pub(super) fn multiplied(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    if call.optional_tensor(1).is_some_and(|factor| factor.is_sparse() || !factor.shape().is_empty()) {
        return Err(Unmodelled);
    }
    Ok(smallvec![Tensor::sparse(rows_of(call, 0)?.like(context), source.shared_layout())])
}

/// The same, in place: the product is new, and takes the place of what was there.
pub(super) fn multiply_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let target = call.tensor(0)?;
    if !target.is_sparse() || call.optional_tensor(1).is_some_and(|factor| !factor.shape().is_empty()) {
        return Err(Unmodelled);
    }
    replace(target, |rows| rows.like(context));
    Ok(smallvec![target.clone()])
}

/// `self += alpha * other`, where `other` is sparse.
pub(super) fn add_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (target, other) = (call.tensor(0)?, call.tensor(1)?);
    add_to(context, target, other)?;
    Ok(smallvec![target.clone()])
}

fn add_to(context: &mut Context, target: &Tensor, other: &Tensor) -> Result<(), Unmodelled> {
    if target.is_sparse() && !other.is_sparse() {
        return Err(Unmodelled);
    }
    append(context, target, other);
    Ok(())
}

/// Lists, one by one.
pub(super) fn add_lists_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    for (target, other) in call.tensor_list(0)?.into_iter().zip(call.tensor_list(1)?) {
        add_to(context, target, other)?;
    }
    Ok(smallvec![])
}

pub(super) fn multiply_list_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    for target in call.tensor_list(0)? {
        replace(target, |rows| rows.like(context));
    }
    Ok(smallvec![])
}

pub(super) fn copied_list(context: &mut Context, call: &Call<'_>) -> Outcome {
    let list = call.tensor_list(0)?;
    let copies = list.into_iter().map(|source| match source.rows().map(|rows| rows.borrow().clone()) {
        Some(rows) => Tensor::sparse(rows.copied(context), source.shared_layout()),
        None => context.empty(source.like(source.dtype())),
    });
    Ok(copies.collect::<SmallVec<[Tensor; 1]>>())
}
