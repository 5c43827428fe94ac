//! RAdam.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

/// The default decay of the second moment.
const BETA: f64 = 0.999;

pub struct RAdam;

impl Algorithm for RAdam {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        zeros_like(context, tensor, 2)
    }

    fn is_alike(&self, one: u32, other: u32) -> bool {
        is_rectified(one) == is_rectified(other)
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        if route == Route::Foreach {
            let mut buffers = None;
            for group in groups(&work.items) {
                drop(work.adds_decay.then(|| List::like(context, &group)));
                buffers = Some(List::like(context, &group));
            }
            drop(buffers);
            return;
        }
        let (mut gradient, mut corrected) = (None, None);
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            corrected = Some(item.like(context));
            let scaled = item.like(context);
            if is_rectified(work.step) {
                let root = item.like(context);
                let reciprocal = item.like(context);
                let rate = item.like(context);
                drop(reciprocal);
                drop(root);
                let product = item.like(context);
                drop(scaled);
                drop(rate);
                let rectified = item.like(context);
                drop(product);
                drop(rectified);
            }
        }
        drop(gradient);
        drop(corrected);
    }
}

/// Whether the variance is rectified in this step: from the sixth on.
fn is_rectified(step: u32) -> bool {
    let limit = 2.0 / (1.0 - BETA) - 1.0;
    let power = BETA.powf(f64::from(step));
    limit - 2.0 * f64::from(step) * power / (1.0 - power) > 5.0
}

#[cfg(test)]
mod tests {
    use super::is_rectified;

    #[test]
    fn the_sixth_step_is_the_first_to_be_rectified() {
        assert!(!is_rectified(5));
        assert!(is_rectified(6));
    }
}
