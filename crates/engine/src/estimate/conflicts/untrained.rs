//! Trainings in which nothing learns.

use vramfit_eager::forward::frozen_weights;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::{Input, Mode, Weight};

use crate::arguments::{LossKind, RunSettings};
use vramfit_report::failure::Failure;

/// Refuses a backward pass that PyTorch refuses: no weight and no input requires a gradient.
pub fn refuse_untrained(options: &RunSettings, bound: &Bound<'_>) -> Result<(), Failure> {
    let has_loss = bound.variant.loss.is_some() || options.loss != Some(LossKind::None);
    if bound.variant.mode != Mode::Train || !has_loss {
        return Ok(());
    }
    // Names that the model does not have are refused where the training is checked.
    let frozen = frozen_weights(bound, &options.freeze).unwrap_or_default();
    let is_trained = |weight: &Weight| weight.requires_grad && !frozen.contains(&weight.tensor);
    let tensors = &bound.model.tensors[bound.variant.tensors];
    let has_gradient = |input: &Input| tensors[input.tensor.0 as usize].requires_grad;
    if bound.model.parameters.iter().any(is_trained) || bound.model.inputs.iter().any(has_gradient) {
        return Ok(());
    }
    let tuning = &options.at.fine_tuning;
    let (flag, hint) = match (tuning.quantize.is_some() && tuning.lora.is_none(), options.freeze.is_empty()) {
        (true, _) => (
            "--quantize",
            "quantised weights are frozen: --lora adds adapters that are trained; --mode eval trains nothing",
        ),
        (false, false) => ("--freeze", "freeze fewer weights; --mode eval is for a model that is not trained"),
        (false, true) => (
            "parameters",
            "capture it with weights that require a gradient; --mode eval is for a model that is not trained",
        ),
    };
    let model = &options.at.model;
    Err(Failure::new(format!(
        "{model}: {flag}: found no weight to train, needed one: PyTorch refuses the backward pass"
    ))
    .with_hint(Some(hint)))
}
