//! Buffers that keep their type where the weights are cast: `fully_shard` casts weights and inputs, and no buffers.
//!
//! The pass was captured with buffers cast too. So views of a buffer get its real type, and casts to that type return the tensor
//! itself. What else an operator does with such a tensor is not known.

use vramfit_graph::bind::BoundCall;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::TensorId;

use super::Forward;

impl Forward<'_> {
    /// The first argument whose type is not the captured one, with its type.
    pub(super) fn kept_type(&self, call: &BoundCall<'_>) -> Option<(TensorId, Dtype)> {
        self.hooks.as_ref()?;
        let mut found = None;
        call.each_tensor(&mut |id: TensorId| {
            if let Some(tensor) = &self.tensors[id.0 as usize]
                && tensor.dtype() != self.bound.tensor(id).dtype
            {
                found.get_or_insert((id, tensor.dtype()));
            }
        });
        found
    }

    /// Runs a call whose argument has kept its type, if it is a view or a cast. Any other is named as not modelled, and runs as
    /// captured.
    pub(super) fn call_on_kept_type(
        &mut self,
        index: usize,
        call: &BoundCall<'_>,
        (id, dtype): (TensorId, Dtype),
    ) -> bool {
        let source = self.tensors[id.0 as usize].clone();
        let result = call.results.iter().flatten().next().copied();
        let (Some(source), Some(result)) = (source, result) else { return false };
        let captured = self.bound.tensor(result);
        let made = if self.passes.facts(call).is_copy && captured.dtype == dtype {
            source
        } else if captured.is_view {
            source.view(Layout { dtype, shape: captured.shape.clone(), strides: captured.strides.clone() })
        } else {
            let name = format!("{} on a buffer that is not cast", self.bound.operator_name(call));
            self.missing.entry(name).or_default().push(index as u32);
            return false;
        };
        self.tensors[result.0 as usize] = Some(made);
        true
    }
}
