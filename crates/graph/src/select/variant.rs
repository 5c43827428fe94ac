//! The variant for a precision and mode.

use std::collections::BTreeSet;

use super::error::VariantError;
use crate::dtype::Dtype;
use crate::model::{Input, Mode, Model, Precision, Weight};

/// The flags that choose precision and mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VariantFlags {
    /// `--dtype`; `None` is as built.
    pub dtype: Option<Dtype>,
    /// `--amp`.
    pub amp: Option<Dtype>,
    /// `--mode eval`.
    pub is_eval: bool,
    /// `--grad`: evaluation builds the autograd graph.
    pub has_grad: bool,
}

/// The index of the variant that the flags ask for.
pub fn select_variant(model: &Model, flags: VariantFlags) -> Result<usize, VariantError> {
    let present: Vec<(Precision, Mode)> = model.variants.iter().map(|it| (it.precision, it.mode)).collect();
    choose(model.parameters.iter().chain(&model.buffers), &model.inputs, &present, flags)
}

/// The index in `present` of what the flags ask for, for a model with these weights and inputs.
pub fn choose<'a>(
    weights: impl Iterator<Item = &'a Weight>,
    inputs: &[Input],
    present: &[(Precision, Mode)],
    flags: VariantFlags,
) -> Result<usize, VariantError> {
    let mode = match (flags.is_eval, flags.has_grad) {
        (false, _) => Mode::Train,
        (true, false) => Mode::Eval,
        (true, true) => Mode::EvalGrad,
    };
    let weights = floating_dtypes(weights.map(|weight| weight.dtype));
    let mut built = floating_dtypes(inputs.iter().map(|input| input.dtype));
    built.extend(&weights);
    let is_built_as = |dtype: Dtype| built.iter().all(|found| *found == dtype);
    let precision = match (flags.dtype, flags.amp) {
        (None, None) => Precision::AsBuilt,
        (Some(dtype), None) => Precision::Cast(dtype),
        (Some(Dtype::Float32), Some(amp)) => Precision::Autocast(amp),
        (None, Some(amp)) if weights.iter().all(|found| *found == Dtype::Float32) => Precision::Autocast(amp),
        (Some(dtype), Some(_)) => return Err(VariantError::AutocastWeights { found: dtype.to_string() }),
        (None, Some(_)) => {
            let found: Vec<&str> = weights.iter().map(|dtype| dtype.name()).collect();
            return Err(VariantError::AutocastWeights { found: found.join(" and ") });
        }
    };
    let find = |precision| present.iter().position(|it| *it == (precision, mode));
    let same = match precision {
        Precision::Cast(dtype) if is_built_as(dtype) => Some(Precision::AsBuilt),
        Precision::AsBuilt if built.len() == 1 => built.first().map(|dtype| Precision::Cast(*dtype)),
        _ => None,
    };
    find(precision).or_else(|| same.and_then(find)).ok_or_else(|| VariantError::NotRecorded {
        wanted: name(precision, mode),
        present: present.iter().map(|(precision, mode)| name(*precision, *mode)).collect::<Vec<_>>().join(", "),
    })
}

/// The real floating-point types among these: those that `.to(dtype)` casts.
fn floating_dtypes(dtypes: impl Iterator<Item = Dtype>) -> BTreeSet<Dtype> {
    dtypes.filter(|dtype| dtype.is_differentiable() && !dtype.is_complex()).collect()
}

fn name(precision: Precision, mode: Mode) -> String {
    format!("{precision} {mode}")
}
