//! The recorded backwards of custom autograd functions, with numbers for sizes.

use std::sync::Arc;

use super::bound::{BoundBackward, BoundTensor};
use super::error::BindError;
use super::evaluate::Binder;
use crate::model::{Call, RecordedBackward, Step, Variant};

/// Binds the backwards of the variant in this row; `tensors` are its bound tensors.
pub(super) fn bind_functions<'model>(
    binder: &Binder<'model, '_>,
    variant: &'model Variant,
    row: usize,
    tensors: &[BoundTensor],
) -> Result<Vec<Arc<BoundBackward>>, BindError> {
    let mut functions = Vec::with_capacity(variant.functions.len());
    for (number, function) in variant.functions.iter().enumerate().filter(|(_, function)| function.is_complete()) {
        let location = format!("variants[{row}].functions[{number}]");
        functions.push(Arc::new(bind_function(binder, function, &location, tensors)?));
    }
    Ok(functions)
}

fn bind_function<'model>(
    binder: &Binder<'model, '_>,
    function: &'model RecordedBackward,
    location: &str,
    tensors: &[BoundTensor],
) -> Result<BoundBackward, BindError> {
    let RecordedBackward { end, arguments, kept, gradients, results, steps } = function;
    let mut bound = BoundBackward {
        end: *end,
        arguments: arguments.clone(),
        kept: kept.clone(),
        gradients: gradients.clone(),
        results: results.clone(),
        steps: Vec::with_capacity(steps.len()),
        tensors: Default::default(),
    };
    for (at, step) in steps.iter().enumerate() {
        // What else may be among them makes no requests.
        bound.steps.push(match step {
            Step::Call(call) => {
                for id in call.results.iter().flatten() {
                    bound.tensors.entry(*id).or_insert_with(|| tensors[id.0 as usize].clone());
                }
                let call = binder.call(call, &|| format!("{location}.steps[{at}]"))?;
                let Call { operator, arguments, results, source, cast } = call;
                Step::Call(Call { operator, arguments, results: results.to_vec(), source, cast })
            }
            Step::Free(tensors) => Step::Free(tensors.clone()),
            Step::Autocast { is_gpu, dtype, is_enabled, has_cache } => {
                Step::Autocast { is_gpu: *is_gpu, dtype: *dtype, is_enabled: *is_enabled, has_cache: *has_cache }
            }
            Step::EndAutocast => Step::EndAutocast,
            _ => continue,
        });
    }
    Ok(bound)
}
