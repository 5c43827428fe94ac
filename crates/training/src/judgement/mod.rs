//! What is asked of a simulation: the runs that answer for a GPU, and whether they fit there.

mod device;

pub use device::{Device, Verdict};

use vramfit_allocator::Settings;
use vramfit_graph::bind::Bound;

use crate::parallel;
use crate::program::Program;
use crate::record::record;
use crate::report::Run;
use crate::script::Loop;
use vramfit_cudnn::Scenario;
use vramfit_cudnn::convolution::Assumption;
use vramfit_eager::forward::UnknownModule;
use vramfit_eager::machine::Machine;

/// Fewer requests are answered sooner than another thread is there.
const WORTH_A_THREAD: usize = 20_000;

/// Where workspaces are guessed, so many programs have others in their place, drawn by lot: a smaller workspace here and a larger
/// one there may leave blocks that fit less well than all large or all small.
const DRAWN: u32 = 6;

/// What a run asks for; where operators have no rule, or it is not known when Python lets go of tensors, also the least and
/// the most it may ask for.
///
/// # Errors
/// The model has no module that is to be checkpointed.
pub fn programs(bound: &Bound<'_>, training: &Loop, machine: Machine) -> Result<Vec<Program>, UnknownModule> {
    let program = |scenario: Scenario| record(bound, &Loop { scenario, ..training.clone() }, machine);
    let usual = program(Scenario::Expected)?;
    let has_late = !bound.variant.late.is_empty();
    let is_certain = usual.guessed.is_empty();
    if !usual.missing.is_empty() || (!is_certain && training.is_cudnn_benchmarked) {
        return Ok(vec![usual, program(Scenario::Lower)?, program(Scenario::Upper)?]);
    }
    Ok(match (is_certain, has_late) {
        (true, false) => vec![usual],
        (true, true) => {
            // What autograd holds anyway lives no longer for a name that holds it too.
            let most = program(Scenario::Upper)?;
            if most.has_requests_of(&usual) { vec![usual] } else { vec![usual, most] }
        }
        (false, _) => {
            let least = usual.assuming(Assumption::All(Scenario::Lower));
            let most =
                if has_late { program(Scenario::Upper)? } else { usual.assuming(Assumption::All(Scenario::Upper)) };
            let drawn: Vec<Program> = (0..DRAWN).map(|series| usual.assuming(Assumption::Drawn(series))).collect();
            [usual, least, most].into_iter().chain(drawn).collect()
        }
    })
}

/// Every program under its orders of addresses, the usual one first; that one keeps its journal where `keeps_journal`
/// says so. `settings` are those of [`Device::settings`].
pub fn answer(programs: &[Program], device: &Device<'_>, settings: &Settings, keeps_journal: bool) -> Vec<Run> {
    let runs = simulate(programs, settings, keeps_journal);
    // What the GPU leaves beside the context is known once it is known which libraries are loaded; a cap that nothing
    // reaches changes nothing.
    match device.cap(runs[0].libraries) {
        Some(cap)
            if settings.cap.is_none() && runs.iter().any(|run| run.peak_reserved > cap || run.failure.is_some()) =>
        {
            simulate(programs, &Settings { cap: Some(cap), ..settings.clone() }, keeps_journal)
        }
        _ => runs,
    }
}

fn simulate(programs: &[Program], settings: &Settings, keeps_journal: bool) -> Vec<Run> {
    let runs: Vec<_> =
        programs.iter().flat_map(|program| program.orders().into_iter().map(move |driver| (program, driver))).collect();
    let places: Vec<usize> = (0..runs.len()).collect();
    let run = |&place: &usize| {
        let (program, driver) = &runs[place];
        program.run_keeping(settings.clone(), driver.clone(), keeps_journal && place == 0)
    };
    let requests: usize = runs.iter().map(|(program, _)| program.allocation_count()).sum();
    if requests < WORTH_A_THREAD { places.iter().map(run).collect() } else { parallel::map_once(&places, run) }
}

/// The usual run, where all runs fit as [`Device::verdict`] means it. The first that does not ends the search.
pub fn fitting(programs: &[Program], device: &Device<'_>, settings: &Settings) -> Option<Run> {
    // Garbage is collected by the cap, so that a cap which nothing reaches may still change the run.
    if settings.garbage_collection_threshold > 0.0 {
        let mut runs = answer(programs, device, settings, false);
        return (device.verdict(&runs) == Some(Verdict::Fits)).then(|| runs.swap_remove(0));
    }
    let capacity = device.capacity()?.low;
    let cap = settings.cap.or_else(|| device.cap(programs.first()?.libraries));
    let settings = Settings { cap, ..settings.clone() };
    let mut usual = None;
    for program in programs {
        for driver in program.orders() {
            let run = program.run(settings.clone(), driver);
            if run.failure.is_some() || device.taken(&run) > capacity {
                return None;
            }
            usual.get_or_insert(run);
        }
    }
    usual
}
