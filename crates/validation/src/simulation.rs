//! Simulates measured cases.

use std::path::{Path, PathBuf};

use vramfit_adapters::with_fused_attention;
use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_eager::machine::{H200, Machine};
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::select::select_variant;
use vramfit_readers::read_file;
use vramfit_training::{Loop, Program, Run, record};

use crate::case_settings::choices;
use crate::measured::{Case, folder};
use crate::recordings::Result;

/// Simulates a case on a GPU with unlimited memory and passes the result, with its requests, to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn simulate<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    simulate_from(&capture_of(case), case, look)
}

/// The same on another machine, such as one with a cuDNN that is asked.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn simulate_on<T>(case: &Case, machine: Machine, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    simulated(&capture_of(case), case, machine, look)
}

/// The capture of a case's model.
pub fn capture_of(case: &Case) -> PathBuf {
    folder().join(format!("captures/{}.vramfit", case.model))
}

/// Simulates a case from the model in this file and passes the result to `look`.
///
/// # Errors
/// There is no such file, or it cannot be used with these settings.
pub fn simulate_from<T>(path: &Path, case: &Case, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    simulated(path, case, H200, look)
}

fn simulated<T>(path: &Path, case: &Case, machine: Machine, look: impl FnOnce(&Bound<'_>, &Run) -> T) -> Result<T> {
    with_bound_from(path, case, |bound, options| {
        let program = record(bound, options, machine).map_err(|error| error.to_string())?;
        let run = program.run_keeping(Settings::default(), SimulatedDriver::in_process(u64::MAX), true);
        Ok(look(bound, &run))
    })?
}

/// Records a case's requests to the allocator and passes them to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn with_program<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Program) -> T) -> Result<T> {
    with_bound(case, |bound, options| {
        let program = record(bound, options, H200).map_err(|error| error.to_string())?;
        Ok(look(bound, &program))
    })?
}

/// Binds a case's model to its sizes and passes it with the case's loop to `look`.
///
/// # Errors
/// There is no capture of the model, or it cannot be used with these settings.
pub fn with_bound<T>(case: &Case, look: impl FnOnce(&Bound<'_>, &Loop) -> T) -> Result<T> {
    with_bound_from(&capture_of(case), case, look)
}

/// Binds the model in this file to a case's sizes and passes it with the case's loop to `look`.
///
/// # Errors
/// There is no such file, or it cannot be used with these settings.
pub fn with_bound_from<T>(path: &Path, case: &Case, look: impl FnOnce(&Bound<'_>, &Loop) -> T) -> Result<T> {
    let model = read_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let model = match case.settings.fused_attention {
        false => model,
        true => with_fused_attention(&model).ok_or_else(|| format!("{}: no attention to fuse", case.model))?.model,
    };
    let (sizes, flags, options) = choices(&model, &case.settings)?;
    let variant = select_variant(&model, flags).map_err(|error| error.to_string())?;
    let mut bound = bind(&model, variant, &sizes).map_err(|error| error.to_string())?;
    options.lay_out(&mut bound).map_err(|error| error.to_string())?;
    Ok(look(&bound, &options))
}
