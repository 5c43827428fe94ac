//! A captured model with images whose channels are last in memory.
//!
//! `model.to(memory_format=torch.channels_last)` gives weights and buffers of four dimensions other strides, and so does
//! `images.to(memory_format=torch.channels_last)` for inputs. What operators make of them follows from their rules; the strides that
//! the capture has for results are replaced too, because prices look at them.

use thiserror::Error;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::{Argument, MemoryFormat, TensorId};

use crate::operators::{Effect, facts, view_strides};

/// Channels cannot be last.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoChannelsLast {
    /// No weight has four dimensions.
    #[error("--channels-last: found no convolution of images, whose weights have four dimensions")]
    NoImages,
    /// PyTorch refuses the format for a weight of five dimensions.
    #[error("--channels-last: {weight} has five dimensions; torch.channels_last is for weights of four")]
    FiveDimensions {
        /// The weight.
        weight: String,
    },
    /// PyTorch refuses a view of images that have the format.
    #[error(
        "--channels-last: {place} calls view() on images, which fails if their channels are last; reshape() or flatten() copies them"
    )]
    View {
        /// The line of the model's code.
        place: String,
    },
    /// All of it has channels last already.
    #[error("--channels-last: the captured model has its channels last already")]
    Already,
}

/// Gives weights, buffers and inputs of four dimensions the format, and results as far as it reaches.
///
/// # Errors
/// The model has no images, or cannot have the format.
pub fn to_channels_last(bound: &mut Bound<'_>) -> Result<(), NoChannelsLast> {
    bound.alternatives.iter_mut().try_for_each(change)?;
    change(bound)
}

fn change(bound: &mut Bound<'_>) -> Result<(), NoChannelsLast> {
    let model = bound.model;
    let weights = || model.parameters.iter().chain(&model.buffers);
    if let Some(weight) = weights().find(|weight| weight.shape.len() == 5) {
        return Err(NoChannelsLast::FiveDimensions { weight: weight.names[0].clone() });
    }
    if !model.parameters.iter().any(|weight| weight.shape.len() == 4) {
        return Err(NoChannelsLast::NoImages);
    }
    let given = weights().map(|weight| weight.tensor).chain(model.inputs.iter().map(|input| input.tensor));
    let mut is_changed = vec![false; bound.tensors.len()];
    let mut is_any_changed = false;
    for id in given {
        if bound.tensor(id).shape.len() == 4 {
            is_any_changed |= turn(bound, id);
            is_changed[id.0 as usize] = true;
        }
    }
    if !is_any_changed {
        return Err(NoChannelsLast::Already);
    }
    for step in 0..bound.steps.len() {
        let BoundStep::Call(call) = &bound.steps[step] else { continue };
        let mut is_reached = false;
        let mut storages = Vec::new();
        call.each_tensor(&mut |id| {
            is_reached |= is_changed[id.0 as usize];
            storages.push(bound.tensor(id).storage);
        });
        let copies_to_rows = call.arguments.contains(&Argument::MemoryFormat(MemoryFormat::Contiguous));
        if !is_reached || copies_to_rows {
            continue;
        }
        if let (Effect::ViewsFirst, Some(Argument::Tensor(source)), [Some(result)]) =
            (facts(bound.operator(call)).effect, call.arguments.first(), call.results)
        {
            let (source, shape) = (bound.tensor(*source), &bound.tensor(*result).shape);
            let layout = Layout { dtype: source.dtype, shape: source.shape.clone(), strides: source.strides.clone() };
            if view_strides(&layout, shape).is_none() {
                return Err(NoChannelsLast::View { place: bound.place(call) });
            }
        }
        for &id in call.results.iter().flatten() {
            let tensor = bound.tensor(id);
            if tensor.shape.len() == 4 && !tensor.is_view && !storages.contains(&tensor.storage) {
                turn(bound, id);
                is_changed[id.0 as usize] = true;
            }
        }
    }
    Ok(())
}

/// Gives a tensor of four dimensions the strides of the format. Returns whether it had others.
fn turn(bound: &mut Bound<'_>, TensorId(id): TensorId) -> bool {
    let tensor = &mut bound.tensors[id as usize];
    let Layout { strides, .. } = Format::ChannelsLast.layout(tensor.dtype, &tensor.shape);
    let is_other = tensor.strides != strides;
    tensor.strides = strides;
    is_other
}
