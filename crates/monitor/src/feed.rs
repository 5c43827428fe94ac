//! Samples from this machine or from a recording.

use std::time::Duration;

use crate::reading::Missing;
use crate::sample::Sample;
use crate::sampler::Sampler;

/// Where samples come from.
pub enum Feed {
    /// This machine, now.
    Live(Box<Sampler>),
    /// A recording.
    Recorded(Recorded),
}

/// A recording being played.
pub struct Recorded {
    samples: Vec<Sample>,
    next: usize,
    /// Whether it starts again at its end.
    repeats: bool,
    chosen: Option<Vec<usize>>,
}

impl Feed {
    /// Plays a recording, which must not be empty.
    pub fn recorded(samples: Vec<Sample>, repeats: bool) -> Feed {
        Feed::Recorded(Recorded { samples, next: 0, repeats, chosen: None })
    }

    /// The next sample; `None` at the end of a recording.
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

    /// Restricts samples to these GPUs, in this order; `None` is all.
    pub fn choose(&mut self, gpus: Option<Vec<usize>>) {
        match self {
            Feed::Live(sampler) => sampler.choose(gpus),
            Feed::Recorded(recorded) => recorded.chosen = gpus,
        }
    }

    /// Why the GPUs could not be counted, if no driver has reported a number yet.
    pub fn uncounted(&self) -> Option<&Missing> {
        match self {
            Feed::Live(sampler) => sampler.uncounted(),
            Feed::Recorded(_) => None,
        }
    }

    /// The number of driver calls that hang.
    pub fn stuck_count(&self) -> usize {
        match self {
            Feed::Live(sampler) => sampler.stuck_count(),
            Feed::Recorded(_) => 0,
        }
    }

    /// Whether samples are of this machine, so that its processes can be signalled.
    pub fn is_live(&self) -> bool {
        matches!(self, Feed::Live(_))
    }

    /// How long to wait before the next sample: `interval`, or the recorded time between the two.
    pub fn pause(&self, interval: Duration) -> Duration {
        let Feed::Recorded(recorded) = self else { return interval };
        let at = |position: usize| recorded.samples.get(position).map(|sample| sample.taken_at);
        match (recorded.next.checked_sub(1).and_then(at), at(recorded.next)) {
            (Some(last), Some(next)) => Duration::from_micros(next.saturating_sub(last)).min(Duration::from_secs(60)),
            _ => interval,
        }
    }
}
