//! Fewer modules checkpointed than the subset that was found: each that is not needed runs once only.

use vramfit_step::checkpoint::Choice;
use vramfit_step::training::Run;

use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Takes modules out of the checkpointed ones while it still fits: the ones that cost most first, of equal ones the
/// last.
pub fn refine(bench: &Workbench<'_>, start: &Setup, found: (Setup, Run), control: &Control) -> (Setup, Run) {
    let (mut setup, mut run) = found;
    let Choice::Modules(names) = setup.training.checkpoint.clone() else { return (setup, run) };
    if setup.training.checkpoint == start.training.checkpoint {
        return (setup, run);
    }
    let without = |setup: &Setup, name: &str| -> Setup {
        let mut less = setup.clone();
        if let Choice::Modules(names) = &mut less.training.checkpoint {
            names.retain(|known| known != name);
        }
        if matches!(&less.training.checkpoint, Choice::Modules(names) if names.is_empty()) {
            less.training.checkpoint = Choice::Nothing;
        }
        less
    };
    let mut order: Vec<(f64, usize)> = names
        .iter()
        .enumerate()
        .filter_map(|(index, name)| Some((bench.seconds(&without(&setup, name))?, index)))
        .collect();
    order.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    for (_, index) in order {
        if control.is_stopped() {
            break;
        }
        let less = without(&setup, &names[index]);
        if let Some(fits) = bench.fitting(&less, control) {
            (setup, run) = (less, fits);
        }
    }
    (setup, run)
}
