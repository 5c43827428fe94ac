//! Candidates in the order of their price, until one fits.

use vramfit_eager::autograd::Libraries;
use vramfit_eager::memory::Category;
use vramfit_graph::select::VariantFlags;
use vramfit_training::optimizer::Kind;
use vramfit_training::parallel;
use vramfit_training::{Phase, Run};

use super::cells::Cell;
use crate::alloc_conf::AllocatorSetting;
use crate::control::Control;
use crate::memo::Memo;
use crate::pricing::Pricing;
use crate::setup::Setup;
use crate::tricks::{AllocatorSettings, FREEING_EARLIER, Trick};
use crate::workbench::Workbench;

/// What the walk found.
pub struct Walked {
    /// The cheapest that fits.
    pub best: Option<(Setup, Run)>,
    /// How many candidates there were.
    pub candidates: usize,
    /// The time for the same work that each cell takes with all free tricks that free memory earlier, by that of the
    /// start; `None` for a cell that cannot be priced.
    pub slowdowns: Vec<Option<f64>>,
}

/// A free trick with the setup that has it.
type Adoption = (&'static dyn Trick, Setup);

/// The free tricks on a start.
pub struct Free {
    /// Every combination, the empty one first.
    combinations: Vec<Vec<Adoption>>,
    /// Those that free memory earlier, each at its leanest.
    leanest: Vec<Adoption>,
}

/// Candidates whose prices differ by less are equally cheap: then the one with fewer changes is better.
const STEP: f64 = 0.005;
/// What a fused optimizer keeps on the GPU beside its state, for each weight: a step counter.
const COUNTER: u64 = 512;

/// A cell with a combination of free tricks.
struct Candidate {
    cell: usize,
    combination: usize,
    key: (i64, usize, f64),
}

/// Simulates candidates from the cheapest on, on all cores at once, until one fits.
pub fn walk(bench: &Workbench<'_>, start: &Setup, free: &Free, cells: &[Cell], control: &Control) -> Walked {
    let priced = priced(bench, start, free, cells, control);
    let slowdowns = priced.iter().map(|cell| cell.leanest).collect();
    let mut candidates: Vec<Candidate> = priced.into_iter().flat_map(|cell| cell.candidates).collect();
    let floors = Floors::default();
    let order = |one: &Candidate, other: &Candidate| {
        one.key.0.cmp(&other.key.0).then(one.key.1.cmp(&other.key.1)).then(one.key.2.total_cmp(&other.key.2))
    };
    candidates.sort_by(order);
    let count = candidates.len();
    let mut at = 0;
    let wave = 4 * parallel::cores();
    while at < count && !control.is_stopped() {
        // The cells that have shown to be hopeless are left out without a look.
        let mut next: Vec<&Candidate> = Vec::with_capacity(wave);
        while at < count && next.len() < wave {
            if cells[candidates[at].cell].is_hopeless.get() != Some(&true) {
                next.push(&candidates[at]);
            }
            at += 1;
        }
        let found = control.map(&next, |candidate| {
            let cell = &cells[candidate.cell];
            let is_hopeless =
                *cell.is_hopeless.get_or_init(|| floors.exclude(bench, &free.leanest(bench, &cell.setup), control));
            if is_hopeless {
                return None;
            }
            let setup = free.applied(bench, &cell.setup, candidate.combination);
            bench.fitting(&setup, control).map(|run| (setup, run))
        });
        if let Some(best) = found.into_iter().flatten().flatten().next() {
            return Walked { best: Some(best), candidates: count, slowdowns };
        }
    }
    Walked { best: None, candidates: count, slowdowns }
}

/// A cell's prices.
#[derive(Default)]
struct Priced {
    candidates: Vec<Candidate>,
    leanest: Option<f64>,
}

/// Every cell with every combination of free tricks, and its price.
fn priced(bench: &Workbench<'_>, start: &Setup, free: &Free, cells: &[Cell], control: &Control) -> Vec<Priced> {
    let Some(seconds) = bench.seconds(start) else { return Vec::new() };
    let rate = bench.rate(start, seconds);
    let numbers: Vec<usize> = (0..cells.len()).collect();
    let priced = control.map(&numbers, |&number| {
        let cell = &cells[number];
        // Activations in place are another graph; no other free trick changes more than the loop.
        let mut pricings: [Option<Option<Pricing>>; 2] = [None, None];
        let mut slowdown = |setup: &Setup| -> Option<f64> {
            let pricing = &mut pricings[usize::from(setup.is_in_place)];
            let pricing = pricing.get_or_insert_with(|| bench.pricing(setup).ok()).as_mut()?;
            Some(bench.rate(setup, pricing.seconds(&setup.training)) / rate)
        };
        let mut candidates = Vec::with_capacity(free.combinations.len());
        for (combination, adoptions) in free.combinations.iter().enumerate() {
            let Some(slowdown) = slowdown(&free.applied(bench, &cell.setup, combination)) else { continue };
            let key = ((slowdown / STEP).round() as i64, cell.changes + adoptions.len(), slowdown);
            candidates.push(Candidate { cell: number, combination, key });
        }
        Priced { candidates, leanest: slowdown(&free.leanest(bench, &cell.setup)) }
    });
    priced.into_iter().map(Option::unwrap_or_default).collect()
}

/// What weights, their gradients and the optimizer's state take, by precision and optimizer: no cell needs less.
#[derive(Default)]
struct Floors(Memo<(VariantFlags, Kind), Lasting>);

/// What stays from step to step, in bytes.
#[derive(Clone, Copy)]
struct Lasting {
    /// Weights, gradients and the optimizer's state.
    all: u64,
    /// The optimizer's state.
    state: u64,
}

impl Floors {
    /// Whether more is held at once than there is, whatever the allocator does.
    fn exclude(&self, bench: &Workbench<'_>, setup: &Setup, control: &Control) -> bool {
        let counters = COUNTER * bench.model.parameters.len() as u64;
        let most = bench.device.cap(Libraries::default()).unwrap_or(u64::MAX).saturating_add(counters);
        let Some(lasting) = self.of(bench, setup, control).filter(|lasting| lasting.all <= most) else { return true };
        // From the second step on the optimizer's state is there while the forward pass runs, which takes a third of the time
        // to simulate.
        let state = if setup.training.steps > 1 { lasting.state } else { 0 };
        let exceeds = |found: Option<(u64, u64)>, also: u64| {
            found.is_none_or(|(least, cap)| (least + also).saturating_sub(counters) > cap)
        };
        exceeds(bench.least_bytes_forward(setup, control), state) || exceeds(bench.least_bytes(setup, control), 0)
    }

    /// `None` where the setup cannot be simulated.
    fn of(&self, bench: &Workbench<'_>, setup: &Setup, control: &Control) -> Option<Lasting> {
        self.0.get((setup.variant, setup.training.optimizer.kind), || {
            let run = bench.run_free(setup, control)?;
            let last = run.phases.iter().rev().find(|phase| phase.phase == Phase::Step);
            let requested = |category: Category| last.map_or(0, |step| step.peak.account.requested[category as usize]);
            let state = requested(Category::Optimizer);
            Some(Lasting { all: requested(Category::Parameters) + requested(Category::Gradients) + state, state })
        })
    }
}

impl Free {
    /// What the free tricks propose for a start.
    pub fn new(bench: &Workbench<'_>, start: &Setup) -> Free {
        let mut combinations: Vec<Vec<Adoption>> = vec![Vec::new()];
        let mut leanest = Vec::new();
        for trick in FREEING_EARLIER {
            let alternatives = trick.alternatives(bench, start).unwrap_or_default();
            // The first alternative is the leanest.
            leanest.extend(alternatives.first().map(|first| (trick, first.clone())));
            combine(&mut combinations, trick, &alternatives);
        }
        let mut settings = AllocatorSettings.alternatives(bench, start).unwrap_or_default();
        // Rounding sizes up costs memory; it is shown, not searched.
        let rounds_up = |setup: &Setup| setup.alloc_conf.sets(AllocatorSetting::RoundupPower2Divisions);
        settings.retain(|setup| !rounds_up(setup) || rounds_up(start));
        combine(&mut combinations, &AllocatorSettings, &settings);
        Free { combinations, leanest }
    }

    /// A cell with every free trick that frees memory earlier.
    pub fn leanest(&self, bench: &Workbench<'_>, cell: &Setup) -> Setup {
        adopted(bench, cell, &self.leanest)
    }

    fn applied(&self, bench: &Workbench<'_>, cell: &Setup, combination: usize) -> Setup {
        adopted(bench, cell, &self.combinations[combination])
    }
}

/// Adds every known combination with each of a trick's alternatives.
fn combine(combinations: &mut Vec<Vec<Adoption>>, trick: &'static dyn Trick, alternatives: &[Setup]) {
    let mut more = Vec::new();
    for combination in combinations.iter() {
        for setup in alternatives {
            let mut with = combination.clone();
            with.push((trick, setup.clone()));
            more.push(with);
        }
    }
    combinations.extend(more);
}

fn adopted(bench: &Workbench<'_>, cell: &Setup, adoptions: &[Adoption]) -> Setup {
    let mut setup = cell.clone();
    for (trick, with) in adoptions {
        trick.adopt(bench, &mut setup, with);
    }
    setup
}
