//! The hooks on every module, as `_register_deepspeed_module` registers them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use vramfit_eager::autograd::{Backward, Context, Gradients, Node, Saved, Tensor};
use vramfit_eager::forward::ModuleHooks;
use vramfit_eager::memory::Category;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;

use super::coordinator::Coordinator;
use super::trace::Weights;

type Shared = Rc<RefCell<Coordinator>>;
/// By module: how many of its inputs still wait for their gradients.
type Waiting = Rc<RefCell<HashMap<u32, i32>>>;

pub(in crate::process) struct Hooks {
    coordinator: Shared,
    /// The modules that were there when the engine was made.
    is_hooked: Vec<bool>,
    waiting: Waiting,
    /// What open modules were given, before hooks gave them other tensors.
    given: RefCell<Vec<Vec<(TensorId, Tensor)>>>,
}

impl Hooks {
    pub(super) fn new(bound: &Bound<'_>, coordinator: &Shared) -> Hooks {
        Hooks {
            coordinator: Rc::clone(coordinator),
            is_hooked: bound.model.modules.iter().map(|module| module.path.is_some()).collect(),
            waiting: Rc::default(),
            given: RefCell::default(),
        }
    }

    fn has(&self, module: u32) -> bool {
        self.is_hooked.get(module as usize).copied().unwrap_or_default()
    }

    /// Puts a function on a tensor whose backward is called when its gradient comes by.
    fn watch(context: &mut Context, tensor: &Tensor, backward: impl Backward + 'static) -> Option<Tensor> {
        let edge = context.record(&[Some(tensor)], 1, |_| Saved::new(), backward)?;
        Some(tensor.view(tensor.shared_layout()).with_edge(Some(edge)))
    }
}

impl ModuleHooks for Hooks {
    fn entered(&self, context: &mut Context, module: u32, given: &[TensorId], tensors: &mut [Option<Tensor>]) {
        if !self.has(module) {
            return;
        }
        if module == 0 {
            self.coordinator.borrow_mut().begin_pass(context);
        }
        self.coordinator.borrow_mut().fetch(context, module, true);
        let mut originals = Vec::new();
        // Only those of modules with weights of their own free anything.
        if !self.coordinator.borrow().partitioned.of_module(module).is_empty() {
            self.waiting.borrow_mut().insert(module, 0);
            for id in given {
                let slot = &mut tensors[id.0 as usize];
                let Some(tensor) = slot.clone() else { continue };
                let backward = AfterBackward {
                    coordinator: Rc::clone(&self.coordinator),
                    module,
                    waiting: Rc::clone(&self.waiting),
                };
                if let Some(watched) = Hooks::watch(context, &tensor, backward) {
                    *self.waiting.borrow_mut().entry(module).or_default() += 1;
                    *slot = Some(watched);
                    originals.push((*id, tensor));
                }
            }
        }
        self.given.borrow_mut().push(originals);
        context.memory().borrow_mut().set_category(Category::Activations);
    }

    fn left(&self, context: &mut Context, module: u32, results: &[TensorId], tensors: &mut [Option<Tensor>]) {
        if !self.has(module) {
            return;
        }
        self.coordinator.borrow_mut().release_module(module, true);
        for id in results {
            let slot = &mut tensors[id.0 as usize];
            let Some(tensor) = slot.clone() else { continue };
            let backward = BeforeBackward { coordinator: Rc::clone(&self.coordinator), module };
            if let Some(watched) = Hooks::watch(context, &tensor, backward) {
                *slot = Some(watched);
            }
        }
        for (id, original) in self.given.borrow_mut().pop().into_iter().flatten() {
            let slot = &mut tensors[id.0 as usize];
            if slot.is_some() && !results.contains(&id) {
                *slot = Some(original);
            }
        }
        context.memory().borrow_mut().set_category(Category::Activations);
    }

    fn stopped(&self) {
        self.given.borrow_mut().clear();
    }
}

/// `PreBackwardFunctionForModule`, on a module's results.
struct BeforeBackward {
    coordinator: Shared,
    module: u32,
}

impl std::fmt::Debug for BeforeBackward {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "BeforeBackward({})", self.module)
    }
}

impl Backward for BeforeBackward {
    fn apply(&self, context: &mut Context, _: &Node, gradients: &mut Gradients) -> Gradients {
        self.coordinator.borrow_mut().fetch(context, self.module, false);
        context.memory().borrow_mut().set_category(Category::Temporary);
        std::mem::take(gradients)
    }
}

/// `PostBackwardFunctionModule`, on a module's inputs.
struct AfterBackward {
    coordinator: Shared,
    module: u32,
    waiting: Waiting,
}

impl std::fmt::Debug for AfterBackward {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AfterBackward({})", self.module)
    }
}

impl Backward for AfterBackward {
    fn apply(&self, _: &mut Context, _: &Node, gradients: &mut Gradients) -> Gradients {
        let mut waiting = self.waiting.borrow_mut();
        let waiting = waiting.entry(self.module).or_default();
        *waiting -= 1;
        if *waiting == 0 {
            self.coordinator.borrow_mut().release_module(self.module, false);
        }
        std::mem::take(gradients)
    }
}
