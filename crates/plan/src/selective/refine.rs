//! Fewer modules checkpointed than the subset that was found: each that is not needed runs once only.

use vramfit_step::checkpoint::Choice;
use vramfit_step::parallel;
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
    let mut left = order.as_slice();
    while !left.is_empty() && !control.is_stopped() {
        // Most are needed, so that several are asked about at once; where one is not, those after it are asked about again.
        let wave = &left[..parallel::cores().min(left.len())];
        let tried = control.map(wave, |&(_, index)| {
            let less = without(&setup, &names[index]);
            bench.fitting(&less, control).map(|fits| (less, fits))
        });
        let first = tried.into_iter().map(Option::flatten).enumerate().find_map(|(at, found)| Some((at, found?)));
        match first {
            Some((at, found)) => {
                (setup, run) = found;
                left = &left[at + 1..];
            }
            None => left = &left[wave.len()..],
        }
    }
    (setup, run)
}
