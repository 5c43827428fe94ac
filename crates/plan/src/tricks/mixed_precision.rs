//! Mixed precision: autocast, with a GradScaler for fp16.

use vramfit_graph::dtype::Dtype;
use vramfit_training::StatePlace;
use vramfit_training::script::Parallel;

use super::half_precision;
use super::role::Role;
use super::trick::Trick;
use crate::parts::Parts;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct MixedPrecision;

impl Trick for MixedPrecision {
    fn name(&self) -> &'static str {
        "mixed precision"
    }

    fn setting(&self) -> &'static str {
        "amp"
    }

    fn role(&self) -> Role {
        Role::Precision { casts_weights: false }
    }

    fn conflicts(&self) -> &'static str {
        "a model that is cast to half precision as a whole"
    }

    fn code(&self, bench: &Workbench<'_>) -> &'static str {
        match bench.device.gpu.compute.has_bfloat16() {
            true => "with torch.autocast(\"cuda\", dtype=torch.bfloat16): …  # fp16 also needs torch.amp.GradScaler",
            false => "with torch.autocast(\"cuda\", dtype=torch.float16): …  # with torch.amp.GradScaler",
        }
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.variant.amp.is_some() {
            return Err("autocast is on already".to_owned());
        }
        if start.training.parallel.has_engine() {
            return Err("DeepSpeed's torch_autocast is not simulated".to_owned());
        }
        half_precision::refuse_mixed(start)?;
        let mut setups = half_precision::setups(bench, start, |setup, dtype| setup.variant.amp = Some(dtype))?;
        if start.training.steps_in_backward || start.training.optimizer_state == StatePlace::Cpu {
            // A GradScaler needs all gradients on the GPU before the update.
            setups.retain(|setup| setup.variant.amp != Some(Dtype::Float16));
        }
        if setups.is_empty() { Err("fp16 needs a GradScaler".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.variant.amp = from.variant.amp;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.variant.amp {
            None => "no autocast".to_owned(),
            Some(Dtype::Float16) => "autocast fp16 with a GradScaler".to_owned(),
            Some(dtype) => format!("autocast {}", dtype.short_name()),
        }
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let Some(dtype) = setup.variant.amp else { return };
        // A rank's `device` is an object with its number, and both take a name.
        let device = if setup.training.parallel == Parallel::None { "device" } else { "device.type" };
        code.forward_contexts.push(format!("torch.autocast({device}, dtype=torch.{})", dtype.name()));
        if dtype == Dtype::Float16 {
            code.after_optimizer.line(0, &format!("scaler = torch.amp.GradScaler({device})"));
            code.backward = "scaler.scale(loss).backward()".to_owned();
            let unscale = code.for_each_optimizer("scaler.unscale_(optimizer)");
            code.before_clipping.extend(0, &unscale);
            code.update = code.for_each_optimizer("scaler.step(optimizer)");
            code.update.line(0, "scaler.update()");
        }
    }

    fn fill(&self, _bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        parts.amp = setup.variant.amp.map(Dtype::name);
    }
}
