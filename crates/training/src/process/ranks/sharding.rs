//! `fully_shard`: moves a group's weights to the GPU and keeps this rank's shard of each.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor, engine};
use vramfit_eager::forward::{UnknownModule, chosen_modules};
use vramfit_eager::launch::Launch;
use vramfit_eager::memory::{Category, Storage};
use vramfit_eager::operators::find_head;
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Model, Module, TensorId, Weight};

use super::group::{Group, Phase, ShardedWeight, State};
use super::shards::{Shards, ShardsState};
use crate::optimizer::Parameter;
use crate::process::moves::{Tensors, layout, move_tensor};
use crate::script::Sharded;

/// The modules that `fully_shard` is called on, in this order: the root is last.
///
/// # Errors
/// The model has no such module, or `fully_shard` does not do on it what it says.
pub fn sharded_modules(bound: &Bound<'_>, settings: &Sharded) -> Result<Vec<usize>, UnknownModule> {
    let mut chosen = chosen_modules(bound, &settings.modules, "--shard")?;
    chosen.retain(|&module| module != 0);
    for &module in &chosen {
        if let (Some(path), Some(reason)) = (&bound.model.modules[module].path, obstacle(bound.model, module)) {
            return Err(UnknownModule { flag: "--shard", wanted: path.clone(), reason, present: Vec::new() });
        }
    }
    // Inner modules come before those that contain them.
    let depth =
        |module: &usize| bound.model.modules[*module].path.as_deref().map_or(0, |path| path.matches('.').count());
    chosen.sort_by_key(|module| std::cmp::Reverse(depth(module)));
    chosen.push(0);
    Ok(chosen)
}

/// Whether a loss that multiplies with the head's weights finds them gathered. Those of the root are while the model computes its loss, and
/// before the loss's backward pass again. Those of another sharded module are for its own forward pass, which such a loss leaves out.
///
/// # Errors
/// The head is in a sharded module that is not the root.
pub(crate) fn check_head(bound: &Bound<'_>, settings: &Sharded) -> Result<(), UnknownModule> {
    let Ok(head) = find_head(bound) else { return Ok(()) };
    let path = |module: usize| bound.model.modules[module].path.as_deref().unwrap_or_default();
    let head = path(head.module as usize);
    let has_head =
        |module: &usize| head.strip_prefix(path(*module)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let mut sharded = sharded_modules(bound, settings)?.into_iter().filter(|module| *module != 0);
    match sharded.find(has_head) {
        None => Ok(()),
        Some(module) => Err(UnknownModule {
            flag: "--shard",
            wanted: path(module).to_owned(),
            reason: format!(
                "its weights are gathered for its own forward pass, and with --chunked-loss or --fused-linear-loss the loss multiplies with \
                 those of `{head}` after that"
            ),
            present: Vec::new(),
        }),
    }
}

/// Why `fully_shard` cannot be called on a module.
fn obstacle(model: &Model, module: usize) -> Option<String> {
    let Module { path, class } = &model.modules[module];
    // `_validate_module`.
    if matches!(class.as_str(), "ModuleList" | "ModuleDict") {
        return Some(format!("it is a {class}, which has no forward pass: fully_shard needs its members"));
    }
    // `_get_managed_states` looks for shared weights among the modules that it is called on only.
    let within = format!("{}.", path.as_deref()?);
    let is_within = |name: &&String| name.starts_with(&within);
    model.parameters.iter().find_map(|weight| {
        let inside = weight.names.iter().find(is_within)?;
        let outside = weight.names.iter().find(|name| !is_within(name))?;
        Some(format!("fully_shard would part its weight `{inside}` from `{outside}`, which is the same and not in it"))
    })
}

/// Shards a model; returns the shards of its weights as an optimizer takes them. Those in `frozen` are not among them.
pub(crate) fn shard(
    bound: &Bound<'_>,
    context: &mut Context,
    tensors: &mut Tensors,
    frozen: &BTreeSet<TensorId>,
    settings: &Sharded,
) -> (Vec<Parameter>, Shards) {
    let called = sharded_modules(bound, settings).unwrap_or_else(|_| vec![0]);
    let mut sharding = Sharding { bound, settings, frozen, shards: vec![None; bound.model.parameters.len()] };
    let (mut groups, mut modules) = (Vec::new(), HashMap::new());
    for module in called {
        let group = sharding.group(context, tensors, module);
        modules.insert(module as u32, group.is_some().then_some(groups.len()));
        groups.extend(group);
    }
    for &id in &bound.variant.constants {
        tensors[id.0 as usize].get_or_insert_with(|| move_tensor(bound, context, id));
    }
    let mut order: Vec<(u32, usize)> =
        modules.iter().filter_map(|(module, group)| Some((*module, (*group)?))).collect();
    order.sort_unstable();
    let order = order.into_iter().map(|(_, group)| group).collect();
    let trained = bound.model.parameters.iter().zip(sharding.shards);
    let shards =
        trained.filter(|(weight, _)| !frozen.contains(&weight.tensor)).filter_map(|(_, shard)| shard).collect();
    (shards, Shards::new(ShardsState::new(settings.clone(), groups, modules, order)))
}

struct Sharding<'s> {
    bound: &'s Bound<'s>,
    settings: &'s Sharded,
    frozen: &'s BTreeSet<TensorId>,
    /// By weight: its shard, once there is one.
    shards: Vec<Option<Parameter>>,
}

impl Sharding<'_> {
    /// One call of `fully_shard`; `None` where the module has no weights that are not sharded yet.
    fn group(&mut self, context: &mut Context, tensors: &mut Tensors, module: usize) -> Option<Group> {
        let model = self.bound.model;
        let path = model.modules[module].path.as_deref().unwrap_or_default();
        context.memory().borrow_mut().set_category(Category::Parameters);
        let weights = in_module_order(path, &model.parameters);
        let weights: Vec<usize> = weights.into_iter().filter(|&weight| self.shards[weight].is_none()).collect();
        let moved: Vec<Tensor> = weights.iter().map(|&weight| self.moved(context, weight)).collect();
        for buffer in in_module_order(path, &model.buffers) {
            let id = model.buffers[buffer].tensor;
            tensors[id.0 as usize].get_or_insert_with(|| self.moved_buffer(context, buffer));
        }
        let group: Vec<ShardedWeight> = weights.iter().map(|&weight| self.shard(context, tensors, weight)).collect();
        // The unsharded weights are freed when the call returns, in their order.
        moved.into_iter().for_each(drop);
        (!group.is_empty()).then(|| Group {
            weights: group,
            reshard_after_forward: self.settings.reshard(module == 0),
            phase: Phase::Idle,
            state: State::Sharded,
            gathered: None,
            positions: Vec::new(),
            reduced: None,
        })
    }

    /// The type that a weight is stored in.
    fn stored(&self, weight: &Weight) -> Dtype {
        self.settings.stored(weight.dtype, self.bound.tensor(weight.tensor).dtype)
    }

    fn moved(&self, context: &Context, weight: usize) -> Tensor {
        let weight = &self.bound.model.parameters[weight];
        let layout = Layout::contiguous(self.stored(weight), &self.bound.tensor(weight.tensor).shape);
        let moved = context.empty(layout);
        context.memory().borrow_mut().host_frees(moved.memory_bytes());
        moved
    }

    /// A buffer keeps its type, whatever weights are cast to.
    fn moved_buffer(&self, context: &mut Context, buffer: usize) -> Tensor {
        let weight = &self.bound.model.buffers[buffer];
        let captured = self.bound.tensor(weight.tensor);
        if self.settings.param_dtype.is_none() || captured.dtype == weight.dtype {
            return move_tensor(self.bound, context, weight.tensor);
        }
        let moved =
            context.empty(Layout { dtype: self.settings.stored_dtype.unwrap_or(weight.dtype), ..layout(captured) });
        context.memory().borrow_mut().host_frees(moved.memory_bytes());
        moved
    }

    /// This rank's shard of a weight, and the place of the unsharded one.
    fn shard(&mut self, context: &mut Context, tensors: &mut Tensors, index: usize) -> ShardedWeight {
        let weight = &self.bound.model.parameters[index];
        let captured = self.bound.tensor(weight.tensor);
        let (stored, shards) = (self.stored(weight), i64::from(self.settings.shards));
        let mut shape = captured.shape.clone();
        shape[0] = (shape[0] + shards - 1) / shards;
        let mut shard = context.empty(Layout::contiguous(stored, &shape));
        // It is filled with zeros before the weight's values are copied.
        context.launched(Launch::LocalMemory);
        if self.settings.offloads {
            shard = Tensor::on_host(shard.shared_layout());
        }
        let bytes = (shard.layout().elements() * shards) as u64 * captured.dtype.bytes();
        let storage = Storage::unallocated(context.memory(), bytes, Category::Parameters);
        let layout = Rc::new(Layout::contiguous(captured.dtype, &captured.shape));
        let mut unsharded = Tensor::on_storage(storage, Rc::clone(&layout));
        let gradient = Rc::new(RefCell::new(None));
        let is_trained = weight.requires_grad && !self.frozen.contains(&weight.tensor);
        if is_trained {
            unsharded = unsharded.with_edge(Some(engine::sink(Rc::clone(&gradient), layout, index as u32)));
        }
        tensors[weight.tensor.0 as usize] = Some(unsharded.clone());
        let shard = Parameter { tensor: shard, gradient: Rc::default() };
        self.shards[index] = Some(shard.clone());
        ShardedWeight { shard, unsharded, gradient, accumulated: None, post_forward_shard: None }
    }
}

/// The weights or buffers within a module, those of its children before its own.
pub(super) fn in_module_order(path: &str, weights: &[Weight]) -> Vec<usize> {
    let within = |name: &String| match path {
        "" => Some(name.clone()),
        _ => Some(name.strip_prefix(path)?.strip_prefix('.')?.to_owned()),
    };
    let names: Vec<(String, usize)> = weights
        .iter()
        .enumerate()
        .filter_map(|(index, weight)| Some((weight.names.iter().find_map(within)?, index)))
        .collect();
    let names: Vec<(&str, usize)> = names.iter().map(|(name, index)| (name.as_str(), *index)).collect();
    children_first(&names)
}

fn children_first(names: &[(&str, usize)]) -> Vec<usize> {
    let mut children: Vec<(&str, Vec<(&str, usize)>)> = Vec::new();
    let mut own = Vec::new();
    for &(name, index) in names {
        match name.split_once('.') {
            None => own.push(index),
            Some((child, rest)) => match children.iter_mut().find(|(name, _)| *name == child) {
                Some((_, within)) => within.push((rest, index)),
                None => children.push((child, vec![(rest, index)])),
            },
        }
    }
    children.iter().flat_map(|(_, within)| children_first(within)).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_children_come_before_those_of_the_module_itself() {
        let names = [("scale", 0), ("norm.weight", 1), ("mlp.gate", 2), ("mlp.up.weight", 3), ("norm.bias", 4)];
        assert_eq!(children_first(&names), [1, 4, 3, 2, 0]);
    }
}
