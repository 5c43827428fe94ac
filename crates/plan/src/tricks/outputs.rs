//! Letting go of outputs: `del outputs` before the backward pass, `del loss` after it.

use super::Trick;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct LettingGo;

impl Trick for LettingGo {
    fn name(&self) -> &'static str {
        "letting go of outputs"
    }

    fn effect(&self) -> Effect {
        Effect::None
    }

    fn conflicts(&self) -> &'static str {
        "metrics that need the outputs later: take .detach().cpu() of what they need first"
    }

    fn written(&self) -> &'static str {
        "del outputs; loss.backward(); del loss"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.releases_outputs {
            return Err("the script lets go of them already".to_owned());
        }
        let mut setup = start.clone();
        setup.training.releases_outputs = true;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.releases_outputs = from.training.releases_outputs;
    }

    fn state(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.training.releases_outputs {
            false => "outputs and loss held until the next iteration".to_owned(),
            true => "del outputs before backward, del loss after it".to_owned(),
        }
    }
}
