//! Optimizers: their state and what an update allocates, in the order of `torch.optim`.
//!
//! Each file follows one optimizer's Python functions. Binding a name again frees the old list. When a function returns,
//! its locals are freed in the order in which they were first bound. A list frees its tensors from its end.

mod adadelta;
mod adafactor;
mod adafactor_hf;
mod adagrad;
mod adam;
mod adamax;
mod bitsandbytes;
pub mod clip;
mod groups;
mod list;
mod muon;
mod nadam;
mod radam;
mod recipe;
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

pub use groups::{Group, Groups, InvalidGroups};
pub use recipe::{Implementation, Kind, Library, Quantized, Recipe};

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

    /// Updates all weights of a group that have a gradient.
    fn step(&self, context: &mut Context, route: Route, work: &mut Work<'_>);

    /// What it keeps once, not for each weight.
    fn shared(&self) -> &[Storage] {
        &[]
    }

    /// Whether each update makes the last tensor of a weight's state again.
    fn replaces_last(&self) -> bool {
        false
    }

    /// Bytes of a weight's state that are in managed memory, which PyTorch's allocator does not see.
    fn managed_bytes(&self, _weight: &Layout) -> u64 {
        0
    }

    /// Whether the updates with these numbers, from 1, allocate the same where the state is the same.
    fn is_alike(&self, _one: u32, _other: u32) -> bool {
        true
    }
}

/// What an update works on.
struct Work<'a> {
    /// The weights of the group that have a gradient.
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
    groups: Vec<Group>,
    algorithm: Option<Box<dyn Algorithm>>,
    /// By weight of the model.
    state: Vec<Option<State>>,
    managed: u64,
    steps: u32,
}

impl Optimizer {
    /// The constructor, for all weights as one group.
    pub fn new(context: &mut Context, recipe: Recipe, parameters: &[Parameter]) -> Optimizer {
        Optimizer::with_groups(context, recipe, vec![Group::all(parameters.len(), recipe.adds_decay)], parameters)
    }

    /// The constructor, for groups of a model's weights.
    pub fn with_groups(
        context: &mut Context,
        recipe: Recipe,
        groups: Vec<Group>,
        parameters: &[Parameter],
    ) -> Optimizer {
        let algorithm = algorithm(recipe);
        let adds_decay = |group: &Group| group.adds_decay && recipe.kind.adds_decay_to_gradients();
        let groups = groups.into_iter().map(|group| Group { adds_decay: adds_decay(&group), ..group }).collect();
        let state = parameters.iter().map(|_| None).collect();
        let mut optimizer = Optimizer { recipe, groups, algorithm, state, managed: 0, steps: 0 };
        if let Some(algorithm) = optimizer.algorithm.as_deref().filter(|algorithm| algorithm.makes_state_at_once()) {
            context.memory().borrow_mut().set_category(Category::Optimizer);
            for &index in optimizer.groups.iter().flat_map(|group| group.weights.iter()) {
                let tensor = &parameters[index].tensor;
                optimizer.state[index] = Some(algorithm.make_state(context, tensor, tensor.layout()));
            }
        }
        optimizer
    }

    /// `optimizer.step()`: one group after another.
    pub fn step(&mut self, context: &mut Context, parameters: &[Parameter]) {
        let Some(algorithm) = self.algorithm.as_deref() else { return };
        self.steps += 1;
        let route = match (self.recipe.implementation, self.recipe.kind) {
            (Implementation::Fused, _) => Route::Fused,
            (Implementation::ForLoop, _) | (Implementation::Default, Kind::Adafactor) => Route::ForLoop,
            _ => Route::Foreach,
        };
        for group in &self.groups {
            context.memory().borrow_mut().set_category(Category::Optimizer);
            let mut items = Vec::with_capacity(group.weights.len());
            for &index in &group.weights {
                let parameter = &parameters[index];
                let gradient = parameter.gradient.borrow();
                let Some(gradient) = gradient.as_ref() else { continue };
                let state = &mut self.state[index];
                if state.is_none() {
                    self.managed += algorithm.managed_bytes(parameter.tensor.layout());
                    *state = Some(algorithm.make_state(context, &parameter.tensor, gradient.layout()));
                }
                items.push(Item { index, layout: gradient.like(gradient.dtype()) });
            }
            context.memory().borrow_mut().set_category(Category::Temporary);
            let mut work = Work { items, state: &mut self.state, step: self.steps, adds_decay: group.adds_decay };
            algorithm.step(context, route, &mut work);
        }
    }

    /// The weights it updates, in its order.
    pub fn weights<'p>(&self, parameters: &'p [Parameter]) -> impl Iterator<Item = &'p Parameter> {
        self.groups.iter().flat_map(|group| group.weights.iter()).map(|&index| &parameters[index])
    }

    /// `optimizer.zero_grad(set_to_none)`: frees the gradients in the order of the weights, or fills them with zeros.
    pub fn zero_grad(&self, parameters: &[Parameter], sets_to_none: bool) {
        if sets_to_none {
            for parameter in self.weights(parameters) {
                parameter.gradient.borrow_mut().take();
            }
        }
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

    /// The memory of its state that stays from update to update: what it has once, then weight by weight.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Storage> {
        let shared = self.algorithm.as_deref().map_or(&[][..], |algorithm| algorithm.shared());
        shared.iter().chain(self.state.iter().flatten().flat_map(|state| &state[..self.kept_count(state)]))
    }

    /// The memory of its state that each update allocates again, weight by weight.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &Storage> {
        self.state.iter().flatten().flat_map(|state| &state[self.kept_count(state)..])
    }

    fn kept_count(&self, state: &State) -> usize {
        let replaces = self.algorithm.as_deref().is_some_and(|algorithm| algorithm.replaces_last());
        state.len().saturating_sub(usize::from(replaces))
    }

    /// For each weight, 0 without state, else one more than its number of state tensors.
    pub(crate) fn state_counts(&self) -> impl Iterator<Item = usize> {
        self.state.iter().map(|state| state.as_ref().map_or(0, |tensors| tensors.len() + 1))
    }

    /// Bytes of its state in managed memory, which PyTorch's allocator does not see.
    pub(crate) fn managed_bytes(&self) -> u64 {
        self.managed
    }

    /// Whether the update kernel itself divides by the scale of a `GradScaler`.
    pub(crate) fn scales_itself(&self) -> bool {
        self.recipe.scales_itself()
    }
}

/// What an optimizer allocates; `None` without one.
fn algorithm(recipe: Recipe) -> Option<Box<dyn Algorithm>> {
    let is_fused = recipe.implementation == Implementation::Fused;
    if let Some(quantized) = recipe.kind.quantized() {
        return Some(Box::new(bitsandbytes::Blockwise::new(quantized)));
    }
    Some(match recipe.kind {
        Kind::Sgd => Box::new(sgd::Sgd { has_momentum: false, is_nesterov: false }),
        Kind::Momentum => Box::new(sgd::Sgd { has_momentum: true, is_nesterov: false }),
        Kind::Nesterov => Box::new(sgd::Sgd { has_momentum: true, is_nesterov: true }),
        Kind::Adam | Kind::AdamW => Box::new(adam::Adam { moments: 2, is_fused }),
        Kind::Amsgrad => Box::new(adam::Adam { moments: 3, is_fused }),
        Kind::RmsProp => Box::new(rmsprop::RmsProp),
        Kind::Adagrad => Box::new(adagrad::Adagrad),
        Kind::Adadelta => Box::new(adadelta::Adadelta),
        Kind::Adamax => Box::new(adamax::Adamax),
        Kind::NAdam => Box::new(nadam::NAdam),
        Kind::RAdam => Box::new(radam::RAdam),
        Kind::Adafactor => Box::new(adafactor::Adafactor),
        Kind::Muon => Box::new(muon::Muon),
        Kind::AdafactorHf => Box::new(adafactor_hf::Adafactor),
        _ => return None,
    })
}

/// `count` tensors like a weight.
fn zeros_like(context: &mut Context, tensor: &Tensor, count: usize) -> State {
    let bytes = tensor.like(tensor.dtype()).bytes();
    (0..count).map(|_| context.storage(bytes)).collect()
}
