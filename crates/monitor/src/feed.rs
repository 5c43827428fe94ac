//! Samples from a machine or from a recording, the same to whoever shows them.

use std::time::Duration;

use crate::reading::Missing;
use crate::sample::Sample;
use crate::sampler::Sampler;

/// Where samples come from.
pub enum Feed {
    /// The machine, now.
    Live(Box<Sampler>),
    /// A recording.
    Recorded(Recorded),
}

/// A recording that is played.
pub struct Recorded {
    samples: Vec<Sample>,
    next: usize,
    /// Begins again at its end.
    repeats: bool,
    chosen: Option<Vec<usize>>,
}

impl Feed {
    /// A recording that is played once, or over and over. There must be a sample in it.
    pub fn recorded(samples: Vec<Sample>, repeats: bool) -> Feed {
        Feed::Recorded(Recorded { samples, next: 0, repeats, chosen: None })
    }

    /// The next sample; `None` at a recording's end.
    pub fn next_sample(&mut self) -> Option<Sample> {
        match self {
            Feed::Live(sampler) => Some(sampler.sample()),
            Feed::Recorded(recorded) => {
                if recorded.next == recorded.samples.len() && recorded.repeats {
                    recorded.next = 0;
                }
                let mut sample = recorded.samples.get(recorded.next)?.clone();
                recorded.next += 1;
                if let Some(chosen) = &recorded.chosen {
                    let pick = |index: &usize| sample.gpus.iter().find(|gpu| gpu.index == *index).cloned();
                    sample.gpus = chosen.iter().filter_map(pick).collect();
                }
                Some(sample)
            }
        }
    }

    /// Shows these GPUs only, or all.
    pub fn choose(&mut self, gpus: Option<Vec<usize>>) {
        match self {
            Feed::Live(sampler) => sampler.choose(gpus),
            Feed::Recorded(recorded) => recorded.chosen = gpus,
        }
    }

    /// Why no GPU is known, where that does not mean that there is none.
    pub fn uncounted(&self) -> Option<&Missing> {
        match self {
            Feed::Live(sampler) => sampler.uncounted(),
            Feed::Recorded(_) => None,
        }
    }

    /// Calls that have not come back.
    pub fn stuck_count(&self) -> usize {
        match self {
            Feed::Live(sampler) => sampler.stuck_count(),
            Feed::Recorded(_) => 0,
        }
    }

    /// Whether it is the machine itself, so that processes can be acted upon.
    pub fn is_live(&self) -> bool {
        matches!(self, Feed::Live(_))
    }

    /// How long to wait before the next sample: as it was recorded, or as asked for.
    pub fn pause(&self, interval: Duration) -> Duration {
        let Feed::Recorded(recorded) = self else { return interval };
        let at = |position: usize| recorded.samples.get(position).map(|sample| sample.taken_at);
        match (recorded.next.checked_sub(1).and_then(at), at(recorded.next)) {
            (Some(last), Some(next)) => Duration::from_micros(next.saturating_sub(last)).min(Duration::from_secs(60)),
            _ => interval,
        }
    }
}
