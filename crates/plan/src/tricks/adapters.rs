//! Low-rank adapters on the frozen model (LoRA), and the frozen weights in four bits (QLoRA).

use vramfit_adapters::{Quantize, TURNED, Targets};

use super::role::Role;
use super::trick::Trick;
use crate::forms::{Adapters, Forms};
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct TrainAdapters;

impl Trick for TrainAdapters {
    fn name(&self) -> &'static str {
        "adapters"
    }

    fn setting(&self) -> &'static str {
        "adapters"
    }

    fn role(&self) -> Role {
        Role::WeightState
    }

    fn conflicts(&self) -> &'static str {
        "training from scratch: adapters change a trained model a little; quantised weights: autocast"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "get_peft_model(model, LoraConfig())  # QLoRA: with bitsandbytes' Linear4bit in place of nn.Linear"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.adapters != Adapters::AsGiven {
            return Err("the model has adapters already".to_owned());
        }
        let has_bitsandbytes = bench.device.gpu.compute.has_bitsandbytes();
        let forms = [Adapters::Lora, Adapters::Qlora];
        let setups: Vec<Setup> = forms
            .into_iter()
            .filter(|adapters| bench.forms.model(*adapters).is_some())
            // Under autocast quantised layers return other types than were captured.
            .filter(|adapters| *adapters != Adapters::Qlora || has_bitsandbytes && start.variant.amp.is_none())
            .map(|adapters| Setup { adapters, is_in_place: false, ..start.clone() })
            .collect();
        match (setups.is_empty(), bench.forms.why_not()) {
            (false, _) => Ok(setups),
            (true, Some(reason)) => Err(reason.to_owned()),
            (true, None) => Err("the model has no layers that peft adapts".to_owned()),
        }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.adapters = from.adapters;
        setup.is_in_place &= setup.adapters == Adapters::AsGiven;
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        match (setup.adapters, bench.forms.lora()) {
            (Adapters::Lora, Some(lora)) => format!("LoRA of rank {}", lora.rank),
            (Adapters::Qlora, Some(lora)) => format!("QLoRA: weights in NF4, LoRA of rank {}", lora.rank),
            _ => "all weights trained".to_owned(),
        }
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        (setup.adapters != Adapters::AsGiven).then(|| {
            "only the adapters learn: for fine-tuning a trained model, not for training from scratch".to_owned()
        })
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if setup.adapters == Adapters::AsGiven {
            return;
        }
        if setup.adapters == Adapters::Qlora {
            code.imports.line(0, "import bitsandbytes as bnb");
            let has_turned = bench.model.modules.iter().any(|module| module.class == TURNED);
            if has_turned {
                code.imports.line(0, "from transformers.pytorch_utils import Conv1D");
            }
            quantize(&bench.forms, has_turned, &mut code.before_move);
        }
        code.imports.line(0, "from peft import LoraConfig, get_peft_model");
        let mut arguments = Vec::new();
        if let Some(lora) = bench.forms.lora() {
            arguments.push(format!("r={}", lora.rank));
            match &lora.targets {
                Targets::Default => {}
                Targets::AllLinear => arguments.push("target_modules=\"all-linear\"".to_owned()),
                Targets::Named(names) => arguments.push(format!("target_modules={names:?}")),
            }
            if lora.dropout > 0 {
                arguments.push(format!("lora_dropout={}", f64::from(lora.dropout) / 1e6));
            }
        }
        code.before_move.call(0, "config = LoraConfig", &arguments, "");
        code.before_move.line(0, "# Changes the model itself; `adapted.save_pretrained` saves the adapters.");
        code.before_move.line(0, "adapted = get_peft_model(model, config)");
    }
}

/// Replaces linear layers by bitsandbytes', with the weights they have; `.to(device)` quantises them.
fn quantize(forms: &Forms<'_>, has_turned: bool, lines: &mut Lines) {
    let Some(Quantize::Nf4 { compute }) = forms.quantize() else { return };
    lines.line(0, "for name, layer in list(model.named_modules()):");
    let output = forms.output().unwrap_or_default();
    let classes = if has_turned { "not in (torch.nn.Linear, Conv1D)" } else { "is not torch.nn.Linear" };
    lines.line(1, &format!("if type(layer) {classes} or name == \"{output}\":"));
    lines.line(2, "continue");
    lines.line(1, "weight = layer.weight.data");
    if has_turned {
        lines.line(1, "if type(layer) is Conv1D:  # its weight is turned round");
        lines.line(2, "weight = weight.T.contiguous()");
    }
    let arguments = [
        "weight.shape[1]".to_owned(),
        "weight.shape[0]".to_owned(),
        "layer.bias is not None".to_owned(),
        format!("compute_dtype=torch.{}", compute.name()),
        "quant_type=\"nf4\"".to_owned(),
    ];
    lines.call(1, "quantized = bnb.nn.Linear4bit", &arguments, "");
    let arguments = ["weight", "requires_grad=False", "quant_type=\"nf4\"", "module=quantized"];
    lines.call(1, "quantized.weight = bnb.nn.Params4bit", &arguments, "");
    lines.line(1, "quantized.bias = layer.bias");
    lines.line(1, "model.set_submodule(name, quantized)");
    lines.line(0, "model.is_loaded_in_4bit = True  # so that peft takes its layers for 4 bits");
}
