//! Optimizers: the state they keep and what a step allocates on the way, as `torch.optim` runs it.
//!
//! Each file follows one optimizer's Python functions: when a name is bound again the old list goes, at the end the
//! function's locals go in the order in which they were first named, and a list lets go of its tensors from its end.

mod adadelta;
mod adafactor;
mod adagrad;
mod adam;
mod adamax;
pub mod clip;
mod list;
mod nadam;
mod radam;
mod rmsprop;
pub mod scaler;
mod sgd;

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

use vramfit_eager::autograd::Context;
use vramfit_eager::autograd::Tensor;
use vramfit_eager::memory::{Category, Storage};
use vramfit_graph::layout::Layout;

use list::Item;

/// A weight and its gradient. Frozen weights never have one.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The weight.
    pub tensor: Tensor,
    /// Its gradient.
    pub gradient: Rc<RefCell<Option<Tensor>>>,
}

impl Parameter {
    /// The gradient's layout, where there is one.
    fn gradient_layout(&self) -> Option<Rc<Layout>> {
        self.gradient.borrow().as_ref().map(Tensor::shared_layout)
    }
}

/// Which optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `torch.optim.SGD`.
    Sgd,
    /// `torch.optim.SGD` with momentum.
    Momentum,
    /// `torch.optim.SGD` with Nesterov's momentum.
    Nesterov,
    /// `torch.optim.Adam`.
    Adam,
    /// `torch.optim.AdamW`.
    AdamW,
    /// `torch.optim.Adam` with `amsgrad=True`.
    Amsgrad,
    /// `torch.optim.RMSprop`.
    RmsProp,
    /// `torch.optim.Adagrad`.
    Adagrad,
    /// `torch.optim.Adadelta`.
    Adadelta,
    /// `torch.optim.Adamax`.
    Adamax,
    /// `torch.optim.NAdam`.
    NAdam,
    /// `torch.optim.RAdam`.
    RAdam,
    /// `torch.optim.Adafactor`.
    Adafactor,
    /// None: gradients are left as they are.
    None,
}

impl Kind {
    /// All of them, by the names the command line gives them.
    pub const NAMES: [(&'static str, Kind); 14] = [
        ("adamw", Kind::AdamW),
        ("adam", Kind::Adam),
        ("sgd", Kind::Sgd),
        ("momentum", Kind::Momentum),
        ("nesterov", Kind::Nesterov),
        ("amsgrad", Kind::Amsgrad),
        ("rmsprop", Kind::RmsProp),
        ("adagrad", Kind::Adagrad),
        ("adadelta", Kind::Adadelta),
        ("adamax", Kind::Adamax),
        ("nadam", Kind::NAdam),
        ("radam", Kind::RAdam),
        ("adafactor", Kind::Adafactor),
        ("none", Kind::None),
    ];

    /// The optimizer of this name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// How an optimizer goes over its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Implementation {
    /// What `torch.optim` chooses on a GPU.
    #[default]
    Default,
    /// Operators over lists.
    Foreach,
    /// One kernel.
    Fused,
    /// One weight after another.
    ForLoop,
}

impl Implementation {
    /// All of them, by the names the command line gives them.
    pub const NAMES: [(&'static str, Implementation); 4] = [
        ("default", Implementation::Default),
        ("foreach", Implementation::Foreach),
        ("fused", Implementation::Fused),
        ("for-loop", Implementation::ForLoop),
    ];

    /// The implementation of this name.
    pub fn named(name: &str) -> Option<Implementation> {
        Implementation::NAMES.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Implementation::NAMES.iter().find(|(_, found)| *found == self).map_or("", |(name, _)| name)
    }
}

/// An optimizer and its arguments, as far as memory depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Which.
    pub kind: Kind,
    /// How it goes over its weights.
    pub implementation: Implementation,
    /// Whether weight decay is added to the gradients. AdamW's own does not need memory and counts as none.
    pub adds_decay: bool,
}

impl Recipe {
    /// With `torch.optim`'s default arguments.
    pub fn new(kind: Kind, implementation: Implementation) -> Recipe {
        Recipe { kind, implementation, adds_decay: false }
    }

    /// Whether `torch.optim` has this optimizer in this implementation on a GPU.
    pub fn exists(self) -> bool {
        use Kind::{Adam, AdamW, Amsgrad, Momentum, Nesterov, None, Sgd};
        self.implementation != Implementation::Fused
            || matches!(self.kind, Sgd | Momentum | Nesterov | Adam | AdamW | Amsgrad | None)
    }

    /// Whether the step divides by a GradScaler's scale itself.
    fn scales_itself(self) -> bool {
        self.implementation == Implementation::Fused && self.kind != Kind::None
    }
}

/// How a step goes over the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Foreach,
    Fused,
    ForLoop,
}

/// The tensors that are kept for one weight; nothing but their memory is asked of them.
type State = SmallVec<[Storage; 3]>;

/// What one optimizer does in a step.
trait Algorithm {
    /// State that is made for a weight before its first step; `gradient` is the gradient's layout.
    fn make_state(&self, context: &mut Context, tensor: &Tensor, gradient: &Layout) -> State;

    /// Whether that state is made in the constructor, for all weights.
    fn makes_state_at_once(&self) -> bool {
        false
    }

    /// The step over all weights that have a gradient.
    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>);

    /// Whether the steps with these numbers, from 1, ask for the same where the state is the same.
    fn is_alike(&self, _one: u32, _other: u32) -> bool {
        true
    }
}

/// What a step works on.
struct Work<'a> {
    /// The weights that have a gradient.
    items: Vec<Item>,
    /// The state of every weight.
    state: &'a mut [Option<State>],
    /// Which step this is, from 1.
    step: u32,
    /// Whether weight decay is added to the gradients.
    adds_decay: bool,
}

/// An optimizer with its state.
pub struct Optimizer {
    recipe: Recipe,
    algorithm: Option<Box<dyn Algorithm>>,
    state: Vec<Option<State>>,
    steps: u32,
}

impl Optimizer {
    /// As the optimizer's constructor.
    pub fn new(context: &mut Context, recipe: Recipe, parameters: &[Parameter]) -> Optimizer {
        let is_fused = recipe.implementation == Implementation::Fused;
        let algorithm: Option<Box<dyn Algorithm>> = match recipe.kind {
            Kind::Sgd => Some(Box::new(sgd::Sgd { has_momentum: false, is_nesterov: false })),
            Kind::Momentum => Some(Box::new(sgd::Sgd { has_momentum: true, is_nesterov: false })),
            Kind::Nesterov => Some(Box::new(sgd::Sgd { has_momentum: true, is_nesterov: true })),
            Kind::Adam | Kind::AdamW => Some(Box::new(adam::Adam { moments: 2, is_fused })),
            Kind::Amsgrad => Some(Box::new(adam::Adam { moments: 3, is_fused })),
            Kind::RmsProp => Some(Box::new(rmsprop::RmsProp)),
            Kind::Adagrad => Some(Box::new(adagrad::Adagrad)),
            Kind::Adadelta => Some(Box::new(adadelta::Adadelta)),
            Kind::Adamax => Some(Box::new(adamax::Adamax)),
            Kind::NAdam => Some(Box::new(nadam::NAdam)),
            Kind::RAdam => Some(Box::new(radam::RAdam)),
            Kind::Adafactor => Some(Box::new(adafactor::Adafactor)),
            Kind::None => None,
        };
        let state = parameters.iter().map(|_| None).collect();
        let mut optimizer = Optimizer { recipe, algorithm, state, steps: 0 };
        if let Some(algorithm) = optimizer.algorithm.as_deref().filter(|algorithm| algorithm.makes_state_at_once()) {
            context.memory().borrow_mut().set_category(Category::Optimizer);
            for (parameter, state) in parameters.iter().zip(&mut optimizer.state) {
                *state = Some(algorithm.make_state(context, &parameter.tensor, parameter.tensor.layout()));
            }
        }
        optimizer
    }

    /// As `optimizer.step()`.
    pub fn step(&mut self, context: &mut Context, parameters: &[Parameter]) {
        let Some(algorithm) = self.algorithm.as_deref() else { return };
        self.steps += 1;
        context.memory().borrow_mut().set_category(Category::Optimizer);
        let mut items = Vec::with_capacity(parameters.len());
        for (index, parameter) in parameters.iter().enumerate() {
            let gradient = parameter.gradient.borrow();
            let Some(gradient) = gradient.as_ref() else { continue };
            let state = &mut self.state[index];
            if state.is_none() {
                *state = Some(algorithm.make_state(context, &parameter.tensor, gradient.layout()));
            }
            items.push(Item { index, layout: gradient.like(gradient.dtype()) });
        }
        context.memory().borrow_mut().set_category(Category::Temporary);
        let route = match (self.recipe.implementation, self.recipe.kind) {
            (Implementation::Fused, _) => Route::Fused,
            (Implementation::ForLoop, _) | (Implementation::Default, Kind::Adafactor) => Route::ForLoop,
            _ => Route::Foreach,
        };
        let mut work = Work { items, state: &mut self.state, step: self.steps, adds_decay: self.recipe.adds_decay };
        algorithm.step(context, route, &mut work);
    }

    /// Whether every step from `first` to `last`, counted from 1, asks for the same where the state is the same.
    pub fn steps_alike(&self, first: u32, last: u32) -> bool {
        let Some(algorithm) = self.algorithm.as_deref() else { return true };
        (first..=last).all(|step| algorithm.is_alike(first, step))
    }

    /// The memory of the tensors it keeps, weight by weight.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Storage> {
        self.state.iter().flatten().flatten()
    }

    /// For which weights it keeps any.
    pub(crate) fn has_state(&self) -> impl Iterator<Item = Option<usize>> {
        self.state.iter().map(|state| state.as_ref().map(SmallVec::len))
    }

    /// Whether the step divides by a GradScaler's scale itself.
    pub fn scales_itself(&self) -> bool {
        self.recipe.scales_itself()
    }
}

/// As many tensors like a weight.
fn zeros_like(context: &mut Context, tensor: &Tensor, count: usize) -> State {
    let bytes = tensor.like(tensor.dtype()).bytes();
    (0..count).map(|_| context.piece(bytes)).collect()
}

/// As `optimizer.zero_grad(set_to_none)`: gradients go in the order of the weights, or become zeros where they are.
pub fn zero_grad(parameters: &[Parameter], sets_to_none: bool) {
    if sets_to_none {
        for parameter in parameters {
            parameter.gradient.borrow_mut().take();
        }
    }
}
