//! Settings that are one of a few, as JSON and pages name them.

use serde::Serialize;
use vramfit_eager::autograd::HostMemory;
use vramfit_graph::bind::Bound;
use vramfit_training::{AddedLoss, Loop};

/// A model's mode.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum ModeName {
    /// `model.train()`.
    Train,
    /// `model.eval()`.
    Eval,
}

impl ModeName {
    pub(super) fn name(self) -> &'static str {
        match self {
            ModeName::Train => "train",
            ModeName::Eval => "eval",
        }
    }
}

/// Where the optimizer's state is.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum StateName {
    /// On the GPU.
    Gpu,
    /// In the CPU's memory.
    Cpu,
}

impl StateName {
    pub(super) fn name(self) -> &'static str {
        match self {
            StateName::Gpu => "gpu",
            StateName::Cpu => "cpu",
        }
    }
}

/// Where `optimizer.zero_grad()` is called.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum ZeroGradName {
    /// Before the forward pass.
    BeforeForward,
    /// Between forward and backward pass.
    BeforeBackward,
}

impl ZeroGradName {
    pub(super) fn name(self) -> &'static str {
        match self {
            ZeroGradName::BeforeForward => "before-forward",
            ZeroGradName::BeforeBackward => "before-backward",
        }
    }
}

/// Whether inputs stay on the GPU.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum InputsName {
    /// Moved once.
    Kept,
    /// Copied each step.
    Fresh,
    /// The whole batch stays on the GPU; micro-batches are slices of it.
    Whole,
}

impl InputsName {
    pub(super) fn name(self) -> &'static str {
        match self {
            InputsName::Kept => "kept",
            InputsName::Fresh => "fresh",
            InputsName::Whole => "whole",
        }
    }
}

/// How long the script holds the model's outputs and the loss.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum OutputsName {
    /// Until the next iteration.
    Held,
    /// The outputs until the backward pass, the loss until its end.
    Released,
}

impl OutputsName {
    pub(super) fn name(self) -> &'static str {
        match self {
            OutputsName::Held => "held",
            OutputsName::Released => "released",
        }
    }
}

/// Where what autograd saves is kept.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum OffloadName {
    /// On the GPU.
    None,
    /// In pinned host memory.
    Pinned,
    /// In pageable host memory.
    Pageable,
}

impl OffloadName {
    pub(super) fn of(memory: Option<HostMemory>) -> OffloadName {
        match memory {
            None => OffloadName::None,
            Some(HostMemory::Pinned) => OffloadName::Pinned,
            Some(HostMemory::Pageable) => OffloadName::Pageable,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            OffloadName::None => "none",
            OffloadName::Pinned => "pinned",
            OffloadName::Pageable => "pageable",
        }
    }
}

/// Where the loss comes from.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum LossName {
    /// The captured step returns it.
    Captured,
    /// Added: the cross-entropy of the first output.
    CrossEntropy,
    /// Added: the mean of the first output.
    Mean,
    /// There is none, and so no backward pass.
    None,
}

impl LossName {
    pub(super) fn of(bound: &Bound<'_>, training: &Loop) -> LossName {
        match training.loss {
            _ if bound.variant.loss.is_some() => LossName::Captured,
            AddedLoss::CrossEntropy => LossName::CrossEntropy,
            AddedLoss::Mean => LossName::Mean,
            AddedLoss::None => LossName::None,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            LossName::Captured => "its own loss",
            LossName::CrossEntropy => "cross-entropy loss",
            LossName::Mean => "the output's mean as loss",
            LossName::None => "no loss",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            LossName::Captured => "captured",
            LossName::CrossEntropy => "cross-entropy",
            LossName::Mean => "mean",
            LossName::None => "none",
        }
    }
}
