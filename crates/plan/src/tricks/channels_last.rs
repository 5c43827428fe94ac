//! Channels last: the convolutions of tensor cores then need no copies of images in another layout.

use super::role::Role;
use super::trick::Trick;
use crate::forms::Adapters;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct ChannelsLast;

impl Trick for ChannelsLast {
    fn name(&self) -> &'static str {
        "channels last"
    }

    fn setting(&self) -> &'static str {
        "channels-last"
    }

    fn role(&self) -> Role {
        Role::Layout
    }

    fn conflicts(&self) -> &'static str {
        "view() on images, which then has to be reshape() or flatten()"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "model = model.to(memory_format=torch.channels_last)\nimages = images.to(memory_format=torch.channels_last)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.has_channels_last {
            return Err("channels are last already".to_owned());
        }
        if start.adapters != Adapters::AsGiven {
            return Err("the model is frozen".to_owned());
        }
        let mut setup = start.clone();
        setup.training.has_channels_last = true;
        bench.try_bind(&setup).map_err(|error| error.to_string().replace("--channels-last: ", ""))?;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.has_channels_last = from.training.has_channels_last;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        let place = if setup.training.has_channels_last { "last" } else { "as given" };
        format!("channels {place}")
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        let converts = setup.training.has_channels_last && setup.training.has_fresh_inputs;
        converts.then(|| {
            "the time does not count giving the images channels last on the CPU: let the workers of the loader do it".to_owned()
        })
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if !setup.training.has_channels_last {
            return;
        }
        code.model_calls += ".to(memory_format=torch.channels_last)";
        if !setup.training.has_fresh_inputs {
            let images = "# images are .to(memory_format=torch.channels_last) before they are on the GPU;";
            code.batches_are.line(0, images);
            return;
        }
        code.batch_changes.line(0, "for name, tensor in inputs.items():");
        code.batch_changes.line(1, "if tensor.dim() == 4:  # on the CPU; better in the loader's workers");
        code.batch_changes.line(2, "inputs[name] = tensor.to(memory_format=torch.channels_last)");
    }
}
