//! Weights that the training does not change, though the captured model trains them.

use std::collections::BTreeSet;

use smallvec::SmallVec;
use vramfit_graph::bind::{Bound, BoundCall, BoundStep, Value};
use vramfit_graph::model::{Cast, TensorId};

use super::Forward;
use super::module_choice::{UnknownModule, matches_part, named};
use crate::autograd::Context;

/// The weights that these names choose: each is the name of a weight, or of a module whose weights are chosen; `*` matches
/// within one part between dots.
///
/// # Errors
/// The model has no weight of such a name.
pub fn frozen_weights(bound: &Bound<'_>, names: &[String]) -> Result<BTreeSet<TensorId>, UnknownModule> {
    let weights = &bound.model.parameters;
    let mut frozen = BTreeSet::new();
    for wanted in names {
        let before = frozen.len();
        let chosen = weights.iter().filter(|weight| weight.names.iter().any(|name| chooses(wanted, name)));
        let mut is_any = false;
        frozen.extend(chosen.inspect(|_| is_any = true).map(|weight| weight.tensor));
        if frozen.len() == before && !is_any {
            let present = weights.iter().filter_map(|weight| weight.names.first()).map(String::as_str);
            return Err(UnknownModule {
                flag: "--freeze",
                wanted: wanted.clone(),
                reason: "no weight of the model has such a name".to_owned(),
                present: named(present.collect()),
            });
        }
    }
    Ok(frozen)
}

/// Whether a pattern chooses a weight: whether the first parts of the weight's name match it.
pub fn chooses(pattern: &str, name: &str) -> bool {
    let (wanted, found): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), name.split('.').collect());
    wanted.len() <= found.len() && wanted.iter().zip(&found).all(|(wanted, found)| matches_part(wanted, found))
}

/// The casts of frozen weights, with the steps that make them. Autocast keeps casts only of weights that are trained.
pub(super) fn casts_of(bound: &Bound<'_>, frozen: &BTreeSet<TensorId>) -> Vec<(TensorId, usize)> {
    let mut casts = Vec::new();
    for (index, step) in bound.steps.iter().enumerate().filter(|_| !frozen.is_empty()) {
        if let BoundStep::Call(call) = step
            && call.cast == Cast::Kept
            && matches!(call.arguments.first(), Some(Value::Tensor(id)) if frozen.contains(id))
        {
            casts.extend(call.results.iter().flatten().map(|&id| (id, index)));
        }
    }
    casts
}

impl Forward<'_> {
    /// Casts frozen weights again for a call that uses them.
    pub(super) fn cast_frozen(&mut self, context: &mut Context, call: &BoundCall<'_>) {
        let mut needed: SmallVec<[usize; 2]> = SmallVec::new();
        call.each_tensor(&mut |id: TensorId| {
            if let Some(&made) = self.passes.frozen_casts.get(&id)
                && self.tensors[id.0 as usize].is_none()
            {
                needed.push(made);
            }
        });
        for made in needed {
            let steps = &self.bound.steps;
            self.step(context, made, &steps[made]);
        }
    }

    /// Frees the casts of frozen weights that a call has used.
    pub(super) fn drop_frozen_casts(&mut self, call: &BoundCall<'_>) {
        let (passes, tensors) = (self.passes, &mut self.tensors);
        call.each_tensor(&mut |id: TensorId| {
            if passes.frozen_casts.contains_key(&id) {
                tensors[id.0 as usize] = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chooses_a_weight_or_all_weights_of_a_module() {
        assert!(chooses("h.0", "h.0.norm.weight"));
        assert!(chooses("h.*.norm", "h.0.norm.weight"));
        assert!(chooses("h.0.norm.weight", "h.0.norm.weight"));
        assert!(!chooses("h.1", "h.10.norm.weight"));
        assert!(!chooses("h.0.norm", "h.0"));
    }
}
