//! `torch.nn.utils.clip_grad_norm_`.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::adafactor::norm;
use super::list::{Item, List, groups};
use super::{Category, Parameter};

/// Elements that one thread block of a `foreach` kernel processes.
const CHUNK: i64 = 65_536;

/// `clip_grad_norm_(parameters, max_norm)`, its result dropped.
pub fn clip_grad_norm(context: &mut Context, parameters: &[Parameter]) {
    let items: Vec<Item> = parameters
        .iter()
        .enumerate()
        .filter_map(|(index, parameter)| Some(Item { index, layout: parameter.gradient_layout()? }))
        .collect();
    if items.is_empty() {
        return;
    }
    context.memory().borrow_mut().set_category(Category::Temporary);
    let total = total_norm(context, &items);
    let dtype = total.dtype();
    let scalar = || context.empty_contiguous(dtype, &[]);
    // max_norm / (total + 1e-6), which Python evaluates as a reciprocal and a product.
    let sum = scalar();
    let reciprocal = scalar();
    let coefficient = scalar();
    drop(reciprocal);
    drop(sum);
    let clamped = scalar();
    drop(coefficient);
    drop(clamped);
    drop(total);
}

fn total_norm(context: &mut Context, items: &[Item]) -> Tensor {
    let mut norms = List(Vec::new());
    for group in groups(items) {
        norms.0.append(&mut norms_of(context, &group).0);
    }
    let dtype = norms.0.iter().map(Tensor::dtype).reduce(promoted).unwrap_or(Dtype::Float32);
    let stacked = context.empty_contiguous(dtype, &[norms.0.len() as i64]);
    let total = norm(context, &stacked, &[], false);
    drop(stacked);
    total
}

/// `_foreach_norm`: a partial sum for each chunk, then a scalar for each tensor; one by one where a tensor is not dense.
fn norms_of(context: &mut Context, group: &[&Item]) -> List<Tensor> {
    let dtype = group[0].layout.dtype;
    if !group.iter().all(|item| item.layout.is_dense()) {
        return List(
            group.iter().map(|item| norm(context, &Tensor::on_host(item.layout.clone()), &[], false)).collect(),
        );
    }
    let chunks = group.iter().map(|item| (item.layout.elements() + CHUNK - 1) / CHUNK).max().unwrap_or(0);
    let sums = context.empty_contiguous(opmath(dtype), &[group.len() as i64 * chunks]);
    let norms = List(group.iter().map(|_| context.empty(Layout::contiguous(dtype, &[]))).collect());
    drop(sums);
    norms
}

/// The type an operator computes in.
fn opmath(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Float16 | Dtype::Bfloat16 => Dtype::Float32,
        other => other,
    }
}

/// The type two floating-point types are stacked in.
fn promoted(one: Dtype, other: Dtype) -> Dtype {
    match one.bytes().cmp(&other.bytes()) {
        std::cmp::Ordering::Greater => one,
        std::cmp::Ordering::Less => other,
        std::cmp::Ordering::Equal if one == other => one,
        std::cmp::Ordering::Equal => Dtype::Float32,
    }
}
