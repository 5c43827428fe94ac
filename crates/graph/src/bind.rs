//! Binding: a model with numbers in place of its symbols.
//!
//! [`bind`] evaluates each distinct expression and each distinct type once. What does not depend on the sizes is borrowed
//! from the model.

mod bound;
mod error;
mod evaluate;
mod function;
mod naming;
mod tensor;

use crate::model::{Model, Step};
use crate::select::{SIZE_LIMIT, Sizes};
use evaluate::Binder;

pub use bound::{Bound, BoundBackward, BoundCall, BoundStep, BoundTensor, Value};
pub use error::BindError;

/// Puts numbers in place of the symbols of one variant, or of the one with the same precision and mode that is for these
/// sizes.
///
/// The model must be one that a reader has accepted: every index in it is in range.
pub fn bind<'model>(model: &'model Model, variant: usize, sizes: &Sizes) -> Result<Bound<'model>, BindError> {
    let variant = model.variant_at(variant, sizes.as_slice()).unwrap_or(variant);
    let expected = bind_one(model, variant, sizes)?;
    let alternatives = model.alternatives(variant).filter_map(|other| bind_one(model, other, sizes).ok()).collect();
    Ok(Bound { alternatives, ..expected })
}

fn bind_one<'model>(model: &'model Model, index: usize, sizes: &Sizes) -> Result<Bound<'model>, BindError> {
    let count = model.variants.len();
    let variant = model.variants.get(index).ok_or(BindError::UnknownVariant { found: index, count })?;
    check_sizes(model, sizes)?;
    let binder = Binder::new(model, variant, sizes);
    let tensors = tensor::bind_tensors(&binder, &model.types[variant.types], &model.tensors[variant.tensors])?;
    let section = &model.steps[variant.steps];
    let mut steps = Vec::with_capacity(section.len());
    for (at, step) in section.iter().enumerate() {
        steps.push(bind_step(&binder, step, (variant.steps, at))?);
    }
    let functions = function::bind_functions(&binder, variant, index, &tensors)?;
    let (sizes, alternatives) = (sizes.clone(), Vec::new());
    Ok(Bound { model, variant_index: index, variant, sizes, tensors, steps, functions, alternatives })
}

fn check_sizes(model: &Model, sizes: &Sizes) -> Result<(), BindError> {
    if sizes.as_slice().len() != model.symbols.len() {
        return Err(BindError::WrongSymbolCount { found: sizes.as_slice().len(), needed: model.symbols.len() });
    }
    for (symbol, value) in model.symbols.iter().zip(sizes.as_slice()) {
        if !(1..SIZE_LIMIT).contains(value) {
            return Err(BindError::SizeOutOfRange { symbol: symbol.name.clone(), found: *value });
        }
    }
    Ok(())
}

fn bind_step<'model>(
    binder: &Binder<'model, '_>,
    step: &'model Step,
    at: (usize, usize),
) -> Result<BoundStep<'model>, BindError> {
    Ok(match step {
        Step::Call(call) => BoundStep::Call(binder.call(call, &|| format!("steps[{}][{}]", at.0, at.1))?),
        Step::Free(tensors) => BoundStep::Free(tensors),
        Step::Enter(module, tensors) => BoundStep::Enter(*module, tensors),
        Step::Exit(module, tensors) => BoundStep::Exit(*module, tensors),
        Step::Grad(is_enabled) => BoundStep::Grad(*is_enabled),
        Step::Autocast { is_gpu, dtype, is_enabled, has_cache } => {
            BoundStep::Autocast { is_gpu: *is_gpu, dtype: *dtype, is_enabled: *is_enabled, has_cache: *has_cache }
        }
        Step::EndAutocast => BoundStep::EndAutocast,
        Step::Checkpoint { is_reentrant, preserves_rng, arguments } => {
            BoundStep::Checkpoint { is_reentrant: *is_reentrant, preserves_rng: *preserves_rng, arguments }
        }
        Step::EndCheckpoint(results) => BoundStep::EndCheckpoint(results),
        Step::Function { name, arguments } => BoundStep::Function { name, arguments },
        Step::EndFunction { results, saved } => BoundStep::EndFunction { results, saved },
        Step::Loss => BoundStep::Loss,
        Step::EndLoss => BoundStep::EndLoss,
    })
}
