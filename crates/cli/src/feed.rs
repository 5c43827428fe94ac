//! Opens the machine or a recording, and records.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vramfit_monitor::feed::Feed;
use vramfit_monitor::platform::NoDriver;
use vramfit_monitor::recording::{self, Recorder, Recording};
use vramfit_monitor::sample::Sample;
use vramfit_monitor::sampler::{Cpu, Limits, Sampler};

use crate::arguments::monitor::Machine;
use crate::failure::{Failure, warn};
use crate::platform;

const DEMO: &[u8] = include_bytes!("../demo/machine.jsonl.gz");

/// The shortest time between two samples, gpustat's.
const SHORTEST: f64 = 0.1;
const LONGEST: f64 = 86_400.0;

/// Damaged lines of a recording that are named one by one.
const MOST_NAMED: usize = 3;

/// Samples, written down on the way where that was asked for.
pub struct Samples {
    feed: Feed,
    chosen: Vec<usize>,
    record: Option<PathBuf>,
    recorder: Option<Recorder<File>>,
    is_begun: bool,
}

impl Samples {
    /// What the flags ask for.
    pub fn open(machine: &Machine, cpu: Cpu) -> Result<Samples, Failure> {
        let mut feed = if machine.demo {
            let demo = recording::read(BufReader::new(flate2::read::GzDecoder::new(DEMO)));
            Feed::recorded(demo.map_err(|error| Failure::new(format!("the demo: {error}")))?.samples, true)
        } else if let Some(path) = &machine.replay {
            refuse_same_file(path, machine.record.as_deref())?;
            let recording = read(path)?;
            tell_damage(path, &recording);
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

    /// The next; `None` at a recording's end. The first must have the GPUs that were asked for.
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

    /// A file is written to only once it is known that there is something to write.
    fn begin(&mut self, first: &Sample) -> Result<(), Failure> {
        if let Some(reason) = self.feed.uncounted() {
            return Err(Failure::new(format!("the driver does not tell how many GPUs there are: {reason}"))
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

    /// How long to wait before the next.
    pub fn pause(&self, interval: Duration) -> Duration {
        self.feed.pause(interval)
    }

    /// Goes on without writing samples down.
    pub fn stop_recording(&mut self) {
        self.recorder = None;
    }

    /// Whether it is this machine, now.
    pub fn is_live(&self) -> bool {
        self.feed.is_live()
    }

    /// Calls that have not come back.
    pub fn stuck_count(&self) -> usize {
        self.feed.stuck_count()
    }
}

/// An interval in seconds, within what can be kept.
pub fn interval(seconds: f64) -> Result<Duration, Failure> {
    if !(SHORTEST..=LONGEST).contains(&seconds) {
        return Err(Failure::new(format!("an interval of {seconds} s; it must be from {SHORTEST} to {LONGEST}")));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Recording begins by emptying its file.
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

fn tell_damage(path: &Path, recording: &Recording) {
    let count = recording.damage.len();
    for damage in recording.damage.iter().take(MOST_NAMED) {
        warn(&format!("{}: {damage}; left out", path.display()));
    }
    if count > MOST_NAMED {
        warn(&format!("{}: {} more lines left out", path.display(), count - MOST_NAMED));
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
