//! RMSprop.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

pub struct RmsProp;

impl Algorithm for RmsProp {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        zeros_like(context, tensor, 1)
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        if route == Route::Foreach {
            let (mut gradients, mut averages) = (None, None);
            for group in groups(&work.items) {
                drop(gradients.take());
                if work.adds_decay {
                    gradients = Some(List::like(context, &group));
                }
                averages = Some(List::like(context, &group));
            }
            drop(gradients);
            drop(averages);
            return;
        }
        let (mut gradient, mut average) = (None, None);
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            average = Some(item.like(context));
        }
        drop(gradient);
        drop(average);
    }
}
