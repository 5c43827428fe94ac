//! The optimizers of a loop: one, two with Muon, or one for each weight.

use std::collections::BTreeSet;

use vramfit_eager::tensor_parallel::{split_layers, weights_of};
use vramfit_graph::bind::Bound;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Mode, Weight};

use super::{Loop, OptimizerSetup, Parallel, Replicated, StatePlace};
use crate::optimizer::{Group, Implementation, Kind, Library, Recipe};

/// The optimizers that a loop over one model creates, in order.
pub(super) fn optimizers(bound: &Bound<'_>, settings: &Loop, model: usize) -> Vec<OptimizerSetup> {
    let recipe = settings.optimizer;
    if settings.steps_in_backward {
        let weights = bound.model.parameters.iter().enumerate().filter(|(_, weight)| weight.requires_grad);
        let alone = |(index, weight)| {
            let recipe = on(settings.optimizer_state, recipe_of(bound, weight, recipe));
            let groups = Some(vec![Group { weights: vec![index], adds_decay: recipe.adds_decay }]);
            OptimizerSetup { recipe, model, groups, place: settings.optimizer_state, zeroes_all: false }
        };
        return weights.map(alone).collect();
    }
    if recipe.kind == Kind::Muon {
        return two_optimizers(bound, recipe, model).map(|setup| setup_on(settings.optimizer_state, setup)).into();
    }
    let groups = settings.groups.as_ref().map(|groups| groups.iter().cloned().collect());
    let place = settings.optimizer_state;
    let recipe = on(place, recipe);
    match &settings.parallel {
        Parallel::Replicated(Replicated { splits_optimizer: true, world, .. }) => {
            let groups = Some(vec![first_share(bound, recipe, *world)]);
            vec![OptimizerSetup { recipe, model, groups, place, zeroes_all: true }]
        }
        Parallel::Sharded(settings) if settings.offloads => {
            vec![setup_on(StatePlace::Cpu, OptimizerSetup::of_all(recipe, model))]
        }
        Parallel::Tensor(_) => {
            vec![OptimizerSetup { recipe, model, groups: Some(split_groups(bound, recipe)), place, zeroes_all: false }]
        }
        _ => vec![OptimizerSetup { recipe, model, groups, place, zeroes_all: false }],
    }
}

/// The weights that are split, then the others: one call of a foreach kernel takes either kind.
fn split_groups(bound: &Bound<'_>, recipe: Recipe) -> Vec<Group> {
    let split: BTreeSet<usize> =
        split_layers(bound).into_keys().flat_map(|module| weights_of(bound.model, module)).flatten().collect();
    let others = (0..bound.model.parameters.len()).filter(|index| !split.contains(index)).collect();
    let group = |weights| Group { weights, adds_decay: recipe.adds_decay };
    [split.iter().copied().collect(), others].map(group).into()
}

/// The weights that `ZeroRedundancyOptimizer` gives the first rank: the largest first, each to the rank that has least.
fn first_share(bound: &Bound<'_>, recipe: Recipe, world: u32) -> Group {
    let elements = |weight: &Weight| bound.tensor(weight.tensor).shape.iter().product::<i64>();
    let mut weights: Vec<usize> = (0..bound.model.parameters.len()).collect();
    weights.sort_by_key(|&index| std::cmp::Reverse(elements(&bound.model.parameters[index])));
    let mut shares = vec![0; world.max(1) as usize];
    let mut first = Vec::new();
    for index in weights {
        let (rank, share) = shares.iter_mut().enumerate().min_by_key(|(_, share)| **share).expect("there is a rank");
        *share += elements(&bound.model.parameters[index]);
        if rank == 0 {
            first.push(index);
        }
    }
    Group { weights: first, adds_decay: recipe.adds_decay }
}

/// Muon over the matrices of hidden layers, then AdamW over the other weights.
fn two_optimizers(bound: &Bound<'_>, recipe: Recipe, model: usize) -> [OptimizerSetup; 2] {
    [Kind::Muon, Kind::AdamW].map(|kind| {
        let weights = bound.model.parameters.iter().enumerate();
        let chosen = weights.filter(|(_, weight)| recipe_of(bound, weight, recipe).kind == kind);
        let weights = chosen.map(|(index, _)| index).collect();
        let recipe = Recipe::new(kind, Implementation::Default);
        let groups = Some(vec![Group { weights, adds_decay: false }]);
        OptimizerSetup { recipe, model, groups, place: StatePlace::Gpu, zeroes_all: false }
    })
}

/// Whether Muon is for a weight: a matrix that is not an embedding's.
pub fn is_hidden(bound: &Bound<'_>, weight: &Weight) -> bool {
    bound.tensor(weight.tensor).shape.len() == 2 && !is_embedding(bound, weight)
}

/// The optimizer of one weight.
fn recipe_of(bound: &Bound<'_>, weight: &Weight, recipe: Recipe) -> Recipe {
    if recipe.kind == Kind::Muon && !is_hidden(bound, weight) {
        return Recipe::new(Kind::AdamW, Implementation::Default);
    }
    recipe
}

/// Whether one of a weight's names is that of an embedding module's weight.
fn is_embedding(bound: &Bound<'_>, weight: &Weight) -> bool {
    let modules = bound.model.modules.iter().filter(|module| module.class == "Embedding");
    let mut paths = modules.filter_map(|module| module.path.as_deref());
    paths.any(|path| {
        weight.names.iter().any(|name| match name.strip_suffix("weight") {
            Some("") => path.is_empty(),
            Some(owner) => owner.strip_suffix('.') == Some(path),
            None => false,
        })
    })
}

/// What the optimizer does that is not simulated, in words.
pub(crate) fn not_simulated(bound: &Bound<'_>, settings: &Loop) -> Option<String> {
    let is_asked = bound.variant.mode == Mode::Train
        && settings.optimizer_state == StatePlace::Gpu
        && settings.optimizer.kind.library() == Library::Bitsandbytes;
    let mut trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
    let is_contiguous = |weight: &Weight| {
        let tensor = bound.tensor(weight.tensor);
        Layout { dtype: tensor.dtype, shape: tensor.shape.clone(), strides: tensor.strides.clone() }.is_contiguous()
    };
    let is_rearranged = is_asked && trained.any(|weight| !is_contiguous(weight));
    is_rearranged.then(|| {
        "bitsandbytes makes weights contiguous in the first step that are stored in another order, such as channels last: the steps \
         after it are not simulated so"
            .to_owned()
    })
}

/// An optimizer on the CPU allocates nothing on the GPU.
fn on(place: StatePlace, recipe: Recipe) -> Recipe {
    match place {
        StatePlace::Gpu => recipe,
        StatePlace::Cpu => Recipe::new(Kind::None, Implementation::Default),
    }
}

fn setup_on(place: StatePlace, setup: OptimizerSetup) -> OptimizerSetup {
    OptimizerSetup { recipe: on(place, setup.recipe), place, ..setup }
}
