//! Adadelta.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

pub struct Adadelta;

impl Algorithm for Adadelta {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        zeros_like(context, tensor, 2)
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        if route == Route::Foreach {
            let (mut gradients, mut deviations, mut deltas) = (None, None, None);
            for group in groups(&work.items) {
                drop(gradients.take());
                if work.adds_decay {
                    gradients = Some(List::like(context, &group));
                }
                deviations = Some(List::like(context, &group));
                deltas = Some(List::like(context, &group));
            }
            drop(gradients);
            drop(deviations);
            drop(deltas);
            return;
        }
        let (mut gradient, mut deviation, mut delta) = (None, None, None);
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            deviation = Some(item.like(context));
            delta = Some(item.like(context));
        }
        drop(gradient);
        drop(deviation);
        drop(delta);
    }
}
