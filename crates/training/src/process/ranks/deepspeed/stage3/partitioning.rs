//! How the engine takes a model that has been moved to the GPU apart.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::{Category, SideEventKind, Storage};
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::TensorId;

use super::coordinator::Coordinator;
use super::hooks::Hooks;
use super::weights::{Partitioned, Weight};
use super::{PartitionedEngine, SUB_GROUP_ELEMENTS};
use crate::optimizer::{Optimizer, Parameter};
use crate::process::moves::Tensors;
use crate::process::ranks::streams::create_streams;
use crate::script::{DeepSpeed, OptimizerSetup, StatePlace};

/// A model on its way into the engine.
pub(in crate::process) struct Moved<'m> {
    pub bound: &'m Bound<'m>,
    /// The weights that are not frozen by the script, and their numbers among the model's.
    pub parameters: &'m mut [Parameter],
    pub numbers: &'m [usize],
    pub frozen: &'m BTreeSet<TensorId>,
    pub tensors: &'m mut Tensors,
}

impl PartitionedEngine {
    /// `deepspeed.initialize`, once the model has been moved to the GPU; with the optimizer.
    pub(in crate::process) fn new(
        context: &mut Context,
        settings: DeepSpeed,
        setup: Option<&OptimizerSetup>,
        moved: Moved<'_>,
    ) -> Option<(PartitionedEngine, Option<Optimizer>)> {
        let bound = moved.bound;
        let leaves = moved.numbers.iter().enumerate().map(|(leaf, &number)| (leaf as u32, number)).collect();
        context.linear_is_function = true;
        let (weights, parts) = partition(context, moved, &settings)?;
        if settings.overlaps {
            create_streams(context);
        }
        let dtype = weights.iter().find(|weight| weight.is_trained)?.whole.tensor.dtype();
        let is_on_host = setup.is_some_and(|setup| setup.place == StatePlace::Cpu);
        context.memory().borrow_mut().set_category(Category::Temporary);
        let mut lasting = Vec::new();
        if !is_on_host {
            // Whether a gradient has overflowed.
            lasting.push(context.empty_contiguous(Dtype::Bool, &[1]));
        }
        let (sub_groups, sizes) = sub_groups(&weights);
        let total: i64 = sizes.iter().sum();
        if !settings.offloads_weights {
            lasting.extend(defragment(context, &weights, parts, (dtype, total)));
        }
        context.memory().borrow_mut().set_category(Category::Optimizer);
        // Where they are to be on the GPU, a copy of the parts in single precision is: none of parts that are there and have it.
        let is_copied = dtype != Dtype::Float32 || settings.offloads_weights;
        let masters = master_weights(context, &sizes, is_copied, is_on_host);
        // The constructor gives the master weights gradients, makes the optimizer's first state, and takes the gradients away again.
        let largest = sizes.iter().copied().max()?;
        let zeros = (!is_on_host).then(|| context.empty_contiguous(Dtype::Float32, &[largest]));
        let optimizer = setup.map(|setup| Optimizer::new(context, setup.recipe, &masters));
        drop(zeros);
        context.memory().borrow_mut().set_category(Category::Communication);
        let bucket = context.empty_contiguous(dtype, &[settings.bucket]);
        context.memory().borrow_mut().set_category(Category::Gradients);
        let gradients = (!is_on_host).then(|| context.empty_contiguous(dtype, &[total]));
        // `create_reduce_and_remove_grad_hooks` gathers each weight and frees it again.
        for weight in weights.iter().filter(|weight| weight.is_trained) {
            let gathered = context.storage(weight.bytes(weight.part * i64::from(settings.world)));
            drop(settings.offloads_weights.then(|| weight.uploaded_part(context)));
            drop(gathered);
        }
        let partitioned = Partitioned::new(bound, weights, settings.gathering.persistent);
        let coordinator = Rc::new(RefCell::new(Coordinator::new(partitioned, &settings)));
        let hooks = Rc::new(Hooks::new(bound, &coordinator));
        let (reduction, norm, updates) = Default::default();
        let engine = PartitionedEngine {
            settings,
            dtype,
            coordinator,
            hooks,
            leaves,
            lasting,
            bucket,
            gradients,
            masters,
            sub_groups,
            reduction,
            norm,
            updates,
        };
        Some((engine, optimizer))
    }
}

/// `_convert_to_zero_parameters`: each weight is replaced by this rank's part. Returns the weights, and the parts that are on the GPU.
fn partition(context: &mut Context, moved: Moved<'_>, settings: &DeepSpeed) -> Option<(Vec<Weight>, Vec<Tensor>)> {
    let Moved { bound, parameters, numbers, frozen, tensors } = moved;
    let (mut weights, mut parts) = (Vec::new(), Vec::new());
    for (index, weight) in bound.model.parameters.iter().enumerate() {
        let id = weight.tensor.0 as usize;
        let place = numbers.binary_search(&index).ok();
        let whole = tensors[id].take()?;
        let edge = whole.edge().cloned();
        let layout = Rc::new(Layout::contiguous(whole.dtype(), whole.shape()));
        let storage = Storage::refillable(context.memory(), whole.memory_bytes(), Category::Parameters);
        let emptied = Tensor::on_storage(storage, layout).with_edge(edge);
        let gradient = place.map(|place| Rc::clone(&parameters[place].gradient)).unwrap_or_default();
        let is_trained = weight.requires_grad && !frozen.contains(&weight.tensor);
        let partitioned = Weight::new(Parameter { tensor: emptied.clone(), gradient }, is_trained, settings.world);
        context.memory().borrow_mut().set_category(Category::Parameters);
        if !settings.offloads_weights {
            parts.push(context.empty_contiguous(whole.dtype(), &[partitioned.part]));
        }
        let copy = (!whole.layout().is_contiguous()).then(|| context.contiguous(&whole.detach()));
        if let Some(place) = place {
            parameters[place].tensor = emptied.clone();
        }
        drop(whole);
        drop(copy);
        tensors[id] = Some(emptied);
        weights.push(partitioned);
    }
    Some((weights, parts))
}

/// `defragment`: the parts of trained weights go to the host and come back as one tensor. Those of frozen weights stay.
fn defragment(context: &Context, weights: &[Weight], parts: Vec<Tensor>, (dtype, total): (Dtype, i64)) -> Vec<Tensor> {
    let mut lasting = Vec::new();
    for (weight, part) in weights.iter().zip(parts) {
        if !weight.is_trained {
            lasting.push(part);
        }
    }
    context.memory().borrow_mut().add_side_event(SideEventKind::CacheEmptied);
    context.memory().borrow_mut().set_category(Category::Parameters);
    lasting.push(context.empty_contiguous(dtype, &[total]));
    lasting
}

/// `_create_fp32_partitions`: master weights are clones, of a copy in single precision where the parts are elsewhere or have another type.
fn master_weights(context: &Context, sizes: &[i64], is_copied: bool, is_on_host: bool) -> Vec<Parameter> {
    let mut converted: Option<Tensor> = None;
    let mut master = |size: i64| {
        if is_on_host {
            return Tensor::on_host(Layout::contiguous(Dtype::Float32, &[size]));
        }
        let new = is_copied.then(|| context.empty_contiguous(Dtype::Float32, &[size]));
        drop(std::mem::replace(&mut converted, new));
        context.empty_contiguous(Dtype::Float32, &[size])
    };
    sizes.iter().map(|&size| Parameter { tensor: master(size), gradient: Rc::default() }).collect()
}

/// `_create_fp16_sub_groups`: the trained weights in groups, and the elements of this rank's part of each.
fn sub_groups(weights: &[Weight]) -> (Vec<Vec<usize>>, Vec<i64>) {
    let trained = weights.iter().enumerate().filter(|(_, weight)| weight.is_trained);
    split(trained.map(|(index, weight)| (index, weight.part)), SUB_GROUP_ELEMENTS)
}

fn split(parts: impl Iterator<Item = (usize, i64)>, limit: i64) -> (Vec<Vec<usize>>, Vec<i64>) {
    let (mut groups, mut sizes): (Vec<Vec<usize>>, Vec<i64>) = Default::default();
    for (index, part) in parts {
        match (groups.last_mut(), sizes.last_mut()) {
            (Some(group), Some(size)) if *size < limit => {
                group.push(index);
                *size += part;
            }
            _ => {
                groups.push(vec![index]);
                sizes.push(part);
            }
        }
    }
    (groups, sizes)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn a_sub_group_ends_with_the_weight_that_fills_it() {
        let (groups, sizes) = split([(0, 4), (1, 5), (3, 3), (4, 12), (5, 1)].into_iter(), 8);
        assert_eq!(groups, [vec![0, 1], vec![3, 4], vec![5]]);
        assert_eq!(sizes, [9, 15, 1]);
    }
}
