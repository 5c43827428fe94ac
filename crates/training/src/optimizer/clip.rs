//! `torch.nn.utils.clip_grad_norm_`.

use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::operators::foreach_norms;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::adafactor::norm;
use super::list::{Item, List, groups};
use super::{Category, Parameter};

/// `clip_grad_norm_(parameters, max_norm)`, its result dropped. The norms of sharded gradients are reduced over the ranks.
pub fn clip_grad_norm(context: &mut Context, parameters: &[Parameter], is_sharded: bool) {
    let items: Vec<Item> = parameters
        .iter()
        .enumerate()
        .filter_map(|(index, parameter)| Some(Item { index, layout: parameter.gradient_layout()? }))
        .collect();
    if items.is_empty() {
        return;
    }
    context.memory().borrow_mut().set_category(Category::Temporary);
    let total = total_norm(context, &items, is_sharded);
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

fn total_norm(context: &mut Context, items: &[Item], is_sharded: bool) -> Tensor {
    let mut norms = List(Vec::new());
    for group in groups(items) {
        let layouts: Vec<Rc<Layout>> = group.iter().map(|item| Rc::clone(&item.layout)).collect();
        norms.0.append(&mut foreach_norms(context, &layouts));
    }
    let dtype = norms.0.iter().map(Tensor::dtype).reduce(promoted).unwrap_or(Dtype::Float32);
    let stacked = context.empty_contiguous(dtype, &[norms.0.len() as i64]);
    let reduced = is_sharded.then(|| reduced_over_ranks(context, &stacked));
    let total = norm(context, &stacked, &[], false);
    drop(reduced);
    drop(stacked);
    total
}

/// The norms over all ranks: their powers are summed.
fn reduced_over_ranks(context: &Context, norms: &Tensor) -> Tensor {
    let like = || context.empty(norms.shared_layout());
    let (powers, sums) = (like(), like());
    let roots = like();
    drop(powers);
    drop(sums);
    roots
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
