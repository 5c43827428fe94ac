//! Asks a library about one GPU, through the cache and a child process.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use vramfit_cudnn::convolution::{ConvolutionProblem, CudnnVersion, LiveAnswers, LivePlan, LiveReport};

use crate::cache::Cache;
use crate::child::{Child, Deadlines};
use crate::device::DeviceProperties;
use crate::protocol::{Question, Reply};

/// How the child process is started. The library and the GPU's properties are added to its arguments; it calls [`crate::worker`].
pub type WorkerCommand = Box<dyn Fn() -> Command + Send + Sync>;

/// Asks one library about one GPU.
pub struct Client {
    command: WorkerCommand,
    library: PathBuf,
    properties: DeviceProperties,
    cache_folder: Option<PathBuf>,
    deadlines: Deadlines,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Read when the first question is asked.
    cache: Option<Cache>,
    child: Option<Child>,
    version: Option<CudnnVersion>,
    asked: HashSet<Question>,
    unanswered: u32,
    failure: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("library", &self.library).finish_non_exhaustive()
    }
}

impl Client {
    /// Asks nothing yet. Without a folder for the cache, answers are kept for this process only.
    pub fn new(
        command: WorkerCommand,
        library: PathBuf,
        properties: DeviceProperties,
        cache_folder: Option<PathBuf>,
    ) -> Client {
        let deadlines = Deadlines::default();
        Client { command, library, properties, cache_folder, deadlines, state: Mutex::default() }
    }

    /// The same with other deadlines.
    pub fn with_deadlines(self, deadlines: Deadlines) -> Client {
        Client { deadlines, ..self }
    }

    /// Ends the child process, if one runs. A later question starts another.
    pub fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).child = None;
    }

    fn answer(&self, state: &mut State, question: &Question) -> Reply {
        let cache = self.cache(state);
        if let (Some(reply), Some(version)) = (cache.get(question), cache.version()) {
            state.version = Some(version);
            return reply;
        }
        if state.failure.is_some() {
            return Reply::new();
        }
        let asked = match state.child.take() {
            Some(child) => Ok(child),
            None => self.start(state),
        };
        let asked = asked.and_then(|mut child| Ok((child.ask(question, self.deadlines.answering)?, child)));
        match asked {
            Ok((reply, child)) => {
                state.child = Some(child);
                if let Some(cache) = &mut state.cache {
                    cache.insert(question, &reply);
                }
                reply
            }
            Err(reason) => {
                state.failure = Some(reason);
                Reply::new()
            }
        }
    }

    fn reply(&self, question: Question) -> Reply {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = self.answer(&mut state, &question);
        if state.asked.insert(question) && reply.is_empty() {
            state.unanswered += 1;
        }
        reply
    }

    fn cache<'s>(&self, state: &'s mut State) -> &'s mut Cache {
        state.cache.get_or_insert_with(|| {
            Cache::open(self.cache_folder.as_deref(), &self.library, self.properties.device_version())
        })
    }

    fn start(&self, state: &mut State) -> Result<Child, String> {
        let mut command = (self.command)();
        command.arg(&self.library).arg(self.properties.json());
        let (child, version) = Child::start(command, self.deadlines.loading)?;
        state.version = Some(version);
        if let Some(cache) = &mut state.cache {
            cache.set_version(version);
        }
        Ok(child)
    }
}

impl LiveAnswers for Client {
    fn plan(&self, problem: &ConvolutionProblem) -> Option<LivePlan> {
        LivePlan::from_numbers(&self.reply(Question::first(problem)?))
    }

    fn workspaces(&self, problem: &ConvolutionProblem) -> Vec<u64> {
        Question::all(problem).map(|question| self.reply(question)).unwrap_or_default()
    }

    fn version(&self) -> Option<CudnnVersion> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = self.cache(&mut state).version();
        if state.version.is_none() {
            state.version = cached;
        }
        if state.version.is_none() && state.failure.is_none() {
            match self.start(&mut state) {
                Ok(child) => state.child = Some(child),
                Err(reason) => state.failure = Some(reason),
            }
        }
        state.version
    }

    fn report(&self) -> LiveReport {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        LiveReport {
            library: self.library.clone(),
            version: state.version,
            asked: state.asked.len() as u32,
            unanswered: state.unanswered,
            failure: state.failure.clone(),
        }
    }
}
