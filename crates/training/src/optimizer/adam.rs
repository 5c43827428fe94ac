//! Adam, AdamW and AMSGrad.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work, zeros_like};

pub struct Adam {
    /// The number of moments: three with AMSGrad.
    pub moments: usize,
    /// Whether it is fused: then the step counters are on the GPU.
    pub is_fused: bool,
}

impl Algorithm for Adam {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        let steps = self.is_fused.then(|| context.storage(Dtype::Float32.bytes()));
        let mut state = zeros_like(context, tensor, self.moments);
        if let Some(steps) = steps {
            state.insert(0, steps);
        }
        state
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        match route {
            Route::Fused => {}
            Route::Foreach => {
                let mut roots = None;
                for group in groups(&work.items) {
                    drop(work.adds_decay.then(|| List::like(context, &group)));
                    roots = Some(List::like(context, &group));
                }
                drop(roots);
            }
            Route::ForLoop => {
                let (mut gradient, mut denominator) = (None, None);
                for item in &work.items {
                    drop(gradient.take());
                    if work.adds_decay {
                        gradient = Some(item.like(context));
                    }
                    let root = item.like(context);
                    let quotient = item.like(context);
                    drop(root);
                    denominator = Some(quotient);
                }
                drop(gradient);
                drop(denominator);
            }
        }
    }
}
