//! Adagrad.

use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

pub struct Adagrad;

impl Algorithm for Adagrad {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        zeros_like(context, tensor, 1)
    }

    fn makes_state_at_once(&self) -> bool {
        true
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        if route == Route::Foreach {
            let (mut gradients, mut deviations, mut numerators) = (None, None, None);
            for group in groups(&work.items) {
                drop(gradients.take());
                if work.adds_decay {
                    gradients = Some(Rc::new(List::like(context, &group)));
                }
                deviations = Some(List::like(context, &group));
                // With weight decay the gradients are new tensors already and are multiplied in place.
                numerators = Some(match &gradients {
                    Some(gradients) => Rc::clone(gradients),
                    None => Rc::new(List::like(context, &group)),
                });
            }
            drop(gradients);
            drop(deviations);
            drop(numerators);
            return;
        }
        let (mut gradient, mut deviation) = (None, None);
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            deviation = Some(item.like(context));
        }
        drop(gradient);
        drop(deviation);
    }
}
