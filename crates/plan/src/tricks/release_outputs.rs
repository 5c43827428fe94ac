//! Releasing outputs early: `del outputs` before the backward pass, `del loss` after it.

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::PrintedLoop;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct ReleaseOutputs;

impl Trick for ReleaseOutputs {
    fn name(&self) -> &'static str {
        "releasing outputs"
    }

    fn setting(&self) -> &'static str {
        "outputs"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: 0 }
    }

    fn conflicts(&self) -> &'static str {
        "metrics that need the outputs later: copy what they need with .detach().cpu() first"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "del outputs; loss.backward(); del loss"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.releases_outputs {
            return Err("the script releases its outputs already".to_owned());
        }
        let mut setup = start.clone();
        setup.training.releases_outputs = true;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.releases_outputs = from.training.releases_outputs;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.training.releases_outputs {
            false => "outputs and loss held until the next iteration".to_owned(),
            true => "del outputs before backward, del loss after it".to_owned(),
        }
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if setup.training.releases_outputs {
            code.before_backward.line(0, "del outputs");
            code.after_backward.line(0, "del loss  # take loss.item() before, for the log");
        }
    }
}
