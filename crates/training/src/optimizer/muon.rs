//! Muon: momentum, made orthogonal by five Newton-Schulz iterations in bfloat16.

use smallvec::smallvec;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::adafactor::norm;
use super::list::Item;
use super::{Algorithm, Route, State, Work};

/// `ns_steps`.
const ITERATIONS: u32 = 5;

pub struct Muon;

impl Algorithm for Muon {
    fn make_state(&self, context: &mut Context, _tensor: &Tensor, gradient: &Layout) -> State {
        smallvec![context.storage(gradient.like(gradient.dtype).bytes())]
    }

    fn step(&self, context: &mut Context, _route: Route, work: &mut Work<'_>) {
        let mut update = None;
        for item in &work.items {
            let interpolated = item.like(context);
            // The update of the weight before is freed only when its name is bound again.
            drop(update.take());
            let orthogonal = orthogonalize(context, item, &interpolated);
            drop(interpolated);
            update = Some(orthogonal);
        }
    }
}

/// `_zeropower_via_newtonschulz`.
fn orthogonalize(context: &mut Context, item: &Item, update: &Tensor) -> Tensor {
    let dtype = Dtype::Bfloat16;
    let mut result = if item.layout.dtype == dtype { update.clone() } else { context.empty(item.layout.like(dtype)) };
    let total = norm(context, &result, &[], false);
    let clamped = context.empty_contiguous(dtype, &[]);
    drop(total);
    drop(clamped);
    let (rows, columns) = (item.layout.shape[0], item.layout.shape[1]);
    let (short, long) = (rows.min(columns), rows.max(columns));
    let mut squares: [Option<Tensor>; 2] = [None, None];
    for _ in 0..ITERATIONS {
        for square in &mut squares {
            // Each name holds its tensor until the new one has been computed.
            let new = context.empty_contiguous(dtype, &[short, short]);
            context.use_blas();
            *square = Some(new);
        }
        let new = context.empty_contiguous(dtype, &[short, long]);
        context.use_blas();
        result = new;
    }
    for square in squares {
        drop(square);
    }
    result
}
