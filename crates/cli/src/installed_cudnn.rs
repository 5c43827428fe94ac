//! The installed cuDNN that is asked for workspaces: which one, and one client for each kind of GPU.

use std::cell::RefCell;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use vramfit_catalogue::{ComputeCapability, Gpu};
use vramfit_cudnn::convolution::LiveAnswers;
use vramfit_cudnn_library::{Client, DeviceProperties, WorkerCommand, locate, search, worker};

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
    /// The compute capability is all of a GPU that changes an answer.
    clients: RefCell<Vec<(ComputeCapability, &'static Client)>>,
}

impl InstalledCudnn {
    /// The cuDNN that `--cudnn` or `VRAMFIT_CUDNN` names; without either, the first that is found.
    ///
    /// # Errors
    /// No library is at the given path.
    pub fn find(given: Option<&OsStr>) -> Result<InstalledCudnn, Failure> {
        let variable = || Some((VARIABLE, env::var_os(VARIABLE).filter(|value| !value.is_empty())?));
        let library = match given.map(|value| ("--cudnn", value.to_owned())).or_else(variable) {
            Some((source, value)) => named(source, &value)?,
            None if platform::SEARCHES_CUDNN => search(),
            None => None,
        };
        Ok(InstalledCudnn { library, clients: RefCell::default() })
    }

    /// Answers for a GPU; `None` if there is no cuDNN, or none of its newer versions runs on the GPU.
    pub fn answers_for(&self, gpu: &Gpu) -> Option<&'static dyn LiveAnswers> {
        // They answer even about older GPUs, but with plans that these cannot run.
        let library = self.library.as_ref().filter(|_| gpu.compute.runs_cuda_13())?;
        let mut clients = self.clients.borrow_mut();
        if let Some((_, client)) = clients.iter().find(|(compute, _)| *compute == gpu.compute) {
            return Some(*client);
        }
        let client = Client::new(command()?, library.clone(), DeviceProperties::from(gpu), cache_folder());
        // It is asked until the program ends. Its child process ends with its input.
        let client: &'static Client = Box::leak(Box::new(client));
        clients.push((gpu.compute, client));
        Some(client)
    }
}

/// The library at a path that the user gave; `None` for `off`.
fn named(source: &str, value: &OsString) -> Result<Option<PathBuf>, Failure> {
    if value == OFF {
        return Ok(None);
    }
    let path = Path::new(value);
    let library = locate(path).ok_or_else(|| {
        let found = if path.exists() { "no libcudnn.so.9 there" } else { "no such file or folder" };
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
