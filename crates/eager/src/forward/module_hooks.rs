//! Hooks on modules.

use vramfit_graph::model::TensorId;

use crate::autograd::{Context, Tensor};

/// What `register_forward_pre_hook` and `register_forward_hook` register. A pass that runs a checkpointed module
/// again has hooks of its own.
pub trait ModuleHooks {
    /// A module, by its index, is called with the tensors `given`; the hook may give it others.
    fn entered(&self, context: &mut Context, module: u32, given: &[TensorId], tensors: &mut [Option<Tensor>]);

    /// The module returns `results`.
    fn left(&self, context: &mut Context, module: u32, results: &[TensorId], tensors: &mut [Option<Tensor>]);

    /// A checkpointed region that ran again has all that it needs: modules that are still open are left without a call of
    /// [`ModuleHooks::left`].
    fn stopped(&self) {}
}
