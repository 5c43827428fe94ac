//! What an installed cuDNN answered about the layers of the ranks, recorded once, so that a table does not depend on an installed library.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use vramfit_catalogue::Catalogue;
use vramfit_cudnn::convolution::{ConvolutionProblem, CudnnVersion, LiveAnswers, LivePlan, LiveReport};
use vramfit_cudnn_library::Client;
use vramfit_eager::machine::{H200, Machine};

use crate::measured::{folder, measured};
use crate::recordings::Result;
use crate::simulation::simulate_on;
use crate::workspaces::ask::client;

/// The first line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recording {
    /// The library's version, such as 91900.
    pub cudnn: usize,
    /// The GPU that it was asked about, which was not there.
    pub gpu: String,
    /// The day.
    pub date: String,
}

/// Recorded answers, as those of a library.
#[derive(Debug)]
pub struct RecordedAnswers {
    /// Where they come from.
    pub recording: Recording,
    /// By question; `None` where the library had no plan.
    plans: HashMap<String, Option<LivePlan>>,
    asked: AtomicU32,
    missing: AtomicU32,
}

/// A question as text.
fn key(problem: &ConvolutionProblem) -> String {
    let ConvolutionProblem { pass, dtype, format, image, result, weight, stride, padding, dilation, groups } = problem;
    let sizes = [image, result, weight, stride, padding, dilation].map(|sizes| format!("{:?}", sizes.to_vec()));
    format!("{pass:?} {} {format:?} {groups} {}", dtype.short_name(), sizes.join(" "))
}

fn path() -> PathBuf {
    folder().join("measured/cudnn-answers.jsonl.gz")
}

impl RecordedAnswers {
    fn read(path: &Path) -> Result<RecordedAnswers> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = std::fs::File::open(path).map_err(|error| named(&error))?;
        let mut lines = BufReader::new(GzDecoder::new(file)).lines();
        let first = lines.next().ok_or_else(|| named(&"it is empty"))?.map_err(|error| named(&error))?;
        let recording = serde_json::from_str(&first).map_err(|error| named(&error))?;
        let mut plans = HashMap::new();
        for line in lines {
            let line = line.map_err(|error| named(&error))?;
            let (key, numbers): (String, Vec<u64>) = serde_json::from_str(&line).map_err(|error| named(&error))?;
            plans.insert(key, LivePlan::from_numbers(&numbers));
        }
        Ok(RecordedAnswers { recording, plans, asked: AtomicU32::new(0), missing: AtomicU32::new(0) })
    }

    /// How many questions were asked so far, and to how many of them there is no recorded answer.
    pub fn questions(&self) -> (u32, u32) {
        (self.asked.load(Ordering::Relaxed), self.missing.load(Ordering::Relaxed))
    }
}

impl LiveAnswers for RecordedAnswers {
    fn plan(&self, problem: &ConvolutionProblem) -> Option<LivePlan> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let recorded = self.plans.get(&key(problem));
        if recorded.is_none() {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
        recorded.cloned().flatten()
    }

    /// No case of the table has `torch.backends.cudnn.benchmark`.
    fn workspaces(&self, _problem: &ConvolutionProblem) -> Vec<u64> {
        self.missing.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    }

    fn version(&self) -> Option<CudnnVersion> {
        Some(CudnnVersion(self.recording.cudnn))
    }

    fn report(&self) -> LiveReport {
        let (asked, unanswered) = self.questions();
        LiveReport { library: path(), version: self.version(), asked, unanswered, failure: None }
    }
}

/// The answers in the repository.
///
/// # Errors
/// They cannot be read.
pub fn recorded() -> Result<&'static RecordedAnswers> {
    static ANSWERS: OnceLock<Result<RecordedAnswers>> = OnceLock::new();
    ANSWERS.get_or_init(|| RecordedAnswers::read(&path())).as_ref().map_err(Clone::clone)
}

/// The H200 with these answers.
///
/// # Errors
/// They cannot be read.
pub fn machine() -> Result<Machine> {
    Ok(Machine { cudnn: Some(recorded()?), ..H200 })
}

/// Writes down what a library answers.
#[derive(Debug)]
struct Recorder {
    client: Client,
    plans: Mutex<BTreeMap<String, Vec<u64>>>,
}

impl LiveAnswers for Recorder {
    fn plan(&self, problem: &ConvolutionProblem) -> Option<LivePlan> {
        let plan = self.client.plan(problem);
        let numbers = plan.as_ref().map(LivePlan::numbers).unwrap_or_default();
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(key(problem), numbers);
        plan
    }

    fn workspaces(&self, problem: &ConvolutionProblem) -> Vec<u64> {
        self.client.workspaces(problem)
    }

    fn version(&self) -> Option<CudnnVersion> {
        self.client.version()
    }

    fn report(&self) -> LiveReport {
        self.client.report()
    }
}

/// Asks a library about the layers of all measured ranks, and writes its answers into the repository.
///
/// # Errors
/// The library does not answer, or the file cannot be written.
pub fn record(library: &str, date: &str) -> Result<String> {
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let client = client(library, gpu)?;
    // A machine refers to it until the program ends.
    let recorder: &'static Recorder = Box::leak(Box::new(Recorder { client, plans: Mutex::default() }));
    let machine = Machine { cudnn: Some(recorder), ..H200 };
    for case in measured()?.cases.values().filter(|case| case.is_rank()) {
        simulate_on(case, machine, |_, _| ())?;
    }
    if let Some(failure) = recorder.report().failure {
        return Err(failure);
    }
    let cudnn = recorder.version().ok_or("the library names no version")?.0;
    let recording = Recording { cudnn, gpu: gpu.name.clone(), date: date.to_owned() };
    let file = std::fs::File::create(path()).map_err(|error| format!("{}: {error}", path().display()))?;
    let mut file = GzEncoder::new(file, Compression::best());
    let mut line = |text: serde_json::Result<String>| {
        writeln!(file, "{}", text.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    };
    line(serde_json::to_string(&recording))?;
    let plans = recorder.plans.lock().unwrap_or_else(PoisonError::into_inner);
    plans.iter().try_for_each(|plan| line(serde_json::to_string(&plan)))?;
    file.finish().map_err(|error| error.to_string())?;
    Ok(format!("{} answers of cuDNN {cudnn}\n", plans.len()))
}
