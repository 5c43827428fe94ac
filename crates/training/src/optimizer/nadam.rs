//! NAdam.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

pub struct NAdam;

impl Algorithm for NAdam {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        zeros_like(context, tensor, 2)
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        if route == Route::Foreach {
            let (mut gradients, mut roots) = (None, None);
            for group in groups(&work.items) {
                drop(gradients.take());
                if work.adds_decay {
                    gradients = Some(List::like(context, &group));
                }
                roots = Some(List::like(context, &group));
            }
            drop(gradients);
            drop(roots);
            return;
        }
        let (mut gradient, mut denominator) = (None, None);
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            let quotient = item.like(context);
            let root = item.like(context);
            drop(quotient);
            denominator = Some(root);
        }
        drop(gradient);
        drop(denominator);
    }
}
