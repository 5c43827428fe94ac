//! Adafactor of transformers, with the arguments of its `Trainer`: it computes in float32, weight by weight.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::adafactor::norm;
use super::list::Item;
use super::{Algorithm, Route, State, Work};

pub struct Adafactor;

/// The index of the root mean square in the state of a weight: after the factors of a matrix, or the squares of a vector.
fn root_mean_square_index(layout: &Layout) -> usize {
    if layout.shape.len() > 1 { 2 } else { 1 }
}

impl Algorithm for Adafactor {
    /// The update itself makes the state, because its temporaries come before and after it.
    fn make_state(&self, _context: &mut Context, _tensor: &Tensor, _gradient: &Layout) -> State {
        State::new()
    }

    /// The root mean square of the weight.
    fn replaces_last(&self) -> bool {
        true
    }

    fn step(&self, context: &mut Context, _route: Route, work: &mut Work<'_>) {
        let mut names = Names::default();
        for item in &work.items {
            let state = work.state[item.index].get_or_insert_default();
            update(context, item, state, &mut names);
        }
        let Names { gradient, weight, update } = names;
        drop(gradient);
        drop(weight);
        drop(update);
    }
}

/// The names that hold a tensor from one weight to the next.
#[derive(Default)]
struct Names {
    /// `grad`, where it is a copy.
    gradient: Option<Tensor>,
    /// `p_data_fp32`, where it is a copy.
    weight: Option<Tensor>,
    /// `update`.
    update: Option<Tensor>,
}

/// The update of one weight.
fn update(context: &mut Context, item: &Item, state: &mut State, names: &mut Names) {
    let is_half = matches!(item.layout.dtype, Dtype::Float16 | Dtype::Bfloat16);
    let full = item.layout.like(if is_half { Dtype::Float32 } else { item.layout.dtype });
    names.gradient = None;
    names.gradient = is_half.then(|| context.empty(full.clone()));
    if state.is_empty() {
        context.memory().borrow_mut().set_category(Category::Optimizer);
        *state = factors(&full).iter().map(|factor| context.storage(factor.bytes())).collect();
        context.memory().borrow_mut().set_category(Category::Temporary);
    }
    names.weight = None;
    names.weight = is_half.then(|| context.empty(full.clone()));
    keep_root_mean_square(context, &full, state);
    let squares = context.empty(full.clone());
    let shifted = context.empty(full.clone());
    drop(squares);
    names.update = Some(shifted);
    let estimate = if full.shape.len() > 1 {
        let squares = Tensor::on_host(full.clone());
        drop(context.sum(&squares, &[-1], false, full.dtype));
        drop(context.sum(&squares, &[-2], false, full.dtype));
        product_of_factors(context, &full)
    } else {
        context.empty(full.clone())
    };
    names.update = Some(estimate);
    let root_mean_square = root_mean_square(context, &full);
    let ratio = context.empty_contiguous(full.dtype, &[]);
    drop(root_mean_square);
    drop(ratio);
    drop(context.empty(full));
}

/// The second moment: of a matrix its row and column factors.
fn factors(full: &Layout) -> Vec<Layout> {
    let rank = full.shape.len();
    if rank <= 1 {
        return vec![full.clone()];
    }
    let without = |removed: usize| {
        let kept: Dims = (0..rank).filter(|&dim| dim != removed).map(|dim| full.shape[dim]).collect();
        Layout::contiguous(full.dtype, &kept)
    };
    vec![without(rank - 1), without(rank - 2)]
}

/// `_rms`: the norm over a number.
fn root_mean_square(context: &mut Context, full: &Layout) -> Tensor {
    let norm = norm(context, &Tensor::on_host(full.clone()), &[], false);
    let result = context.empty_contiguous(full.dtype, &[]);
    drop(norm);
    result
}

/// `state["RMS"] = self._rms(p_data_fp32)`: the one of the update before is freed then.
fn keep_root_mean_square(context: &mut Context, full: &Layout, state: &mut State) {
    let norm = norm(context, &Tensor::on_host(full.clone()), &[], false);
    context.memory().borrow_mut().set_category(Category::Optimizer);
    let new = context.storage(full.dtype.bytes());
    context.memory().borrow_mut().set_category(Category::Temporary);
    drop(norm);
    match state.get_mut(root_mean_square_index(full)) {
        Some(old) => *old = new,
        None => state.push(new),
    }
}

/// `_approx_sq_grad`.
fn product_of_factors(context: &mut Context, full: &Layout) -> Tensor {
    let layouts = factors(full);
    let [row, column] = layouts.as_slice() else { return context.empty(full.clone()) };
    let mean = context.sum(&Tensor::on_host(row.clone()), &[-1], true, full.dtype);
    let row_factor = context.empty(row.clone());
    drop(mean);
    let column_factor = context.empty(column.clone());
    let product = context.empty_contiguous(full.dtype, &full.shape);
    drop(row_factor);
    drop(column_factor);
    product
}
