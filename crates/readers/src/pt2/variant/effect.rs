//! What calls do in this mode: training's own parts are turned off for evaluation, and calls without effect pass on what
//! they are given.

use super::super::flatten::FlatCall;
use super::Builder;
use vramfit_eager::operators::Evaluation;
use vramfit_graph::model::{Argument, TensorId};

impl Builder<'_> {
    /// Turns off what training alone does.
    pub(super) fn turn_off(&mut self, call: &mut FlatCall) {
        let (flag, off) = match self.operators.facts(call.operator).evaluation {
            Evaluation::Unchanged => return,
            Evaluation::Unsets(flag) => (flag, Argument::Bool(false)),
            Evaluation::Zeroes(probability) => (probability, Argument::Float(0.0)),
        };
        let Some(at) = self.operators.argument(call.operator, flag) else { return };
        if call.arguments[at] != off {
            self.calls.has_turned_off = true;
            call.arguments[at] = off;
        }
    }

    /// A torch without CUDA says that cuDNN is off, and the tracer writes it down; training has it on.
    pub(super) fn enable_cudnn(&mut self, call: &mut FlatCall) {
        let at = self.operators.argument(call.operator, "cudnn_enabled");
        if let Some(argument) = at.and_then(|at| call.arguments.get_mut(at)) {
            *argument = Argument::Bool(true);
        }
    }

    /// Whether a call returns its first argument as it is.
    pub(super) fn is_without_effect(&self, call: &FlatCall) -> bool {
        let (Some(Argument::Tensor(source)), [Some(result)]) = (call.arguments.first(), &call.results[..]) else {
            return false;
        };
        let name = self.operators.name(call.operator);
        let base = name.strip_prefix("aten.").unwrap_or(name).split('.').next().unwrap_or("");
        let argument = |name: &str| self.operators.argument(call.operator, name).and_then(|at| call.arguments.get(at));
        match base {
            "to" | "_to_copy" | "type_as" => {
                let dtype = self.result_dtype(call, *result);
                let is_moved = self.is_on_host(*source) != self.flat.values[result.0 as usize].is_on_host;
                let is_copied = name.starts_with("aten._to_copy") || argument("copy") == Some(&Argument::Bool(true));
                dtype == self.calls.dtypes[source.0 as usize] && !is_moved && !is_copied
            }
            "dropout" | "feature_dropout" | "alpha_dropout" | "feature_alpha_dropout" => {
                argument("train") == Some(&Argument::Bool(false)) || argument("p") == Some(&Argument::Float(0.0))
            }
            "detach_" => !self.calls.requires_grad[source.0 as usize],
            "lift_fresh" | "lift_fresh_copy" | "positive" | "resolve_conj" | "resolve_neg" => true,
            _ => false,
        }
    }

    /// Lets tensors of one shape pass through `broadcast_tensors`, which returns them as they are.
    pub(super) fn pass_broadcast(&mut self, call: &FlatCall) -> bool {
        if self.operators.name(call.operator) != "aten.broadcast_tensors.default" {
            return false;
        }
        let Some(Argument::List(sources)) = call.arguments.first() else { return false };
        let shape = |tensor: TensorId| &self.flat.values[tensor.0 as usize].shape;
        let mut pairs = Vec::new();
        for (source, result) in sources.iter().zip(&call.results) {
            match (source, result) {
                (Argument::Tensor(source), Some(result)) if shape(*source) == shape(*result) => {
                    pairs.push((*source, *result))
                }
                _ => return false,
            }
        }
        for (source, result) in pairs {
            self.calls.same[result.0 as usize] = source;
        }
        true
    }

    pub(super) fn pass_through(&mut self, call: &FlatCall) {
        if let (Some(Argument::Tensor(source)), Some(Some(result))) = (call.arguments.first(), call.results.first()) {
            self.calls.same[result.0 as usize] = *source;
        }
    }
}
