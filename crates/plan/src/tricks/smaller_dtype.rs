//! A smaller element type for the whole model, including weights, gradients and optimizer state.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Precision;
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
            true => "model = model.to(torch.bfloat16)",
            false => "model = model.to(torch.float16)",
        }
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.variant.amp.is_some() {
            return Err("autocast is on, which needs single-precision weights".to_owned());
        }
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
        match setup.variant.dtype {
            None => "weights as built".to_owned(),
            Some(dtype) => format!("the whole model in {}", dtype.short_name()),
        }
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        match setup.variant.dtype {
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

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if let Some(dtype) = setup.variant.dtype {
            code.model_calls += &format!(".to(torch.{})", dtype.name());
        }
    }

    fn fill(&self, _bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        parts.dtype = setup.variant.dtype.map(Dtype::name);
    }
}
