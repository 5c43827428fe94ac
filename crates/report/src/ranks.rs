//! A training on several GPUs, as JSON and pages show it.

use std::collections::BTreeMap;

use serde::Serialize;
use vramfit_eager::memory::{Category, Entry, Stream};
use vramfit_graph::bind::Bound;
use vramfit_plan::{Plan, Workbench};
use vramfit_training::answer::NCCL;
use vramfit_training::script::{Parallel, ZeroStage};
use vramfit_training::{Loop, Run, Traffic};

use crate::settings::how_spread;
use crate::size::human;

/// Where the bounds of its memory come from.
const NCCL_SOURCE: &str = "reports of NCCL's users: 544 and 688 MB a group on A100 with NVLink (NVIDIA/nccl#964), 1.6 GB (#864); \
                           the lower bound is two channels of 4 MiB buffers for each protocol and direction";

/// How a training is spread over GPUs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ParallelReport {
    /// `ddp`, `zero1`, `fsdp2`, `hsdp:RxS` or `tp`.
    how: String,
    /// How many GPUs there are.
    world: u32,
    /// The rank that all numbers are about: the first, whose parts are the largest.
    rank: u32,
    /// How many replicas of the model there are.
    replicas: u32,
    /// Over how many GPUs each replica is sharded or split.
    shards: u32,
    /// The batch of all GPUs and micro-batches together; null where the model has no batch size.
    global_batch: Option<i64>,
}

impl ParallelReport {
    pub fn of(bound: &Bound<'_>, training: &Loop) -> Option<ParallelReport> {
        let (replicas, shards) = match &training.parallel {
            Parallel::None => return None,
            Parallel::Replicated(settings) => (settings.world, 1),
            Parallel::Sharded(settings) => (settings.replicas, settings.shards),
            Parallel::Tensor(settings) => (1, settings.world),
            Parallel::DeepSpeed(settings) if settings.stage == ZeroStage::Three => (1, settings.world),
            Parallel::DeepSpeed(settings) => (settings.world, 1),
        };
        Some(ParallelReport {
            how: how_spread(&training.parallel),
            world: training.parallel.world(),
            rank: 0,
            replicas,
            shards,
            global_batch: global_batch(bound, training),
        })
    }
}

/// The batch of all GPUs and micro-batches together; `None` where the model has no batch size.
fn global_batch(bound: &Bound<'_>, training: &Loop) -> Option<i64> {
    let mut sizes = bound.model.symbols.iter().zip(bound.sizes.as_slice());
    let (_, batch) = sizes.find(|(symbol, _)| symbol.name == "batch")?;
    Some(batch * i64::from(training.parallel.batches()) * i64::from(training.accumulate.max(1)))
}

/// All GPUs together.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct AllRanks {
    /// How many GPUs there are.
    world: u32,
    /// The batch of all of them and of all micro-batches; null where the model has no batch size.
    batch: Option<i64>,
    /// Peak reserved bytes of all of them.
    peak_reserved: u64,
    /// Bytes that all of them send in a step.
    sent: u64,
}

impl AllRanks {
    /// Of a plan.
    pub fn of(bench: &Workbench<'_>, plan: &Plan) -> Option<AllRanks> {
        let bound = bench.bind(&plan.setup)?;
        AllRanks::new(&bound, &plan.setup.training, plan.run.peak_reserved)
    }

    /// Of a training whose first rank reserves so much; `None` on one GPU.
    pub fn new(bound: &Bound<'_>, training: &Loop, peak_reserved: u64) -> Option<AllRanks> {
        if training.parallel == Parallel::None {
            return None;
        }
        let world = training.parallel.world();
        Some(AllRanks {
            world,
            batch: global_batch(bound, training),
            peak_reserved: peak_reserved * u64::from(world),
            sent: Traffic::of(bound, training).total() * u64::from(world),
        })
    }

    /// A row of the table of numbers, below those of one GPU; nothing where there is no other.
    pub fn row(self) -> String {
        let batch = self.batch.map_or_else(String::new, |batch| format!(", batch {batch}"));
        if self.world == 1 {
            return String::new();
        }
        let name = format!("all {} GPUs", self.world);
        format!("{name:15} {:>10}   reserved{batch}, {} sent a step\n", human(self.peak_reserved), human(self.sent))
    }

    /// What one GPU takes beside what all take; nothing where there is no other.
    pub fn table(self) -> String {
        if self.world == 1 {
            return String::new();
        }
        let world = u64::from(self.world);
        let line = |name: &str, one: &str, all: &str| format!("    {name:13} {one:>10} {all:>12}\n");
        let mut text = line("", "one GPU", &format!("all {world} GPUs"));
        text += &line("reserved", &human(self.peak_reserved / world), &human(self.peak_reserved));
        text += &line("sent a step", &human(self.sent / world), &human(self.sent));
        let batch =
            self.batch.map(|batch| line("batch", &(batch / i64::from(self.world)).to_string(), &batch.to_string()));
        text + &batch.unwrap_or_default()
    }

    /// In words, after those about one GPU; nothing where there is no other.
    pub fn words(self) -> String {
        if self.world == 1 {
            return String::new();
        }
        let batch = self.batch.map_or_else(String::new, |batch| format!("batch {batch}, "));
        format!(
            "; all {} GPUs: {batch}{} reserved, {} sent a step",
            self.world,
            human(self.peak_reserved),
            human(self.sent)
        )
    }
}

/// What the ranks send each other.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CommunicationReport {
    /// The buffers of collectives in PyTorch's allocator, which the peaks count: for each stream the most that is allocated at once.
    buffers: Vec<StreamBuffers>,
    /// What a rank sends in a step.
    sent: SentReport,
    /// What NCCL itself takes, beside PyTorch's allocator. No other number counts it.
    pub(crate) nccl: NcclReport,
}

/// The buffers on one stream.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StreamBuffers {
    /// The stream: `compute`, `all-gather`, `reduce-scatter` or `all-reduce`.
    stream: &'static str,
    /// The most bytes at once.
    peak: u64,
}

/// What a rank sends in a step, in bytes, where collectives run as rings.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SentReport {
    /// By all-gathers of sharded weights.
    all_gather: u64,
    /// By reduce-scatters of gradients over shards.
    reduce_scatter: u64,
    /// By all-reduces: of gradients over replicas, of what split layers return and of their inputs' gradients.
    all_reduce: u64,
    /// By broadcasts: of the weights that `ZeroRedundancyOptimizer` has updated, and of the buffers of `DistributedDataParallel`.
    broadcast: u64,
}

/// What NCCL itself takes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NcclReport {
    /// How many communicators there are.
    communicators: u64,
    /// The lower bound of their memory.
    low: u64,
    /// The upper bound.
    pub(crate) high: u64,
    /// Where the bounds come from.
    source: &'static str,
}

impl CommunicationReport {
    pub fn of(bound: &Bound<'_>, training: &Loop, run: &Run) -> Option<CommunicationReport> {
        let communicators = match &training.parallel {
            Parallel::None => return None,
            Parallel::Sharded(settings) if settings.replicas > 1 => 2,
            _ => 1,
        };
        let Traffic { all_gather, reduce_scatter, all_reduce, broadcast, local: _ } = Traffic::of(bound, training);
        let nccl = NcclReport {
            communicators,
            low: communicators * NCCL.0,
            high: communicators * NCCL.1,
            source: NCCL_SOURCE,
        };
        Some(CommunicationReport {
            buffers: buffers(&run.journal),
            sent: SentReport { all_gather, reduce_scatter, all_reduce, broadcast },
            nccl,
        })
    }
}

impl NcclReport {
    /// A row of the table of numbers.
    pub fn row(&self) -> String {
        format!("{:15} {:>10}   to {} on each GPU, in no number here\n", "NCCL", human(self.low), human(self.high))
    }
}

/// What NCCL takes, and what is sent; nothing where there is one GPU.
pub(crate) fn notes(bound: &Bound<'_>, training: &Loop, run: &Run) -> Vec<String> {
    let communicators = u64::from(run.libraries.communicators);
    if communicators == 0 {
        return Vec::new();
    }
    let (low, high) = (human(communicators * NCCL.0), human(communicators * NCCL.1));
    let mut notes = vec![format!(
        "NCCL takes {low} to {high} more on each GPU: no number counts it, and `fits` leaves room for it"
    )];
    // A recorded script does not say what it sends.
    if training.parallel != Parallel::None {
        notes.push(format!("each GPU sends {} in a step", human(Traffic::of(bound, training).total())));
    }
    notes
}

/// The most bytes of buffers that are allocated at once, by stream.
fn buffers(journal: &[Entry]) -> Vec<StreamBuffers> {
    let mut live: BTreeMap<u32, (Stream, u64)> = BTreeMap::new();
    let mut streams: BTreeMap<Stream, (u64, u64)> = BTreeMap::new();
    for entry in journal {
        match *entry {
            Entry::Allocate { id, bytes, category: Category::Communication, stream, .. } => {
                live.insert(id, (stream, bytes));
                let (now, peak) = streams.entry(stream).or_default();
                *now += bytes;
                *peak = (*peak).max(*now);
            }
            Entry::Allocate { .. } => {}
            Entry::Free { id } => {
                if let Some((stream, bytes)) = live.remove(&id)
                    && let Some((now, _)) = streams.get_mut(&stream)
                {
                    *now -= bytes;
                }
            }
        }
    }
    streams.into_iter().map(|(stream, (_, peak))| StreamBuffers { stream: stream.name(), peak }).collect()
}
