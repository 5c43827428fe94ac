//! The optimizer that the file names.

use vramfit_training::optimizer::{Implementation, Kind};

use super::Both;
use crate::arguments::{ImplementationName, OptimizerName, RunSettings, StateLocation};
use vramfit_report::failure::Failure;

/// Takes the file's optimizer. Returns what to know about it.
pub(super) fn read(run: &mut RunSettings, both: Both<'_>) -> Result<Option<String>, Failure> {
    let file = both.file;
    let Some(name) = file.text("optimizer.type")? else { return Ok(None) };
    let is_of_torch = file.truth("optimizer.params.torch_adam")?.unwrap_or(false);
    // DeepSpeed's Adam decays weights as AdamW does, unless it is told otherwise.
    let is_decoupled = file.truth("optimizer.params.adam_w_mode")?.unwrap_or(true);
    let kind = match name.to_lowercase().as_str() {
        "adamw" => Kind::AdamW,
        "adam" if is_decoupled => Kind::AdamW,
        "adam" => Kind::Adam,
        "adagrad" => Kind::Adagrad,
        _ => {
            return Err(file
                .failure(&format!(
                    "optimizer.type: found {name}, which is not simulated; needed Adam, AdamW or Adagrad"
                ))
                .with_hint(Some("for an optimizer that the script passes to deepspeed.initialize, use --optimizer")));
        }
    };
    let is_fused = kind != Kind::Adagrad && !is_of_torch && run.optimizer_state == StateLocation::Gpu;
    let implementation = if is_fused { Implementation::Fused } else { Implementation::Default };
    let key = "optimizer.type";
    both.agreed("optimizer", &run.optimizer.0.name(), key, Some(kind.name()))?;
    both.agreed("optimizer-impl", &run.optimizer_impl.0.name(), key, Some(implementation.name()))?;
    run.optimizer = OptimizerName(kind);
    run.optimizer_impl = ImplementationName(implementation);
    run.weight_decay |= file.real("optimizer.params.weight_decay")?.is_some_and(|decay| decay != 0.0);
    Ok(is_fused.then(|| {
        format!(
            "{}: optimizer.type {name} is DeepSpeed's FusedAdam, simulated as the fused implementation of torch.optim",
            file.path
        )
    }))
}
