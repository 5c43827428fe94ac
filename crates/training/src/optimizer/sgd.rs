//! SGD, with and without momentum.

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_graph::layout::Layout;

use super::list::{List, groups};
use super::{Algorithm, Route, State, Work};

pub struct Sgd {
    pub has_momentum: bool,
    pub is_nesterov: bool,
}

impl Algorithm for Sgd {
    /// The update itself makes the momentum, as a copy of the gradient.
    fn make_state(&self, _context: &mut Context, _tensor: &Tensor, _gradient: &Layout) -> State {
        State::new()
    }

    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>) {
        match route {
            Route::Foreach => self.foreach(context, work),
            Route::ForLoop => self.for_loop(context, work),
            Route::Fused if self.has_momentum => {
                for item in &work.items {
                    make_momentum(context, work.state, item);
                }
            }
            Route::Fused => {}
        }
    }
}

/// Makes the momentum of a weight that has none yet.
fn make_momentum(context: &mut Context, state: &mut [Option<State>], item: &super::list::Item) {
    let state = state[item.index].get_or_insert_default();
    if state.is_empty() {
        context.memory().borrow_mut().set_category(Category::Optimizer);
        state.push(context.storage(item.layout.bytes()));
        context.memory().borrow_mut().set_category(Category::Temporary);
    }
}

impl Sgd {
    fn foreach(&self, context: &mut Context, work: &mut Work<'_>) {
        let mut gradients = None;
        for group in groups(&work.items) {
            drop(gradients.take());
            if work.adds_decay {
                gradients = Some(List::like(context, &group));
            }
            if self.has_momentum {
                for item in &group {
                    make_momentum(context, work.state, item);
                }
                if !self.is_nesterov {
                    drop(gradients.take());
                }
            }
        }
    }

    fn for_loop(&self, context: &mut Context, work: &mut Work<'_>) {
        let mut gradient = None;
        for item in &work.items {
            drop(gradient.take());
            if work.adds_decay {
                gradient = Some(item.like(context));
            }
            if self.has_momentum {
                make_momentum(context, work.state, item);
                if self.is_nesterov {
                    gradient = Some(item.like(context));
                } else {
                    drop(gradient.take());
                }
            }
        }
    }
}
