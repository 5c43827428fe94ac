//! What cannot be combined with updates in the backward pass, on the CPU, or by groups of weights.

use vramfit_training::optimizer::{Implementation, Kind, Library};

use crate::arguments::{AutocastDtype, RunSettings, StateLocation};
use vramfit_report::failure::Failure;

/// A flag that a combination must not have.
#[derive(Clone, Copy)]
struct Obstacle {
    flag: &'static str,
    is_given: bool,
    why: &'static str,
}

/// Refuses what cannot be combined.
pub fn refuse(options: &RunSettings) -> Result<(), Failure> {
    let kind = options.optimizer.0;
    let has_groups = options.optimizer_groups.is_some();
    let obstacle = |flag, is_given, why| Obstacle { flag, is_given, why };
    let none = obstacle("--optimizer none", kind == Kind::None, "there is no update");
    let muon = obstacle("--optimizer muon", kind == Kind::Muon, "it is two optimizers");
    let is_scaled = options.at.amp == Some(AutocastDtype::Fp16);
    let scaler = obstacle("--amp fp16", is_scaled, "its GradScaler needs all gradients on the GPU before the update");
    let groups = obstacle("--optimizer-groups", has_groups, "all weights must be one group");
    if options.step_in_backward {
        let accumulation = obstacle("--accumulate", options.accumulate > 1, "each backward pass updates the weights");
        let clipping = obstacle("--clip-grad", options.clip_grad, "clipping needs all gradients at once");
        first_of("--step-in-backward", &[accumulation, clipping, none, scaler, groups, muon])?;
    }
    if options.optimizer_state == StateLocation::Cpu {
        let is_fused = options.optimizer_impl.0 == Implementation::Fused;
        let fused = obstacle("--optimizer-impl fused", is_fused, "only for-loop and foreach are simulated on the CPU");
        first_of("--optimizer-state cpu", &[none, fused, scaler, groups, muon])?;
        if kind.library() != Library::Torch {
            let (name, library) = (kind.name(), kind.library().module());
            let message =
                format!("--optimizer-state cpu: found {name} of {library}, needed an optimizer of torch.optim");
            return Err(Failure::new(message));
        }
    }
    if has_groups {
        first_of("--optimizer-groups", &[none, muon])?;
    }
    Ok(())
}

fn first_of(flag: &str, obstacles: &[Obstacle]) -> Result<(), Failure> {
    match obstacles.iter().find(|obstacle| obstacle.is_given) {
        Some(found) => Err(Failure::new(format!("{flag}: found {}: {}", found.flag, found.why))),
        None => Ok(()),
    }
}
