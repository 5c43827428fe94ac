//! Takes samples: queries every source about every GPU, in parallel and within time limits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::assemble::{self, AnsweredGpu};
use crate::lanes::{Job, Lanes};
use crate::platform::{self, NoDriver, ProcessReader};
use crate::process::Counters;
use crate::question::{Answer, Question};
use crate::reading::{Missing, Reading};
use crate::sample::{Gpu, HostProcess, Identity, Sample};
use crate::source::{self, Source};

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For one call.
    pub call: Duration,
    /// For all driver calls of a sample.
    pub drivers: Duration,
    /// For the whole sample.
    pub sample: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            call: Duration::from_secs(2),
            drivers: Duration::from_millis(4200),
            sample: Duration::from_millis(4700),
        }
    }
}

/// How the CPU use of processes is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Over the time since the last sample; in the first sample over the process's life.
    SinceLastSample,
    /// By reading twice, this far apart.
    Twice(Duration),
}

/// Takes samples of this machine.
pub struct Sampler {
    shared: Arc<Shared>,
    limits: Limits,
    cpu: Cpu,
    hostname: String,
    drivers: Lanes<DriverCall>,
    processes: Lanes<u32>,
    counters: HashMap<u32, Counters>,
    identities: HashMap<usize, Identity>,
    counts: Vec<usize>,
    /// Why a driver did not report its number of GPUs in the last sample.
    uncounted: Option<Missing>,
    chosen: Option<Vec<usize>>,
}

/// A driver call: of a source about itself, or about a GPU.
type DriverCall = (usize, Option<(usize, Question)>);
/// The operating system's view of each process.
type Hosts = HashMap<u32, Reading<(HostProcess, Counters)>>;

/// What abandoned threads may still use.
struct Shared {
    sources: Vec<Arc<dyn Source>>,
    reader: ProcessReader,
}

/// The answer to a driver call.
#[derive(Clone, Debug)]
enum DriverAnswer {
    Gpu(Reading<Answer>),
    Source { count: Reading<usize>, version: Reading<String> },
}

impl Sampler {
    /// Opens this machine's drivers.
    pub fn open(limits: Limits, cpu: Cpu) -> Result<Sampler, NoDriver> {
        let mut opening: Lanes<&'static str> = Lanes::default();
        let open: Job<Result<Arc<dyn Source>, NoDriver>> = Arc::new(source::open_nvidia);
        let deadline = Instant::now() + limits.call;
        let mut opened = opening.run(vec![vec![("nvml", open)]], limits.call, deadline);
        let nvidia = opened.remove("nvml").unwrap_or(Err(NoDriver::NoAnswer(limits.call.as_secs())));
        let sources = match (nvidia, source::open_amd()) {
            (Ok(nvidia), amd) => std::iter::once(nvidia).chain(amd).collect(),
            (Err(NoDriver::NoLibrary), Some(amd)) => vec![amd],
            (Err(reason), _) => return Err(reason.with_versions()),
        };
        Ok(Sampler::new(sources, ProcessReader::default(), limits, cpu))
    }

    /// Samples the given sources.
    pub fn new(sources: Vec<Arc<dyn Source>>, reader: ProcessReader, limits: Limits, cpu: Cpu) -> Sampler {
        let hostname = platform::host_name();
        Sampler {
            shared: Arc::new(Shared { sources, reader }),
            limits,
            cpu,
            hostname,
            drivers: Lanes::default(),
            processes: Lanes::default(),
            counters: HashMap::new(),
            identities: HashMap::new(),
            counts: Vec::new(),
            uncounted: None,
            chosen: None,
        }
    }

    /// Restricts samples to these GPUs, in this order; `None` is all.
    pub fn choose(&mut self, gpus: Option<Vec<usize>>) {
        self.chosen = gpus;
    }

    /// Why the GPUs could not be counted, if no driver has reported a number yet.
    pub fn uncounted(&self) -> Option<&Missing> {
        self.uncounted.as_ref().filter(|_| self.counts.iter().all(|count| *count == 0))
    }

    /// The number of driver calls that hang.
    pub fn stuck_count(&self) -> usize {
        self.drivers.stuck_count() + self.processes.stuck_count()
    }

    /// Takes one sample.
    pub fn sample(&mut self) -> Sample {
        let start = Instant::now();
        let taken_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let drivers_deadline = start + self.limits.drivers;
        let deadline = start + self.limits.sample;

        let (driver_version, gpus) = self.ask_sources(drivers_deadline);
        let mut answered = self.ask_gpus(&gpus, drivers_deadline);
        let mut hosts = self.ask_processes(&answered, deadline);
        self.drop_ended(&mut answered, &mut hosts, drivers_deadline);
        if let Cpu::Twice(pause) = self.cpu {
            self.measure_twice(&mut hosts, pause);
        } else {
            self.measure_since_last(&mut hosts);
        }
        let gpus: Vec<Gpu> = answered.into_iter().map(|gpu| assemble::gpu(gpu, &hosts, &mut self.identities)).collect();
        Sample {
            taken_at: u64::try_from(taken_at.as_micros()).unwrap_or(u64::MAX),
            took: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
            hostname: self.hostname.clone(),
            driver_version,
            host_memory: platform::host_memory(),
            gpus,
        }
    }

    /// The driver's version, and for each GPU its index, its source and its index there.
    fn ask_sources(&mut self, deadline: Instant) -> (Reading<String>, Vec<(usize, usize, usize)>) {
        let lanes = (0..self.shared.sources.len()).map(|source| {
            let shared = Arc::clone(&self.shared);
            let job: Job<DriverAnswer> = Arc::new(move || {
                let source = &shared.sources[source];
                DriverAnswer::Source { count: source.gpu_count(), version: source.driver_version() }
            });
            vec![((source, None), job)]
        });
        let mut answers = self.drivers.run(lanes.collect(), self.limits.call, deadline);
        let mut version = None;
        self.counts.resize(self.shared.sources.len(), 0);
        self.uncounted = None;
        for source in 0..self.shared.sources.len() {
            let Some(DriverAnswer::Source { count, version: reported }) = answers.remove(&(source, None)) else {
                self.uncounted.get_or_insert(Missing::NoAnswer);
                continue;
            };
            match count {
                Ok(count) => self.counts[source] = count,
                // A driver that fails to count keeps its last number of GPUs.
                Err(reason) => _ = self.uncounted.get_or_insert(reason),
            }
            version.get_or_insert(reported);
        }
        let all: Vec<(usize, usize)> = self
            .counts
            .iter()
            .enumerate()
            .flat_map(|(source, count)| (0..*count).map(move |gpu| (source, gpu)))
            .collect();
        let numbered = all.into_iter().enumerate().map(|(index, (source, gpu))| (index, source, gpu));
        let gpus: Vec<(usize, usize, usize)> = match &self.chosen {
            None => numbered.collect(),
            Some(chosen) => {
                let all: Vec<_> = numbered.collect();
                chosen.iter().filter_map(|index| all.get(*index).copied()).collect()
            }
        };
        (version.unwrap_or(Err(Missing::NoAnswer)), gpus)
    }

    fn ask_gpus(&mut self, gpus: &[(usize, usize, usize)], deadline: Instant) -> Vec<AnsweredGpu> {
        let lanes = gpus
            .iter()
            .map(|&(_, source, gpu)| Question::ALL.iter().map(|question| self.job(source, gpu, *question)).collect());
        let lanes: Vec<_> = lanes.collect();
        let mut received = self.drivers.run(lanes, self.limits.call, deadline);
        let answered = gpus.iter().map(|&(index, source, gpu)| {
            let mut answers = HashMap::new();
            for question in Question::ALL {
                let answer = match received.remove(&(source, Some((gpu, question)))) {
                    Some(DriverAnswer::Gpu(answer)) => answer,
                    _ => Err(Missing::NoAnswer),
                };
                answers.insert(question, answer);
            }
            AnsweredGpu::new(index, self.shared.sources[source].vendor(), (source, gpu), answers)
        });
        answered.collect()
    }

    fn job(&self, source: usize, gpu: usize, question: Question) -> (DriverCall, Job<DriverAnswer>) {
        let shared = Arc::clone(&self.shared);
        let job: Job<DriverAnswer> = Arc::new(move || DriverAnswer::Gpu(shared.sources[source].ask(gpu, question)));
        ((source, Some((gpu, question))), job)
    }

    fn ask_processes(&mut self, answered: &[AnsweredGpu], deadline: Instant) -> Hosts {
        let pids: HashSet<u32> = answered.iter().flat_map(AnsweredGpu::pids).collect();
        self.shared.reader.forget_all_but(&pids);
        let mut ordered: Vec<u32> = pids.iter().copied().collect();
        ordered.sort_unstable();
        let jobs = ordered.into_iter().map(|pid| {
            let shared = Arc::clone(&self.shared);
            let job: Job<Reading<(HostProcess, Counters)>> = Arc::new(move || shared.reader.read(pid));
            (pid, job)
        });
        let mut hosts = self.processes.run(vec![jobs.collect()], self.limits.call, deadline);
        for pid in pids {
            hosts.entry(pid).or_insert(Err(Missing::NoAnswer));
        }
        hosts
    }

    /// A process that the operating system does not show has ended or is hidden. Queried again, the driver still lists a
    /// hidden one.
    fn drop_ended(&mut self, answered: &mut [AnsweredGpu], hosts: &mut Hosts, deadline: Instant) {
        let is_unseen = |pid: &u32| matches!(hosts.get(pid), Some(Err(Missing::HiddenProcess)));
        let doubtful: Vec<usize> =
            (0..answered.len()).filter(|position| answered[*position].pids().any(|pid| is_unseen(&pid))).collect();
        if doubtful.is_empty() {
            return;
        }
        let questions = [Question::ComputeProcesses, Question::GraphicsProcesses];
        let lanes = doubtful.iter().map(|position| {
            let (source, gpu) = answered[*position].source_gpu;
            questions.iter().map(|question| self.job(source, gpu, *question)).collect()
        });
        let lanes: Vec<_> = lanes.collect();
        let mut answers = self.drivers.run(lanes, self.limits.call, deadline);
        for position in doubtful {
            let (source, gpu) = answered[position].source_gpu;
            for question in questions {
                if let Some(DriverAnswer::Gpu(Ok(Answer::Processes(again)))) =
                    answers.remove(&(source, Some((gpu, question))))
                {
                    answered[position]
                        .retain(question, |pid| !is_unseen(&pid) || again.iter().any(|one| one.pid == pid));
                }
            }
        }
    }

    fn measure_twice(&self, hosts: &mut Hosts, pause: Duration) {
        if hosts.values().all(Result::is_err) {
            return;
        }
        thread::sleep(pause);
        for (pid, read) in hosts {
            if let Ok((host, before)) = read
                && let Ok(after) = self.shared.reader.counters(*pid)
                && let Some((percent, seconds)) = before.percent_until(&after)
            {
                (host.cpu_percent, host.cpu_seconds) = (Ok(percent), seconds);
            }
        }
    }

    fn measure_since_last(&mut self, hosts: &mut Hosts) {
        let mut counters = HashMap::with_capacity(hosts.len());
        for (pid, read) in hosts {
            let Ok((host, now)) = read else { continue };
            if let Some(before) = self.counters.get(pid)
                && let Some((percent, seconds)) = before.percent_until(now)
            {
                (host.cpu_percent, host.cpu_seconds) = (Ok(percent), seconds);
            }
            counters.insert(*pid, *now);
        }
        self.counters = counters;
    }
}
