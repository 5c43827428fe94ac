//! Optimizers: their state and what an update allocates, in the order of `torch.optim`.
//!
//! Each file follows one optimizer's Python functions. Binding a name again frees the old list. When a function returns,
//! its locals are freed in the order in which they were first bound. A list frees its tensors from its end.

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

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::{Category, Storage};
use vramfit_graph::layout::Layout;

use list::Item;

/// A weight and its gradient, which frozen weights never have.
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
    /// No optimizer: the gradients stay.
    None,
}

impl Kind {
    /// All optimizers with their names on the command line.
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

    /// The optimizer with this name on the command line.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Which implementation of an optimizer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Implementation {
    /// The one `torch.optim` chooses on a GPU.
    #[default]
    Default,
    /// `foreach=True`: operators over lists of tensors.
    Foreach,
    /// `fused=True`: one kernel for all.
    Fused,
    /// `foreach=False`: one weight after another.
    ForLoop,
}

impl Implementation {
    /// All implementations with their names on the command line.
    pub const NAMES: [(&'static str, Implementation); 4] = [
        ("default", Implementation::Default),
        ("foreach", Implementation::Foreach),
        ("fused", Implementation::Fused),
        ("for-loop", Implementation::ForLoop),
    ];

    /// The implementation with this name on the command line.
    pub fn named(name: &str) -> Option<Implementation> {
        Implementation::NAMES.iter().find(|(known, _)| *known == name).map(|(_, found)| *found)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Implementation::NAMES.iter().find(|(_, found)| *found == self).map_or("", |(name, _)| name)
    }
}

/// An optimizer and those of its arguments that change its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recipe {
    /// Which optimizer.
    pub kind: Kind,
    /// Which implementation of it.
    pub implementation: Implementation,
    /// Whether weight decay is added to the gradients. AdamW's decoupled decay allocates nothing and does not count.
    pub adds_decay: bool,
}

impl Recipe {
    /// An optimizer with the default arguments of `torch.optim`.
    pub fn new(kind: Kind, implementation: Implementation) -> Recipe {
        Recipe { kind, implementation, adds_decay: false }
    }

    /// Whether `torch.optim` has this implementation of the optimizer.
    pub fn exists(self) -> bool {
        use Kind::{Adam, AdamW, Amsgrad, Momentum, Nesterov, None, Sgd};
        self.implementation != Implementation::Fused
            || matches!(self.kind, Sgd | Momentum | Nesterov | Adam | AdamW | Amsgrad | None)
    }

    /// Whether the update kernel itself divides by the scale of a `GradScaler`.
    fn scales_itself(self) -> bool {
        self.implementation == Implementation::Fused && self.kind != Kind::None
    }
}

/// The implementation that runs, the default resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Foreach,
    Fused,
    ForLoop,
}

/// The state tensors of one weight; only their memory matters.
type State = SmallVec<[Storage; 3]>;

/// What one optimizer allocates.
trait Algorithm {
    /// Makes the state of a weight before its first update; `gradient` is the gradient's layout.
    fn make_state(&self, context: &mut Context, tensor: &Tensor, gradient: &Layout) -> State;

    /// Whether the constructor makes the state, for all weights.
    fn makes_state_at_once(&self) -> bool {
        false
    }

    /// Updates all weights that have a gradient.
    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>);

    /// Whether the updates with these numbers, from 1, allocate the same where the state is the same.
    fn is_alike(&self, _one: u32, _other: u32) -> bool {
        true
    }
}

/// What an update works on.
struct Work<'a> {
    /// The weights that have a gradient.
    items: Vec<Item>,
    /// The state of every weight.
    state: &'a mut [Option<State>],
    /// The number of the update, from 1.
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
    /// The constructor.
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

    /// `optimizer.step()`.
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

    /// How many updates it has made.
    pub(crate) fn updates(&self) -> u32 {
        self.steps
    }

    /// Whether all updates from number `first` to `last`, counted from 1, allocate the same where the state is the same.
    pub(crate) fn updates_alike(&self, first: u32, last: u32) -> bool {
        let Some(algorithm) = self.algorithm.as_deref() else { return true };
        (first..=last).all(|step| algorithm.is_alike(first, step))
    }

    /// The memory of its state, weight by weight.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Storage> {
        self.state.iter().flatten().flatten()
    }

    /// For each weight, 0 without state, else one more than its number of state tensors.
    pub(crate) fn state_counts(&self) -> impl Iterator<Item = usize> {
        self.state.iter().map(|state| state.as_ref().map_or(0, |tensors| tensors.len() + 1))
    }

    /// Whether the update kernel itself divides by the scale of a `GradScaler`.
    pub(crate) fn scales_itself(&self) -> bool {
        self.recipe.scales_itself()
    }
}

/// `count` tensors like a weight.
fn zeros_like(context: &mut Context, tensor: &Tensor, count: usize) -> State {
    let bytes = tensor.like(tensor.dtype()).bytes();
    (0..count).map(|_| context.storage(bytes)).collect()
}

/// `optimizer.zero_grad(set_to_none)`: frees the gradients in the order of the weights, or fills them with zeros.
pub fn zero_grad(parameters: &[Parameter], sets_to_none: bool) {
    if sets_to_none {
        for parameter in parameters {
            parameter.gradient.borrow_mut().take();
        }
    }
}
