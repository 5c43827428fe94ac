//! `vramfit calibrate`: measures this machine's GPU with a short Python script and stores the result.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use vramfit_catalogue::{Calibration, Catalogue};
use vramfit_report::catalogue::calibration_text;

use crate::arguments::{Calibrate, Output};
use crate::commands::{print, print_json};
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::known_gpus::{calibrations_file, read};
use crate::platform;
use crate::whole_file;

const SCRIPT: &str = include_str!("measure.py");
const HINT: &str = "run it on the machine with the GPU, in an environment with torch, or name a Python that has it: \
                    --python path/to/python3";

/// Measures the GPU, stores the calibration and prints it.
pub fn run(options: &Calibrate, output: &Output) -> Result<ExitStatus, Failure> {
    let calibration = measure(options)?;
    let path = match &options.output {
        Some(path) => path.clone(),
        None => calibrations_file().ok_or_else(|| {
            Failure::new(format!("found {}, needed a folder to write into", platform::CONFIG_VARIABLES))
                .with_hint(Some("name a file: --output gpus.json"))
        })?,
    };
    keep(&calibration, &path)?;
    if output.json {
        print_json(&calibration)?;
    } else {
        let catalogue = Catalogue::built_in().map_err(|error| Failure::at("the catalogue of GPUs", error))?;
        print(&calibration_text(&calibration, &path.display().to_string(), &catalogue.row(&calibration)))?;
    }
    Ok(ExitStatus::Good)
}

fn measure(options: &Calibrate) -> Result<Calibration, Failure> {
    let python = &options.python;
    let mut command = Command::new(python);
    command
        .arg("-")
        .arg(options.device.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = |problem: String| Failure::new(format!("{python}: {problem}")).with_hint(Some(HINT));
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        // If Python exits before reading the script, its status and output say why.
        let _ = input.write_all(SCRIPT.as_bytes());
    }
    let result = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !result.status.success() {
        let errors = String::from_utf8_lossy(&result.stderr);
        let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed no error");
        return Err(failed(last.trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&result.stdout);
    let begin = text.find('{').unwrap_or(0);
    let calibration: Calibration = serde_json::from_str(&text[begin..])
        .map_err(|error| failed(format!("found no measurement in its output, needed JSON: {error}")))?;
    match calibration.problem() {
        Some(problem) => Err(failed(problem)),
        None => Ok(calibration),
    }
}

/// Replaces the GPU's earlier calibration in the file. The write is atomic.
fn keep(calibration: &Calibration, path: &Path) -> Result<(), Failure> {
    let mut all = read(path)?;
    all.retain(|known| known.name != calibration.name);
    all.push(calibration.clone());
    let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let text = serde_json::to_string_pretty(&all).map_err(|error| Failure::new(error.to_string()))?;
    whole_file::write(path, (text + "\n").as_bytes()).map_err(failed)
}
