//! Adafactor: a row and a column of factors instead of the second moment.

use smallvec::smallvec;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::kernels::reduce::Reduction;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use super::list::{Item, List, groups};
use super::{Algorithm, Route, State, Work};

pub struct Adafactor;

impl Algorithm for Adafactor {
    fn make_state(&self, context: &mut Context, _tensor: &Tensor, gradient: &Layout) -> State {
        if gradient.shape.len() <= 1 {
            return smallvec![context.storage(gradient.like(gradient.dtype).bytes())];
        }
        let along = |from_end| Layout::contiguous(gradient.dtype, &reduced(gradient, from_end)).bytes();
        smallvec![context.storage(along(1)), context.storage(along(2))]
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        match route {
            Route::Foreach => foreach(context, work),
            _ => for_loop(context, work),
        }
    }
}

/// The shape with the dimension `from_end` reduced to 1.
fn reduced(layout: &Layout, from_end: usize) -> Dims {
    let mut shape = layout.shape.clone();
    let dim = shape.len() - from_end;
    shape[dim] = 1;
    shape
}

/// `tensor.norm(2)`, over all dimensions or over one.
pub(super) fn norm(context: &mut Context, tensor: &Tensor, dims: &[i64], keeps_dims: bool) -> Tensor {
    let dtype = tensor.dtype();
    context.reduce(tensor, dims, keeps_dims, dtype, Reduction::summing(dtype))
}

/// `.norm(2).item()` of a tensor of this layout.
fn norm_value(context: &mut Context, layout: &Layout) {
    drop(norm(context, &Tensor::on_host(layout.clone()), &[], false));
}

fn norm_along(context: &mut Context, item: &Item, dim: i64) -> Tensor {
    norm(context, &Tensor::on_host(item.layout.clone()), &[dim], true)
}

/// `row @ column`.
fn product(context: &mut Context, item: &Item) -> Tensor {
    let result = context.empty_contiguous(item.layout.dtype, &item.layout.shape);
    context.use_blas();
    result
}

/// `row.mean(dim=-2, keepdim=True)`.
fn row_mean_of(context: &mut Context, item: &Item) -> Tensor {
    let row = Tensor::on_host(Layout::contiguous(item.layout.dtype, &reduced(&item.layout, 1)));
    context.sum(&row, &[-2], true, item.layout.dtype)
}

fn for_loop(context: &mut Context, work: &Work<'_>) {
    let (mut row_mean, mut column_mean, mut squares, mut update) = (None, None, None, None);
    for item in &work.items {
        norm_value(context, &item.layout);
        let estimate = if item.layout.shape.len() > 1 {
            row_mean = Some(norm_along(context, item, -1));
            column_mean = Some(norm_along(context, item, -2));
            let estimate = product(context, item);
            drop(row_mean_of(context, item));
            estimate
        } else {
            squares = Some(item.like(context));
            item.like(context)
        };
        // The estimate becomes the update in place; the update before is freed only now.
        update = Some(estimate);
        norm_value(context, &item.layout);
    }
    drop(row_mean);
    drop(column_mean);
    drop(squares);
    drop(update);
}

fn foreach(context: &mut Context, work: &Work<'_>) {
    let mut updates = None;
    for group in matrices_and_vectors(&work.items) {
        for item in &group {
            norm_value(context, &item.layout);
        }
        let estimates = if group[0].layout.shape.len() > 1 {
            drop(List(group.iter().map(|item| norm_along(context, item, -1)).collect()));
            drop(List(group.iter().map(|item| norm_along(context, item, -2)).collect()));
            let estimates = List(group.iter().map(|item| product(context, item)).collect());
            drop(List(group.iter().map(|item| row_mean_of(context, item)).collect()));
            estimates
        } else {
            drop(List::like(context, &group));
            List(group.iter().map(|item| item.like(context)).collect())
        };
        updates = Some(estimates);
        for item in &group {
            norm_value(context, &item.layout);
        }
    }
    drop(updates);
}

/// The groups, each divided into matrices and vectors, whichever comes first.
fn matrices_and_vectors(items: &[Item]) -> Vec<Vec<&Item>> {
    let mut divided = Vec::new();
    for group in groups(items) {
        let is_matrix = |item: &&Item| item.layout.shape.len() > 1;
        let starts_with_matrix = is_matrix(&group[0]);
        let (matrices, vectors): (Vec<&Item>, Vec<&Item>) = group.into_iter().partition(is_matrix);
        let parts = if starts_with_matrix { [matrices, vectors] } else { [vectors, matrices] };
        divided.extend(parts.into_iter().filter(|part| !part.is_empty()));
    }
    divided
}
