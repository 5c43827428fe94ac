//! Simulates candidates from the cheapest on until one fits.

use vramfit_eager::autograd::Libraries;
use vramfit_eager::memory::Category;
use vramfit_training::Phase;
use vramfit_training::answer::Fitting;
use vramfit_training::parallel;

use super::base_setups::BaseSetup;
use super::by_role::Search;
use super::free_tricks::FreeTricks;
use crate::memo::Memo;
use crate::pricing::Pricing;
use crate::setup::Setup;
use crate::tricks::Role;

/// The result of a walk.
pub struct WalkResult {
    /// The cheapest candidate that fits.
    pub best: Option<(Setup, Fitting)>,
    /// Number of candidates, including those outside the limits.
    pub candidates: usize,
    /// For each base setup in its leanest form, the time for the same work over that of the start; `None` if it cannot be
    /// priced.
    pub slowdowns: Vec<Option<f64>>,
}

/// The slowdowns that a walk considers.
#[derive(Clone, Copy, Debug)]
pub struct Slowdowns {
    /// Only those above.
    pub above: f64,
    /// Only those up to this one.
    pub up_to: f64,
}

impl Slowdowns {
    /// Whether a slowdown is considered.
    pub fn contain(self, slowdown: f64) -> bool {
        slowdown > self.above && slowdown <= self.up_to
    }
}

/// Slowdowns that differ by less are equal; the candidate with fewer changes comes first.
pub const SLOWDOWN_STEP: f64 = 0.005;

/// A base setup with a combination of free tricks.
struct Candidate {
    base: usize,
    combination: usize,
    /// Rank of the base setup, rounded slowdown, whether it needs another package, number of changes, slowdown.
    key: (u64, i64, bool, usize, f64),
}

/// Simulates candidates from the cheapest on, in parallel, until one fits.
pub fn walk(search: &Search<'_, '_>, free: &FreeTricks, bases: &[BaseSetup], limits: Slowdowns) -> WalkResult {
    let (bench, control) = (search.bench, search.control);
    let priced = priced(search, free, bases, limits);
    let slowdowns = priced.iter().map(|base| base.leanest).collect();
    let considered = priced.iter().map(|base| base.combinations).sum();
    let mut candidates: Vec<Candidate> = priced.into_iter().flat_map(|base| base.candidates).collect();
    let lower_bounds = LowerBounds { excess: free.excess(bench), persistent: Memo::default() };
    let order = |one: &Candidate, other: &Candidate| {
        let before = |key: (u64, i64, bool, usize, f64)| (key.0, key.1, key.2, key.3);
        before(one.key).cmp(&before(other.key)).then(one.key.4.total_cmp(&other.key.4))
    };
    candidates.sort_by(order);
    let count = candidates.len();
    let mut at = 0;
    let wave = 4 * parallel::cores();
    while at < count && !control.is_stopped() {
        // Skip candidates of base setups that are known not to fit.
        let mut next: Vec<&Candidate> = Vec::with_capacity(wave);
        while at < count && next.len() < wave {
            if bases[candidates[at].base].cannot_fit.get() != Some(&true) {
                next.push(&candidates[at]);
            }
            at += 1;
        }
        let found = control.map(&next, |candidate| {
            let base = &bases[candidate.base];
            let cannot_fit =
                *base.cannot_fit.get_or_init(|| lower_bounds.exclude(search, &free.leanest(bench, &base.setup)));
            if cannot_fit {
                return None;
            }
            let setup = free.applied(bench, &base.setup, candidate.combination);
            bench.fitting_run(&setup, control).map(|run| (setup, run))
        });
        if let Some(best) = found.into_iter().flatten().flatten().next() {
            return WalkResult { best: Some(best), candidates: considered, slowdowns };
        }
    }
    WalkResult { best: None, candidates: considered, slowdowns }
}

/// The candidates of one base setup.
#[derive(Default)]
struct PricedBase {
    /// Those within the limits.
    candidates: Vec<Candidate>,
    /// Number of combinations that have a price.
    combinations: usize,
    /// The slowdown in its leanest form.
    leanest: Option<f64>,
}

/// Prices every base setup with every combination of free tricks.
fn priced(search: &Search<'_, '_>, free: &FreeTricks, bases: &[BaseSetup], limits: Slowdowns) -> Vec<PricedBase> {
    let Search { bench, start, control, .. } = *search;
    let Some(seconds) = bench.seconds(start) else { return Vec::new() };
    let start_rate = bench.seconds_per_element(start, seconds);
    let numbers: Vec<usize> = (0..bases.len()).collect();
    let priced = control.map(&numbers, |&number| {
        let base = &bases[number];
        // Most free tricks only change the loop, so few graphs are priced.
        let mut pricings: Vec<(Setup, Option<Pricing>)> = Vec::new();
        let mut slowdown = |setup: &Setup| -> Option<f64> {
            let known = pricings.iter().position(|(known, _)| known.has_same_graph(setup));
            let index = known.unwrap_or_else(|| {
                pricings.push((setup.clone(), bench.pricing(setup).ok()));
                pricings.len() - 1
            });
            let pricing = pricings[index].1.as_mut()?;
            Some(bench.seconds_per_element(setup, pricing.seconds(&setup.training)) / start_rate)
        };
        let mut candidates = Vec::with_capacity(free.combination_sizes().len());
        let mut combinations = 0;
        for (combination, tricks) in free.combination_sizes().enumerate() {
            let Some(slowdown) = slowdown(&free.applied(bench, &base.setup, combination)) else { continue };
            combinations += 1;
            if limits.contain(slowdown) {
                let rounded = (slowdown / SLOWDOWN_STEP).round() as i64;
                let needs_package = base.setup.training.parallel.has_engine();
                let key = (base.rank, rounded, needs_package, base.changes + tricks, slowdown);
                candidates.push(Candidate { base: number, combination, key });
            }
        }
        PricedBase { candidates, combinations, leanest: slowdown(&free.leanest(bench, &base.setup)) }
    });
    priced.into_iter().map(Option::unwrap_or_default).collect()
}

/// Lower bounds on memory.
struct LowerBounds {
    /// Bytes by which a leanest setup may exceed another combination of its free tricks.
    excess: u64,
    /// By the start with the settings that change what is kept for each weight.
    persistent: Memo<Setup, PersistentBytes>,
}

/// Bytes that persist from step to step.
#[derive(Clone, Copy)]
struct PersistentBytes {
    /// Weights, gradients and optimizer state.
    all: u64,
    optimizer_state: u64,
}

impl LowerBounds {
    /// Whether the peak live bytes exceed the cap, so that no allocator could serve the setup.
    fn exclude(&self, search: &Search<'_, '_>, setup: &Setup) -> bool {
        let (bench, control) = (search.bench, search.control);
        let max = bench.cap(Libraries::default()).saturating_add(self.excess);
        let Some(persistent) = self.of(search, setup).filter(|persistent| persistent.all <= max) else {
            return true;
        };
        // A forward pass takes a third of the time to simulate, so try it first. From the second step on it runs with the
        // optimizer's state in memory.
        let state = if setup.training.steps > 1 { persistent.optimizer_state } else { 0 };
        let exceeds = |found: Option<(u64, u64)>, state: u64| {
            found.is_none_or(|(min, cap)| (min + state).saturating_sub(self.excess) > cap)
        };
        exceeds(bench.min_forward_bytes(setup, control), state) || exceeds(bench.min_bytes(setup, control), 0)
    }

    /// `None` if the setup cannot be simulated.
    fn of(&self, search: &Search<'_, '_>, setup: &Setup) -> Option<PersistentBytes> {
        let mut key = search.start.clone();
        // Checkpoints keep nothing from step to step; whatever else saves tensors may keep less for each weight.
        let changes_state = |role: Role| {
            matches!(role, Role::Precision { .. } | Role::WeightState | Role::SavedTensors { by_module: false })
        };
        for trick in search.with_role(changes_state) {
            trick.adopt(search.bench, &mut key, setup);
        }
        self.persistent.get(key, || {
            let run = search.bench.probe_run(setup, search.control)?;
            let last = run.phases.iter().rev().find(|phase| phase.phase == Phase::Step);
            let requested = |category: Category| last.map_or(0, |step| step.peak.account.requested[category as usize]);
            let optimizer_state = requested(Category::Optimizer);
            let all = requested(Category::Parameters) + requested(Category::Gradients) + optimizer_state;
            Some(PersistentBytes { all, optimizer_state })
        })
    }
}
