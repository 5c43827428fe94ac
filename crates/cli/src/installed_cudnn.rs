//! The installed cuDNN that is asked for workspaces: which one, and one client for each kind of GPU.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use vramfit_catalogue::{ComputeCapability, Gpu};
use vramfit_cudnn::convolution::LiveAnswers;
use vramfit_cudnn_library::{Client, DeviceProperties, WorkerCommand, is_shared_library, locate, search, worker};
use vramfit_engine::cudnn::Cudnn;

use crate::failure::Failure;
use crate::platform;

/// The first argument of the child process that loads cuDNN. Users do not call it.
const WORKER: &str = "__ask-cudnn";
/// The default of `--cudnn`.
const VARIABLE: &str = "VRAMFIT_CUDNN";
const OFF: &str = "off";

/// Answers questions if this process was started for that.
pub fn answer_as_worker() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != WORKER {
        return None;
    }
    let (library, properties) = (arguments.next()?, arguments.next()?);
    let done = worker(Path::new(&library), &properties.to_string_lossy());
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The cuDNN to ask, if there is one.
pub struct InstalledCudnn {
    library: Option<PathBuf>,
    /// How the user named it, if not by having it installed.
    source: Option<&'static str>,
    /// The compute capability is all of a GPU that changes an answer.
    clients: Mutex<Vec<(ComputeCapability, &'static Client)>>,
}

impl InstalledCudnn {
    /// The cuDNN that `--cudnn` or `VRAMFIT_CUDNN` names; without either, the first that is found.
    ///
    /// # Errors
    /// No library is at the given path.
    pub fn find(given: Option<&OsStr>) -> Result<InstalledCudnn, Failure> {
        let variable = || Some((VARIABLE, env::var_os(VARIABLE).filter(|value| !value.is_empty())?));
        let given = given.map(|value| ("--cudnn", value.to_owned())).or_else(variable);
        let source = given.as_ref().map(|(source, _)| *source);
        let library = match given {
            Some((source, value)) => named(source, &value)?,
            None if platform::SEARCHES_CUDNN => search(),
            None => None,
        };
        Ok(InstalledCudnn { library, source, clients: Mutex::default() })
    }
}

impl Cudnn for InstalledCudnn {
    fn not_asked_about(&self, gpu: &Gpu) -> Option<String> {
        let source = self.source.filter(|_| self.library.is_some() && !gpu.compute.runs_cuda_13())?;
        Some(format!(
            "{source} has no effect: the versions of cuDNN that answer without a GPU do not run on compute capability {}",
            gpu.compute
        ))
    }

    fn answers_for(&self, gpu: &Gpu) -> Option<&'static dyn LiveAnswers> {
        // They answer even about older GPUs, but with plans that these cannot run.
        let library = self.library.as_ref().filter(|_| gpu.compute.runs_cuda_13())?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(compute, _)| *compute == gpu.compute) {
            return Some(*client);
        }
        let client = Client::new(command()?, library.clone(), DeviceProperties::from(gpu), cache_folder());
        // What is simulated refers to it, in any thread. `drop` ends its child process.
        let client: &'static Client = Box::leak(Box::new(client));
        clients.push((gpu.compute, client));
        Some(client)
    }
}

impl Drop for InstalledCudnn {
    fn drop(&mut self) {
        for (_, client) in self.clients.get_mut().unwrap_or_else(PoisonError::into_inner) {
            client.close();
        }
    }
}

/// The library at a path that the user gave; `None` for `off`.
fn named(source: &str, value: &OsString) -> Result<Option<PathBuf>, Failure> {
    if value.eq_ignore_ascii_case(OFF) {
        return Ok(None);
    }
    let path = Path::new(value);
    let library = locate(path).filter(|library| is_shared_library(library)).ok_or_else(|| {
        let found = match path {
            _ if value.is_empty() => "an empty path",
            path if path.is_file() => "a file that is no shared library",
            path if path.exists() => "no libcudnn.so.9 there",
            _ => "no such file or folder",
        };
        Failure::new(format!("{source} {}: found {found}, needed a cuDNN", path.display())).with_hint(Some(
            "give libcudnn.so.9, the folder it is in, a site-packages folder with nvidia/cudnn or torch, a Python \
             environment, or `off`",
        ))
    })?;
    // The loader would look for a relative path without a slash in the system's folders.
    Ok(Some(std::path::absolute(&library).unwrap_or(library)))
}

/// This program again, as the child process.
fn command() -> Option<WorkerCommand> {
    let program = env::current_exe().ok()?;
    Some(Box::new(move || {
        let mut command = Command::new(&program);
        command.arg(WORKER);
        platform::keep_from_signals(&mut command);
        command
    }))
}

/// Where answers are kept between runs.
fn cache_folder() -> Option<PathBuf> {
    Some(platform::cache_folder()?.join("vramfit").join("cudnn"))
}
