//! Hooks that update weights in the backward pass.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_eager::autograd::Context;
use vramfit_eager::autograd::engine::GradientHook;
use vramfit_eager::memory::{Category, OUTSIDE_MODEL};

use crate::optimizer::{Optimizer, Parameter};

/// By number of the weight, the optimizer that updates it in the backward pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Hooks(Vec<Option<usize>>);

impl Hooks {
    /// Has an optimizer update a weight.
    pub fn set(&mut self, weight: usize, optimizer: usize) {
        if self.0.len() <= weight {
            self.0.resize(weight + 1, None);
        }
        self.0[weight] = Some(optimizer);
    }

    /// Whether an optimizer updates a weight.
    pub fn has(&self, optimizer: usize) -> bool {
        self.0.contains(&Some(optimizer))
    }
}

/// The weights of a model, and all optimizers.
type Held = (Vec<Parameter>, Vec<Option<Optimizer>>);

/// Weights and optimizers, in the hands of the hooks while a backward pass runs.
pub(super) struct Hooked(Rc<RefCell<Held>>);

impl Hooked {
    /// Hands weights and optimizers to the hooks; `None` where there are none.
    pub fn install(
        context: &mut Context,
        hooks: &Hooks,
        parameters: &mut Vec<Parameter>,
        optimizers: &mut Vec<Option<Optimizer>>,
    ) -> Option<Hooked> {
        if hooks.0.is_empty() {
            return None;
        }
        let held = Rc::new(RefCell::new((std::mem::take(parameters), std::mem::take(optimizers))));
        let (hooks, shared) = (hooks.clone(), Rc::clone(&held));
        context.gradient_hook = Some(GradientHook(Rc::new(move |context: &mut Context, leaf: u32| {
            let Some(Some(optimizer)) = hooks.0.get(leaf as usize) else { return };
            let (parameters, optimizers) = &mut *shared.borrow_mut();
            let Some(optimizer) = &mut optimizers[*optimizer] else { return };
            let origin = context.memory().borrow().origin();
            context.memory().borrow_mut().set_origin(OUTSIDE_MODEL);
            optimizer.step(context, parameters);
            optimizer.zero_grad(parameters, true);
            context.memory().borrow_mut().set_origin(origin);
            context.memory().borrow_mut().set_category(Category::Temporary);
        })));
        Some(Hooked(held))
    }

    /// Takes them back.
    pub fn remove(self, context: &mut Context) -> Held {
        context.gradient_hook = None;
        self.0.take()
    }
}
