//! Opens this machine or a recording as the source of samples, and records them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vramfit_monitor::feed::Feed;
use vramfit_monitor::platform::NoDriver;
use vramfit_monitor::recording::{self, Recorder, Recording};
use vramfit_monitor::sample::Sample;
use vramfit_monitor::sampler::{Cpu, Limits, Sampler};

use crate::arguments::monitor::MachineOptions;
use crate::failure::{Failure, warn};
use crate::platform;

const DEMO: &[u8] = include_bytes!("../demo/machine.jsonl.gz");

/// The shortest interval, as in gpustat.
const MIN_INTERVAL: f64 = 0.1;
const MAX_INTERVAL: f64 = 86_400.0;

/// The number of damaged lines that are reported one by one.
const MAX_REPORTED: usize = 3;

/// Samples, also recorded if `--record` is given.
pub struct Samples {
    feed: Feed,
    chosen: Vec<usize>,
    record: Option<PathBuf>,
    recorder: Option<Recorder<File>>,
    is_begun: bool,
}

impl Samples {
    /// Opens what the flags choose.
    pub fn open(machine: &MachineOptions, cpu: Cpu) -> Result<Samples, Failure> {
        let mut feed = if machine.demo {
            let demo = recording::read(BufReader::new(flate2::read::GzDecoder::new(DEMO)));
            Feed::recorded(demo.map_err(|error| Failure::new(format!("the demo: {error}")))?.samples, true)
        } else if let Some(path) = &machine.replay {
            refuse_same_file(path, machine.record.as_deref())?;
            let recording = read(path)?;
            report_damage(path, &recording);
            Feed::recorded(recording.samples, false)
        } else {
            let sampler = Sampler::open(Limits::default(), cpu);
            Feed::Live(Box::new(
                sampler.map_err(|reason| Failure::new(reason.to_string()).with_hint(Some(reason.hint())))?,
            ))
        };
        let mut chosen: Vec<usize> = Vec::new();
        for id in &machine.id {
            if !chosen.contains(id) {
                chosen.push(*id);
            }
        }
        feed.choose((!chosen.is_empty()).then(|| chosen.clone()));
        Ok(Samples { feed, chosen, record: machine.record.clone(), recorder: None, is_begun: false })
    }

    /// The next sample; `None` at the end of a recording. Fails if the first lacks a chosen GPU.
    pub fn next(&mut self) -> Result<Option<Sample>, Failure> {
        let Some(sample) = self.feed.next_sample() else { return Ok(None) };
        if !self.is_begun {
            self.begin(&sample)?;
            self.is_begun = true;
        }
        if let (Some(recorder), Some(path)) = (&mut self.recorder, &self.record) {
            recorder.add(&sample).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
        Ok(Some(sample))
    }

    /// Creates the file to record to only after the first sample, so that a failing command keeps an old one.
    fn begin(&mut self, first: &Sample) -> Result<(), Failure> {
        if let Some(reason) = self.feed.uncounted() {
            return Err(Failure::new(format!("the driver does not report the number of GPUs: {reason}"))
                .with_hint(Some(NoDriver::Failed(reason.to_string()).hint())));
        }
        if let Some(id) = self.chosen.iter().find(|id| !first.gpus.iter().any(|gpu| gpu.index == **id)) {
            return Err(self.no_such_gpu(*id));
        }
        if let Some(path) = &self.record {
            let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()));
            self.recorder = Some(Recorder::new(File::create(path).map_err(failed)?).map_err(failed)?);
        }
        Ok(())
    }

    fn no_such_gpu(&mut self, id: usize) -> Failure {
        self.feed.choose(None);
        let gpus = self.feed.next_sample().map(|sample| sample.gpus).unwrap_or_default();
        let names = gpus.iter().map(|gpu| format!("[{}] {}", gpu.index, gpu.known_name().unwrap_or("unknown GPU")));
        let there = if gpus.is_empty() {
            "this machine has none".to_owned()
        } else {
            format!("there are {}", names.collect::<Vec<String>>().join(", "))
        };
        Failure::new(format!("--id: there is no GPU {id}")).with_hint(Some(there))
    }

    /// How long to wait before the next sample.
    pub fn pause(&self, interval: Duration) -> Duration {
        self.feed.pause(interval)
    }

    /// Stops recording, but not sampling.
    pub fn stop_recording(&mut self) {
        self.recorder = None;
    }

    /// Whether samples are of this machine.
    pub fn is_live(&self) -> bool {
        self.feed.is_live()
    }

    /// The number of driver calls that hang.
    pub fn stuck_count(&self) -> usize {
        self.feed.stuck_count()
    }
}

/// An interval in seconds, within its limits.
pub fn interval(seconds: f64) -> Result<Duration, Failure> {
    if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&seconds) {
        return Err(Failure::new(format!(
            "an interval of {seconds} s; it must be from {MIN_INTERVAL} to {MAX_INTERVAL}"
        )));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Recording truncates its file, so it must not be the one that is replayed.
fn refuse_same_file(replay: &Path, record: Option<&Path>) -> Result<(), Failure> {
    let Some(record) = record else { return Ok(()) };
    if platform::is_same_file(replay, record) {
        return Err(Failure::new(format!(
            "--record {}: this is the file that --replay {} reads",
            record.display(),
            replay.display()
        ))
        .with_hint(Some("name another file to record to")));
    }
    Ok(())
}

fn report_damage(path: &Path, recording: &Recording) {
    let count = recording.damage.len();
    for damage in recording.damage.iter().take(MAX_REPORTED) {
        warn(&format!("{}: {damage}; left out", path.display()));
    }
    if count > MAX_REPORTED {
        warn(&format!("{}: {} more lines left out", path.display(), count - MAX_REPORTED));
    }
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let failed = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut start = Vec::new();
    file.by_ref().take(2).read_to_end(&mut start).map_err(|error| failed(error.to_string()))?;
    let is_compressed = start == [0x1f, 0x8b];
    let whole = std::io::Cursor::new(start).chain(file);
    let recording = if is_compressed {
        recording::read(BufReader::new(flate2::read::MultiGzDecoder::new(whole)))
    } else {
        recording::read(BufReader::new(whole))
    };
    recording
        .map_err(|error| failed(error.to_string()).with_hint(Some("record one with `vramfit gpus -i --record FILE`")))
}
