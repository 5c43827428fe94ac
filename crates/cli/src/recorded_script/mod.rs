//! Recordings of scripts, for commands that read them.

mod simulated_snapshot;

use std::path::Path;

use vramfit_allocator::Settings;
use vramfit_engine::cudnn::Cudnn;
use vramfit_engine::known_gpus::REFERENCE;
use vramfit_engine::recording::script;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::{Model, RecordedScript};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_trace::snapshot::Snapshot;
use vramfit_training::Loop;
use vramfit_training::answer::{Device, Scenarios};

use crate::failure::Failure;
use crate::installed_cudnn::InstalledCudnn;
use crate::known_gpus;
pub use simulated_snapshot::simulated_snapshot;

/// A recording, which has one size and one precision.
pub fn bound<'m>(name: &str, model: &'m Model) -> Result<Bound<'m>, Failure> {
    let sizes = Sizes::select(model, &SizeFlags::default()).map_err(|error| Failure::at(name, error))?;
    let variant = select_variant(model, VariantFlags::default()).map_err(|error| Failure::at(name, error))?;
    bind(model, variant, &sizes).map_err(|error| Failure::at(name, error))
}

/// The loop that stands for a script: the script decides everything else.
pub fn training(script: &RecordedScript) -> Loop {
    Loop { is_cudnn_benchmarked: script.is_cudnn_benchmarked, ..Loop::default() }
}

/// The simulated run of a recording, on the GPU that estimates are for by default.
pub fn simulated(name: &str, model: &Model, script: &RecordedScript) -> Result<Snapshot, Failure> {
    let bound = bound(name, model)?;
    let known = known_gpus::load()?;
    let gpu = known.find(REFERENCE)?;
    let cudnn = InstalledCudnn::find(None)?;
    let device = Device { gpu, is_asked: false, vram: None, cudnn: cudnn.answers_for(gpu) };
    let scenarios = Scenarios::record(&bound, &training(script), device.machine())?;
    let settings = device.settings(Settings::default());
    let answer = scenarios.answer(&device, &settings, true).map_err(|error| Failure::at(name, error))?;
    Ok(simulated_snapshot(&bound, script, &answer.expected))
}

/// The same for the file at `path`, with a note that says so; `None` where it is no capture and no recording.
pub fn simulated_file(path: &Path) -> Result<Option<Snapshot>, Failure> {
    let Ok(model) = read_file(path) else { return Ok(None) };
    let name = path.to_string_lossy();
    let Some(script) = script(&model) else {
        let needed = "needed a snapshot of torch.cuda.memory, or the recording of a script";
        let hint = "`vramfit estimate` reads models";
        return Err(Failure::new(format!("{name}: found a model, {needed}")).with_hint(Some(hint)));
    };
    let snapshot = simulated(&name, &model, script)?;
    anstream::eprintln!(
        "note: {name} is the recording of a script; this is its simulated run on an {REFERENCE}. For another GPU: vramfit run --recording \
         {name} --gpu NAME --snapshot FILE"
    );
    Ok(Some(snapshot))
}
