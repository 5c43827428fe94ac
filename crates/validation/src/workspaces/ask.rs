//! Asks an installed cuDNN, without a GPU, about shapes that the heuristic was asked about on one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use vramfit_catalogue::{Catalogue, Gpu};
use vramfit_cudnn::convolution::{LiveAnswers, LivePlan};
use vramfit_cudnn_library::{Client, DeviceProperties, worker};

use super::{Layer, PASSES, Row, lines};

/// The first argument of the child process that loads cuDNN.
pub const WORKER: &str = "__ask-cudnn";

/// Answers the questions of [`ask`] if this process was started for that.
///
/// # Errors
/// The output cannot be written, or a question cannot be read.
pub fn answer_as_worker(library: &str, properties: &str) -> Result<String, String> {
    worker(Path::new(library), properties).map(|()| String::new()).map_err(|error| error.to_string())
}

/// A library that this program's worker asks about a GPU.
pub(crate) fn client(library: &str, gpu: &Gpu) -> Result<Client, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let command = move || {
        let mut command = Command::new(&program);
        command.arg(WORKER);
        command
    };
    Ok(Client::new(Box::new(command), PathBuf::from(library), DeviceProperties::from(gpu), None))
}

/// Asks a library about recorded shapes, and writes its plans next to what was recorded.
///
/// # Errors
/// The shapes cannot be read, or the library does not answer.
pub fn ask(recorded: &Path, library: &str, out: &Path) -> Result<String, String> {
    let gpu = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = gpu.find("H200").map_err(|error| error.to_string())?;
    let client = client(library, gpu)?;
    let file = std::fs::File::create(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let mut file = GzEncoder::new(file, Compression::best());
    let mut count = 0;
    for line in lines(recorded)? {
        // The plans of the three passes: workspace, engine, then knobs.
        type Plans = Vec<Vec<i64>>;
        let (layer, forward, input, weight): (Layer, Plans, Plans, Plans) =
            serde_json::from_str(&line).map_err(|error| format!("{}: {error}: {line}", recorded.display()))?;
        let plans = PASSES.map(|(pass, _)| layer.problem(pass).and_then(|problem| client.plan(&problem)));
        let firsts = [forward, input, weight].map(|plans| u64::try_from(*plans.first()?.first()?).ok());
        let [Some(forward), Some(input), Some(weight)] = firsts else { continue };
        let replies = plans.map(|plan| plan.as_ref().map(LivePlan::numbers).unwrap_or_default());
        let row = Row(layer, [forward, input, weight], replies);
        let text = serde_json::to_string(&row).map_err(|error| error.to_string())?;
        writeln!(file, "{text}").map_err(|error| error.to_string())?;
        count += 1;
    }
    file.finish().map_err(|error| error.to_string())?;
    let report = client.report();
    match report.failure {
        Some(failure) => Err(failure),
        None => Ok(format!("{count} layers, {} questions, {} without a plan\n", report.asked, report.unanswered)),
    }
}
