//! Where setups are simulated and priced, all on one GPU.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_eager::forward::{Choice, Region};
use vramfit_eager::machine::Machine;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::expression::Linear;
use vramfit_graph::model::{Model, Size};
use vramfit_graph::select::{Sizes, VariantFlags, select_variant};
use vramfit_price::{CostModel, PricedGraph};
use vramfit_training::answer::{Answer, Device, Scenarios};
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{Loop, Program, Run, record, record_forward};

use crate::alloc_conf::AllocConf;
use crate::control::Control;
use crate::error::{SetupError, Unbound};
use crate::memo::Memo;
use crate::pricing::Pricing;
use crate::setup::Setup;

/// A model on a GPU.
pub struct Workbench<'m> {
    /// The model as captured.
    pub model: &'m Model,
    /// The same with activations in place, where any may be.
    pub in_place: Option<&'m Model>,
    /// The GPU.
    pub device: Device<'m>,
    /// The sizes that are the batch.
    pub batch: Vec<Linear>,
    variants: Memo<VariantFlags, usize>,
    bounds: Memo<BoundKey, Arc<Bound<'m>>>,
    /// What could not be bound, and why.
    unbound: Mutex<HashMap<(VariantFlags, Vec<i64>), SetupError>>,
    /// The symbols of each input that has some which no other input has.
    measures: Vec<BTreeSet<u32>>,
    cost_model: CostModel,
    priced_graphs: Memo<BoundKey, Arc<PricedGraph>>,
    regions: Memo<RegionsKey, Arc<[Region]>>,
    pricings: Mutex<HashMap<(BoundKey, Choice), Pricing>>,
    /// Plans have changes in common.
    peaks: Memo<Setup, Peaks>,
    /// What forward passes need at least, and the cap: those of setups with different optimizers are the same.
    passes: Memo<Setup, (u64, u64)>,
    /// What setups that were looked at request: those that differ in the allocator's settings request the same.
    looked_at: Memo<Setup, Arc<Scenarios>>,
}

/// Variant, whether activations are in place, and what is checkpointed: which steps that covers does not depend on sizes.
type RegionsKey = (usize, bool, Choice);

/// Variant, sizes, and whether activations are in place.
type BoundKey = (usize, Vec<i64>, bool);

/// Micro-batches from the second on do the same; so many are simulated where a candidate is only looked at.
const LOOKED_AT: u32 = 2;
/// So many where it is reported what a trick saves.
const REPORTED: u32 = 8;
/// And so many of a plan, which has to fit: the cache has long reached its steady state then.
const PLANNED: u32 = 64;

/// The requests of how many setups are kept.
const KEPT: usize = 24;

/// The loop with fewer micro-batches, where it has many.
fn shortened(training: &Loop, micro_batches: u32) -> Loop {
    Loop { accumulate: training.accumulate.min(micro_batches), ..training.clone() }
}

/// The peaks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Peak allocated bytes.
    pub allocated: u64,
    /// Peak reserved bytes.
    pub reserved: u64,
}

impl<'m> Workbench<'m> {
    /// For a model on a GPU; `in_place` is what [`crate::tricks::in_place::rewrite`] made of it.
    pub fn new(model: &'m Model, in_place: Option<&'m Model>, device: Device<'m>) -> Workbench<'m> {
        Workbench {
            model,
            in_place,
            device,
            batch: Sizes::batch(model),
            measures: measures(model),
            variants: Memo::default(),
            bounds: Memo::default(),
            unbound: Mutex::default(),
            cost_model: CostModel::new(device.gpu),
            priced_graphs: Memo::default(),
            regions: Memo::default(),
            pricings: Mutex::default(),
            peaks: Memo::default(),
            passes: Memo::default(),
            looked_at: Memo::of_at_most(KEPT),
        }
    }

    /// The same model on another GPU.
    pub fn on(&self, device: Device<'m>) -> Workbench<'m> {
        Workbench::new(self.model, self.in_place, device)
    }

    /// Its GPU, as far as the step's memory depends on it.
    pub fn machine(&self) -> Machine {
        self.device.gpu.into()
    }

    /// The model at a setup's sizes, in its precision; `None` where it was not captured for that.
    pub fn bind(&self, setup: &Setup) -> Option<Arc<Bound<'m>>> {
        self.try_bind(setup).ok()
    }

    /// The same with the reason where it cannot be bound.
    ///
    /// # Errors
    /// The model was not captured for this precision, mode or these sizes.
    pub fn try_bind(&self, setup: &Setup) -> Result<Arc<Bound<'m>>, SetupError> {
        let key = self.key(setup)?;
        self.bounds.try_get(key, || self.bind_anew(setup).map(Arc::new))
    }

    /// Binds without keeping the result. A failure is noted for [`Workbench::unbound`].
    fn bind_anew(&self, setup: &Setup) -> Result<Bound<'m>, SetupError> {
        let (variant, _, is_in_place) = self.key(setup)?;
        let model = self.in_place.filter(|_| is_in_place).unwrap_or(self.model);
        bind(model, variant, &setup.sizes).map_err(|error| self.note_unbound(setup, error.into()))
    }

    fn note_unbound(&self, setup: &Setup, error: SetupError) -> SetupError {
        let key = (setup.variant, setup.sizes.as_slice().to_vec());
        self.unbound.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert_with(|| error.clone());
        error
    }

    /// Every combination of sizes and precision that was tried and could not be bound, the smallest sizes first.
    pub fn unbound(&self) -> Vec<Unbound> {
        let unbound = self.unbound.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = unbound.iter().collect();
        all.sort_by_key(|((variant, sizes), _)| (sizes.clone(), variant.dtype, variant.amp));
        let named = |sizes: &[i64]| {
            let symbols = self.model.symbols.iter().zip(sizes);
            symbols.map(|(symbol, &size)| (symbol.name.clone(), size)).collect()
        };
        all.into_iter()
            .map(|((variant, sizes), reason)| Unbound {
                sizes: named(sizes),
                variant: *variant,
                reason: reason.clone(),
            })
            .collect()
    }

    fn key(&self, setup: &Setup) -> Result<BoundKey, SetupError> {
        let variant = self
            .variants
            .try_get(setup.variant, || select_variant(self.model, setup.variant))
            .map_err(|error| self.note_unbound(setup, error.into()))?;
        Ok((variant, setup.sizes.as_slice().to_vec(), setup.is_in_place && self.in_place.is_some()))
    }

    /// Seconds of a step.
    pub fn seconds(&self, setup: &Setup) -> Option<f64> {
        self.try_seconds(setup).ok()
    }

    /// The same with the reason where it cannot be priced.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn try_seconds(&self, setup: &Setup) -> Result<f64, SetupError> {
        let key = (self.key(setup)?, setup.training.checkpoint.clone());
        if let Some(pricing) = self.pricings.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            return Ok(pricing.seconds(&setup.training));
        }
        let mut pricing = self.pricing(setup)?;
        let seconds = pricing.seconds(&setup.training);
        self.pricings.lock().unwrap_or_else(PoisonError::into_inner).insert(key, pricing);
        Ok(seconds)
    }

    /// The prices of a setup and of those that differ from it in their loop only, checkpoints aside.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn pricing(&self, setup: &Setup) -> Result<Pricing, SetupError> {
        let key = self.key(setup)?;
        let bound = self.try_bind(setup)?;
        let choice = &setup.training.checkpoint;
        let regions_key = (key.0, key.2, choice.clone());
        let graph = self.priced_graphs.try_get(key, || Ok::<_, SetupError>(Arc::new(self.cost_model.price(&bound))))?;
        let regions = self.regions.try_get(regions_key, || graph.regions(&bound, choice).map(Into::into))?;
        Ok(Pricing::new(graph, regions))
    }

    /// How long it takes to train on as much as the other does in a second: above 1 it is slower.
    pub fn slowdown(&self, start: &Setup, setup: &Setup) -> Option<f64> {
        Some(self.rate(setup, self.seconds(setup)?) / self.rate(start, self.seconds(start)?))
    }

    /// Seconds for each element that a setup trains on, where a step takes so many.
    pub fn rate(&self, setup: &Setup, seconds: f64) -> f64 {
        seconds / self.elements(setup)
    }

    /// What a step trains on: samples times their sizes, those of several sequences together.
    fn elements(&self, setup: &Setup) -> f64 {
        let sizes = setup.sizes.as_slice();
        let product =
            |symbols: &BTreeSet<u32>| -> f64 { symbols.iter().map(|&symbol| sizes[symbol as usize] as f64).product() };
        self.measures.iter().map(product).sum::<f64>() * f64::from(setup.training.accumulate)
    }

    /// The batch of one forward pass; `None` where the model has no size of that name.
    pub fn batch_of(&self, setup: &Setup) -> Option<i64> {
        self.batch.first().and_then(|&size| setup.sizes.value(size))
    }

    /// The same with another batch; `None` where the model was not made for it.
    pub fn with_batch(&self, setup: &Setup, batch: i64) -> Option<Setup> {
        if self.batch.is_empty() {
            return None;
        }
        Some(Setup { sizes: setup.sizes.replacing(self.model, &self.batch, batch)?, ..setup.clone() })
    }

    /// The next `count` batches above `last` that the model can have: an exported one may be made for multiples of a number
    /// only, or from some number on.
    pub fn batches_after(&self, setup: &Setup, last: i64, count: usize) -> Vec<i64> {
        let step = self.batch.iter().fold(1_i64, |step, size| step.saturating_mul(size.factor().saturating_abs()));
        let least_of = |size: &Linear| size.at(self.model.symbols[size.symbol() as usize].range?.least);
        let least = self.batch.iter().filter_map(least_of).max().unwrap_or(1);
        let mut found = Vec::with_capacity(count);
        let mut end = last.max(least).saturating_add(step);
        let mut batch = last;
        while found.len() < count && batch < end {
            batch += 1;
            if self.with_batch(setup, batch).is_some() {
                found.push(batch);
                end = end.max(batch.saturating_add(step));
            }
        }
        found
    }

    /// The allocator's settings on this GPU.
    pub fn settings(&self, setup: &Setup) -> Settings {
        self.device.settings(setup.alloc_conf.settings().clone())
    }

    /// What the setup may request.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn scenarios(&self, setup: &Setup) -> Result<Scenarios, SetupError> {
        Ok(Scenarios::record(&*self.try_bind(setup)?, &setup.training, self.machine())?)
    }

    /// What any allocator needs at least for a setup, and the cap on what PyTorch may reserve for it.
    pub fn least_bytes(&self, setup: &Setup, control: &Control) -> Option<(u64, u64)> {
        control.note_simulated();
        let program = self.program(setup, LOOKED_AT).ok()?;
        Some((program.least_bytes(), self.cap_of(&program)))
    }

    /// The same for a forward pass alone, without what an optimizer keeps.
    pub fn least_bytes_forward(&self, setup: &Setup, control: &Control) -> Option<(u64, u64)> {
        let mut setup = setup.clone();
        setup.training.optimizer = Recipe::new(Kind::None, Implementation::Default);
        self.passes.get(setup.clone(), || {
            control.note_simulated();
            let program = self.forward(&setup)?;
            Some((program.least_bytes(), self.cap_of(&program)))
        })
    }

    /// The expected run on a GPU of unlimited memory; of many micro-batches only the first.
    pub fn run_free(&self, setup: &Setup, control: &Control) -> Option<Run> {
        self.run_unlimited(setup, LOOKED_AT, control).ok()
    }

    /// What is allocated when the first forward pass has ended, which holds what every other does.
    pub fn held_after_forward(&self, setup: &Setup, control: &Control) -> Option<u64> {
        control.note_simulated();
        let settings = setup.alloc_conf.settings().clone();
        let run = self.forward(setup)?.run(settings, SimulatedDriver::in_process(u64::MAX));
        run.phases.last().map(|phase| phase.allocated)
    }

    /// The peaks of the expected run on a GPU of unlimited memory.
    pub fn peaks(&self, setup: &Setup, control: &Control) -> Option<Peaks> {
        self.try_peaks(setup, control).ok()
    }

    /// The same with the reason where it cannot be simulated.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn try_peaks(&self, setup: &Setup, control: &Control) -> Result<Peaks, SetupError> {
        self.peaks.try_get(setup.clone(), || self.run_unlimited(setup, REPORTED, control).map(|run| Peaks::of(&run)))
    }

    fn run_unlimited(&self, setup: &Setup, micro_batches: u32, control: &Control) -> Result<Run, SetupError> {
        control.note_simulated();
        let settings = setup.alloc_conf.settings().clone();
        Ok(self.program(setup, micro_batches)?.run(settings, SimulatedDriver::in_process(u64::MAX)))
    }

    fn program(&self, setup: &Setup, micro_batches: u32) -> Result<Program, SetupError> {
        Ok(record(&*self.try_bind(setup)?, &shortened(&setup.training, micro_batches), self.machine())?)
    }

    fn forward(&self, setup: &Setup) -> Option<Program> {
        record_forward(&*self.bind(setup)?, &setup.training, self.machine()).ok()
    }

    /// The cap on what PyTorch may reserve for a program.
    pub fn cap_of(&self, program: &Program) -> u64 {
        self.device.cap(program.libraries).unwrap_or(u64::MAX)
    }

    /// The expected run of a setup that fits for certain; `None` for any other. What is held at once decides first: any
    /// allocator needs that much.
    pub fn fitting(&self, setup: &Setup, control: &Control) -> Option<Run> {
        let with = |micro_batches: u32| Setup {
            training: shortened(&setup.training, micro_batches),
            alloc_conf: AllocConf::default(),
            ..setup.clone()
        };
        let short = with(LOOKED_AT);
        let scenarios = self.looked_at.try_get(short.clone(), || self.scenarios(&short).map(Arc::new)).ok()?;
        let run = self.fitting_scenarios(&scenarios, setup, control)?;
        if setup.training.accumulate <= LOOKED_AT {
            return Some(run);
        }
        self.fitting_scenarios(&self.scenarios(&with(PLANNED)).ok()?, setup, control)
    }

    /// The same for requests that are recorded already.
    pub fn fitting_scenarios(&self, scenarios: &Scenarios, setup: &Setup, control: &Control) -> Option<Run> {
        control.note_simulated();
        let expected = scenarios.expected();
        if expected.least_bytes() > self.cap_of(expected) {
            return None;
        }
        scenarios.fitting(&self.device, &self.settings(setup))
    }

    /// Whether a setup fits that will not be asked for again; `None` where it cannot be bound.
    pub fn fitting_once(&self, setup: &Setup, control: &Control) -> Option<bool> {
        let bound = self.bind_anew(setup).ok()?;
        let scenarios = Scenarios::record(&bound, &setup.training, self.machine()).ok()?;
        Some(self.fitting_scenarios(&scenarios, setup, control).is_some())
    }

    /// What `vramfit estimate` answers for a setup.
    ///
    /// # Errors
    /// The setup cannot be simulated.
    pub fn answer(&self, setup: &Setup, control: &Control) -> Result<Answer, SetupError> {
        control.note_simulated();
        Ok(self.scenarios(setup)?.answer(&self.device, &self.settings(setup), false)?)
    }
}

/// The symbols that the sizes of inputs are made of, those left out which are all in another input's.
fn measures(model: &Model) -> Vec<BTreeSet<u32>> {
    let of_size = |size: &Size| match size {
        Size::Symbolic(id) => model.expressions[id.0 as usize].symbols().collect(),
        Size::Known(_) => Vec::new(),
    };
    let mut all: Vec<BTreeSet<u32>> =
        model.inputs.iter().map(|input| input.shape.iter().flat_map(of_size).collect()).collect();
    all.sort_by_key(|symbols| std::cmp::Reverse(symbols.len()));
    let mut found: Vec<BTreeSet<u32>> = Vec::new();
    for symbols in all {
        if !found.iter().any(|larger| symbols.is_subset(larger)) {
            found.push(symbols);
        }
    }
    if found.is_empty() { vec![BTreeSet::new()] } else { found }
}

impl Peaks {
    /// Of a run, building not counted.
    pub fn of(run: &Run) -> Peaks {
        Peaks { allocated: run.peak().map_or(0, |phase| phase.peak.allocated), reserved: run.peak_reserved }
    }
}
