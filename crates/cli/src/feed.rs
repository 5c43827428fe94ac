//! Opens the machine or a recording, and records.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use vramfit_monitor::feed::Feed;
use vramfit_monitor::recording::{self, Recorder};
use vramfit_monitor::sample::Sample;
use vramfit_monitor::sampler::{Cpu, Limits, Sampler};

use crate::arguments::monitor::Machine;
use crate::failure::Failure;

const DEMO: &[u8] = include_bytes!("../demo/machine.jsonl.gz");

/// The shortest time between two samples, gpustat's.
const SHORTEST: f64 = 0.1;

/// Samples, written down on the way where that was asked for.
pub struct Samples {
    feed: Feed,
    recorder: Option<(Recorder<File>, String)>,
}

impl Samples {
    /// What the flags ask for.
    pub fn open(machine: &Machine, cpu: Cpu) -> Result<Samples, Failure> {
        let mut feed = if machine.demo {
            let samples = recording::read(BufReader::new(flate2::read::GzDecoder::new(DEMO)));
            Feed::recorded(samples.map_err(|error| Failure::new(format!("the demo: {error}")))?, true)
        } else if let Some(path) = &machine.replay {
            Feed::recorded(read(path)?, false)
        } else {
            let sampler = Sampler::open(Limits::default(), cpu);
            Feed::Live(Box::new(
                sampler.map_err(|reason| Failure::new(reason.to_string()).with_hint(Some(reason.hint())))?,
            ))
        };
        if !machine.id.is_empty() {
            feed.choose(machine.id.clone());
        }
        let recorder = match &machine.record {
            None => None,
            Some(path) => {
                let name = path.display().to_string();
                let failed = |error: std::io::Error| Failure::new(format!("{name}: {error}"));
                Some((Recorder::new(File::create(path).map_err(failed)?).map_err(failed)?, name.clone()))
            }
        };
        Ok(Samples { feed, recorder })
    }

    /// The next; `None` at a recording's end.
    pub fn next(&mut self) -> Result<Option<Sample>, Failure> {
        let sample = self.feed.next_sample();
        if let (Some(sample), Some((recorder, name))) = (&sample, &mut self.recorder) {
            recorder.add(sample).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        }
        Ok(sample)
    }

    /// How long to wait before the next.
    pub fn pause(&self, interval: Duration) -> Duration {
        self.feed.pause(interval)
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

/// An interval in seconds, not shorter than can be kept.
pub fn interval(seconds: f64) -> Result<Duration, Failure> {
    if !seconds.is_finite() || !(0.0..=86_400.0).contains(&seconds) {
        return Err(Failure::new(format!("an interval of {seconds} s; it must be from 0.1 to 86400")));
    }
    Ok(Duration::from_secs_f64(seconds.max(SHORTEST)))
}

/// Checks that the GPUs asked for are there.
pub fn check_ids(machine: &Machine, sample: &Sample) -> Result<(), Failure> {
    let missing = machine.id.iter().find(|id| !sample.gpus.iter().any(|gpu| gpu.index == **id));
    match missing {
        None => Ok(()),
        Some(id) => Err(Failure::new(format!("--id: there is no GPU {id}"))
            .with_hint(Some("without --id all GPUs are shown, with their numbers"))),
    }
}

fn read(path: &Path) -> Result<Vec<Sample>, Failure> {
    let failed = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let mut file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut start = Vec::new();
    file.by_ref().take(2).read_to_end(&mut start).map_err(|error| failed(error.to_string()))?;
    let is_compressed = start == [0x1f, 0x8b];
    let whole = std::io::Cursor::new(start).chain(file);
    let samples = if is_compressed {
        recording::read(BufReader::new(flate2::read::GzDecoder::new(whole)))
    } else {
        recording::read(BufReader::new(whole))
    };
    samples
        .map_err(|error| failed(error.to_string()).with_hint(Some("record one with `vramfit gpus -i --record FILE`")))
}
