//! Adamax.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

pub struct Adamax;

impl Algorithm for Adamax {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        zeros_like(context, tensor, 2)
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        if route == Route::Foreach {
            let mut gradients = None;
            for group in groups(&work.items) {
                drop(gradients.take());
                // With weight decay the gradients are new tensors already and take their absolute values in place;
                // without, the absolute values are new tensors.
                gradients = Some(List::like(context, &group));
            }
            drop(gradients);
            return;
        }
        let mut gradient = None;
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            drop(item.like(context));
        }
        drop(gradient);
    }
}
