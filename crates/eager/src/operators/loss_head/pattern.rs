//! Where a captured language model computes its logits and its loss.

use std::fmt;

use vramfit_graph::bind::{Bound, BoundCall, BoundStep, Value};
use vramfit_graph::model::{Cast, TensorId};

const LINEAR: &str = "aten.linear.default";
const PAD: &str = "aten.constant_pad_nd.default";
const LOSSES: [&str; 2] = ["aten.cross_entropy_loss.default", "aten.nll_loss.default"];
/// The loss function of the causal language models of the transformers library, and the file it is in.
const LOSS_FUNCTION: &str = "ForCausalLMLoss";
const LOSS_FILE: &str = "transformers/loss/loss_utils.py";
/// `reduction="mean"`.
const MEAN: i64 = 1;

/// The end of a causal language model of the transformers library: `lm_head`, then `ForCausalLMLoss`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The module of the linear layer, by its index.
    pub module: u32,
    /// The step at which the linear layer is entered.
    pub enter: usize,
    /// The step at which it is left.
    pub exit: usize,
    /// The linear layer's own step.
    pub linear: usize,
    /// The step that makes the loss.
    pub last: usize,
    /// The last hidden states.
    pub hidden: TensorId,
    /// The weight that is multiplied with: under autocast its cast.
    pub weight: TensorId,
    /// The bias, likewise.
    pub bias: Option<TensorId>,
    /// The weight itself.
    pub own_weight: TensorId,
    /// The bias itself.
    pub own_bias: Option<TensorId>,
    /// Whether autocast casts the hidden states.
    pub casts_hidden: bool,
    /// The logits.
    pub logits: TensorId,
    /// The labels.
    pub labels: TensorId,
    /// The loss.
    pub loss: TensorId,
}

/// Why a model's loss cannot be computed in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    /// The captured pass returns no loss.
    NoLoss,
    /// The loss is not that of a causal language model of the transformers library.
    OtherLoss,
    /// The logits do not come straight from one linear layer.
    OtherLogits,
}

impl fmt::Display for NoHead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NoHead::NoLoss => "the captured step returns no loss",
            NoHead::OtherLoss => {
                "the loss is not ForCausalLMLoss of the transformers library, averaged over tokens, which is what the \
                 printed code replaces"
            }
            NoHead::OtherLogits => "the logits do not come straight from one linear layer",
        })
    }
}

/// Finds the end of a causal language model.
///
/// # Errors
/// Why there is none.
pub fn find_head(bound: &Bound<'_>) -> Result<Head, NoHead> {
    let loss = bound.variant.loss.ok_or(NoHead::NoLoss)?;
    let steps = &bound.steps;
    let call_at = |index: usize| match &steps[index] {
        BoundStep::Call(call) => Some(call),
        _ => None,
    };
    let makes_loss = |index: &usize| call_at(*index).is_some_and(|call| call.results.contains(&Some(loss)));
    let last = (0..steps.len()).find(makes_loss).ok_or(NoHead::OtherLoss)?;
    let call = call_at(last).ok_or(NoHead::OtherLoss)?;
    let is_mean = call.arguments.get(3) == Some(&Value::Int(MEAN));
    if !LOSSES.contains(&bound.operator_name(call)) || !is_mean {
        return Err(NoHead::OtherLoss);
    }
    let exit = (0..last).rev().find(|&index| matches!(steps[index], BoundStep::Exit(..))).ok_or(NoHead::OtherLogits)?;
    let between: Vec<&BoundCall<'_>> = (exit + 1..last).filter_map(call_at).collect();
    let is_loss_function =
        |call: &&BoundCall<'_>| source(bound, call).is_some_and(|(file, _)| file.ends_with(LOSS_FILE));
    let is_named = between.iter().any(|call| source(bound, call).is_some_and(|(_, name)| name == LOSS_FUNCTION));
    if !is_named || !between.iter().all(is_loss_function) {
        return Err(NoHead::OtherLoss);
    }
    let pad = between.iter().find(|call| bound.operator_name(call) == PAD).ok_or(NoHead::OtherLoss)?;
    let Some(&Value::Tensor(labels)) = pad.arguments.first() else { return Err(NoHead::OtherLoss) };
    let BoundStep::Exit(module, &[logits]) = steps[exit] else { return Err(NoHead::OtherLogits) };
    let enter =
        (0..exit).rev().find(|&index| matches!(steps[index], BoundStep::Enter(..))).ok_or(NoHead::OtherLogits)?;
    let BoundStep::Enter(entered, &[hidden]) = steps[enter] else { return Err(NoHead::OtherLogits) };
    let linear = (enter..exit).find(|&index| call_at(index).is_some_and(|call| call.results.contains(&Some(logits))));
    let linear = linear.ok_or(NoHead::OtherLogits)?;
    let call = call_at(linear).ok_or(NoHead::OtherLogits)?;
    let is_cast = |index: &usize| call_at(*index).is_none_or(|call| call.cast != Cast::No);
    if entered != module
        || bound.operator_name(call) != LINEAR
        || !(enter..exit).filter(|index| *index != linear).all(|index| is_cast(&index))
    {
        return Err(NoHead::OtherLogits);
    }
    let argument = |index: usize| match call.arguments.get(index) {
        Some(&Value::Tensor(id)) => Some(id),
        _ => None,
    };
    let (input, weight) = (argument(0).ok_or(NoHead::OtherLogits)?, argument(1).ok_or(NoHead::OtherLogits)?);
    let own = |id: TensorId| uncast(bound, id);
    if own(input) != hidden {
        return Err(NoHead::OtherLogits);
    }
    let bias = argument(2);
    Ok(Head {
        module,
        enter,
        exit,
        linear,
        last,
        hidden,
        weight,
        bias,
        own_weight: own(weight),
        own_bias: bias.map(own),
        casts_hidden: input != hidden,
        logits,
        labels,
        loss,
    })
}

/// The file and function of a call.
fn source<'b>(bound: &'b Bound<'_>, call: &BoundCall<'_>) -> Option<(&'b str, &'b str)> {
    let source = bound.model.sources.get(call.source? as usize)?;
    Some((source.file.as_str(), source.function.as_str()))
}

/// The tensor that autocast cast, or the tensor itself.
fn uncast(bound: &Bound<'_>, id: TensorId) -> TensorId {
    let cast = bound.steps.iter().find_map(|step| match step {
        BoundStep::Call(call) if call.cast != Cast::No && call.results.contains(&Some(id)) => call.arguments.first(),
        _ => None,
    });
    match cast {
        Some(Value::Tensor(source)) => *source,
        _ => id,
    }
}
