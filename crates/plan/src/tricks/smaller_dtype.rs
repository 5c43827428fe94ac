//! A smaller element type for the whole model, including weights, gradients and optimizer state.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Input, Precision};
use vramfit_graph::select::select_variant;

use super::half_precision;
use super::role::Role;
use super::trick::Trick;
use crate::parts::Parts;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct SmallerDtype;

impl Trick for SmallerDtype {
    fn name(&self) -> &'static str {
        "smaller dtype"
    }

    fn setting(&self) -> &'static str {
        "dtype"
    }

    fn role(&self) -> Role {
        Role::Precision { casts_weights: true }
    }

    fn conflicts(&self) -> &'static str {
        "autocast, which needs single-precision weights"
    }

    fn code(&self, bench: &Workbench<'_>) -> &'static str {
        match bench.device.gpu.compute.has_bfloat16() {
            true => "model = model.to(torch.bfloat16)  # and inputs and targets in floating point",
            false => "model = model.to(torch.float16)  # and inputs and targets in floating point",
        }
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.variant.amp.is_some() {
            return Err("autocast is on, which needs single-precision weights".to_owned());
        }
        half_precision::refuse_mixed(start)?;
        let given = select_variant(bench.model, start.variant).map_err(|error| error.to_string())?;
        let is_small = |dtype: Dtype| matches!(dtype, Dtype::Bfloat16 | Dtype::Float16);
        let is_in_half = match bench.model.variants[given].precision {
            Precision::Cast(dtype) => is_small(dtype),
            // Buffers may be in single precision, as rotary embeddings keep theirs: they are not what takes memory.
            Precision::AsBuilt => {
                let trained = || bench.model.parameters.iter().filter(|weight| weight.dtype.is_differentiable());
                trained().next().is_some() && trained().all(|weight| is_small(weight.dtype))
            }
            Precision::Autocast(_) => false,
        };
        if is_in_half {
            return Err("the model is in half precision already".to_owned());
        }
        half_precision::setups(bench, start, |setup, dtype| setup.variant.dtype = Some(dtype))
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.variant.dtype = from.variant.dtype;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.cast_to() {
            None => "weights as built".to_owned(),
            Some(dtype) => format!("the whole model in {}", dtype.short_name()),
        }
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        match setup.cast_to() {
            Some(Dtype::Float16) => Some(
                "pure fp16 training overflows at 65,504 and loses gradients below 6e-8: most models do not train this way"
                    .to_owned(),
            ),
            Some(Dtype::Bfloat16) => Some(
                "with 8 significant bits small updates are lost: an update below 1/256 of a weight changes nothing"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let Some(dtype) = setup.cast_to() else { return };
        let cast = format!(".to(torch.{})", dtype.name());
        code.model_calls += &cast;
        let Some(bound) = bench.bind(setup) else { return };
        let is_float = |input: &Input| bound.tensor(input.tensor).dtype.is_differentiable();
        let (inputs, targets) = (bound.model.inputs.iter().any(is_float), bound.model.targets.iter().any(is_float));
        let what = match (inputs, targets) {
            (true, true) => "inputs and targets",
            (true, false) => "inputs",
            (false, true) => "targets",
            (false, false) => return,
        };
        if !setup.training.has_fresh_inputs || bound.model.targets.len() > 1 {
            code.batches_are.line(0, &format!("# floating-point {what} are {cast} before they are on the GPU;"));
        }
        if inputs {
            code.batch_changes.line(0, "for name, tensor in inputs.items():");
            code.batch_changes.line(1, "if tensor.is_floating_point():");
            code.batch_changes.line(2, &format!("inputs[name] = tensor{cast}"));
        }
        if targets && bound.model.targets.len() == 1 {
            code.batch_changes.line(0, &format!("targets = targets{cast}"));
        }
    }

    fn fill(&self, _bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        parts.dtype = setup.cast_to().map(Dtype::name);
    }
}
