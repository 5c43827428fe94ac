//! Simulates and prices setups of one model on one GPU, and caches the results.
//!
//! `bind` binds the model to a setup's sizes, `price` predicts step times, `simulate` runs the allocator.

mod bind;
mod price;
mod simulate;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use vramfit_eager::autograd::{HostMemory, KeptResults, Libraries};
use vramfit_eager::forward::{Choice, LossHead, Region};
use vramfit_graph::bind::Bound;
use vramfit_graph::expression::Linear;
use vramfit_graph::model::{Model, Size};
use vramfit_graph::select::{Sizes, VariantFlags};
use vramfit_price::{CostModel, PricedGraph};
use vramfit_training::Run;
use vramfit_training::answer::{Device, Scenarios};

use crate::cluster::Cluster;
use crate::error::SetupError;
use crate::forms::{Adapters, Forms, OtherForms};
use crate::memo::Memo;
use crate::pricing::Pricing;
use crate::setup::Setup;

/// Setups whose recorded requests are cached.
const CACHED_SCENARIOS: usize = 24;

/// A model on a GPU.
pub struct Workbench<'m> {
    /// The model as captured.
    pub model: &'m Model,
    /// The model with activations in place, if any can be.
    pub in_place: Option<&'m Model>,
    /// The model with adapters.
    pub forms: Forms<'m>,
    /// The GPU and the cap.
    pub device: Device<'m>,
    /// The share of the capacity that must stay free.
    margin: f64,
    /// The GPUs that the training may be spread over.
    pub cluster: Option<Cluster>,
    /// The sizes that `--batch` sets.
    pub batch: Vec<Linear>,
    variants: Memo<(VariantFlags, Form), usize>,
    bounds: Memo<BoundKey, Arc<Bound<'m>>>,
    /// Setups that could not be bound, and why.
    unbound: Mutex<HashMap<(VariantFlags, Vec<i64>), SetupError>>,
    /// The size symbols of each input, without inputs whose symbols all occur in another input.
    input_symbols: Vec<BTreeSet<u32>>,
    cost_model: CostModel,
    priced_graphs: Memo<BoundKey, Arc<PricedGraph>>,
    regions: Memo<RegionsKey, Arc<[Region]>>,
    pricings: Mutex<HashMap<(BoundKey, Recomputed), Pricing<'m>>>,
    /// Plans share intermediate setups.
    peaks: Memo<Setup, Peaks>,
    /// Minimum bytes of a forward pass, and the cap. The optimizer is removed from the key.
    forward_bytes: Memo<Setup, (u64, u64)>,
    /// Requests of probed setups. The allocator settings are removed from the key: requests do not depend on them.
    scenarios: Memo<Setup, Arc<Scenarios>>,
}

/// Variant, form, and what is computed again. Regions do not depend on sizes.
type RegionsKey = (usize, Form, Recomputed);

/// What a setup computes again in the backward pass, or copies back for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recomputed {
    checkpoint: Choice,
    kept_results: KeptResults,
    loss_head: LossHead,
    offload: Option<HostMemory>,
}

impl Recomputed {
    fn of(setup: &Setup) -> Recomputed {
        let training = &setup.training;
        Recomputed {
            checkpoint: training.checkpoint.clone(),
            kept_results: training.kept_results,
            loss_head: training.loss_head,
            offload: training.offload,
        }
    }
}

/// What a bound model depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BoundKey {
    variant: usize,
    sizes: Vec<i64>,
    form: Form,
    /// Over how many ranks its layers are split.
    split_over: u32,
    has_channels_last: bool,
}

/// Which form of the model a setup runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    AsGiven,
    InPlace,
    FusedAttention { is_in_place: bool },
    Adapted(Adapters),
}

/// The peaks of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Peak allocated bytes.
    pub allocated: u64,
    /// Peak reserved bytes.
    pub reserved: u64,
}

impl Peaks {
    /// The peaks of a run, without building the model.
    pub fn of(run: &Run) -> Peaks {
        Peaks { allocated: run.peak().map_or(0, |phase| phase.peak.allocated), reserved: run.peak_reserved }
    }
}

impl<'m> Workbench<'m> {
    /// Whether a setup has activations in place that the model was built without.
    pub fn is_in_place(&self, setup: &Setup) -> bool {
        setup.is_in_place || self.model.fine_tuning.has_activations_in_place
    }

    /// `in_place` is the result of [`crate::tricks::in_place::rewrite`] for `model`.
    pub fn new(model: &'m Model, in_place: Option<&'m Model>, device: Device<'m>) -> Workbench<'m> {
        Workbench {
            model,
            in_place,
            forms: Forms::default(),
            device,
            margin: 0.0,
            cluster: None,
            batch: Sizes::batch(model),
            input_symbols: input_symbols(model),
            variants: Memo::default(),
            bounds: Memo::default(),
            unbound: Mutex::default(),
            cost_model: CostModel::new(device.gpu),
            priced_graphs: Memo::default(),
            regions: Memo::default(),
            pricings: Mutex::default(),
            peaks: Memo::default(),
            forward_bytes: Memo::default(),
            scenarios: Memo::with_capacity(CACHED_SCENARIOS),
        }
    }

    /// Whether step times were measured on this GPU model. On others they are scaled from an H200, and rough.
    pub fn has_measured_times(&self) -> bool {
        self.cost_model.is_measured()
    }

    /// The same, where plans may train adapters.
    pub fn with_forms(self, forms: &'m OtherForms) -> Workbench<'m> {
        Workbench { forms: Forms::from(forms), ..self }
    }

    /// The same, where a share of the capacity must stay free for a setup to fit.
    pub fn with_margin(self, share: f64) -> Workbench<'m> {
        Workbench { margin: share, ..self }
    }

    /// The same, where the training may be spread over several GPUs.
    pub fn with_cluster(self, cluster: Option<Cluster>) -> Workbench<'m> {
        Workbench { cluster, ..self }
    }

    /// Bytes of the capacity that must stay free; 0 without a capacity.
    pub fn margin(&self) -> u64 {
        self.device.capacity().map_or(0, |capacity| (capacity.low as f64 * self.margin).ceil() as u64)
    }

    /// Bytes of the capacity that a setup may take.
    pub fn usable(&self) -> Option<u64> {
        Some(self.device.capacity()?.low.saturating_sub(self.margin()))
    }

    /// Upper bound of the bytes that PyTorch may reserve.
    pub(crate) fn cap(&self, libraries: Libraries) -> u64 {
        self.device.cap(libraries).map_or(u64::MAX, |cap| cap.saturating_sub(self.margin()))
    }

    /// The same model on another GPU.
    pub fn on(&self, device: Device<'m>) -> Workbench<'m> {
        Workbench {
            forms: self.forms,
            cluster: self.cluster,
            ..Workbench::new(self.model, self.in_place, device).with_margin(self.margin)
        }
    }
}

/// The size symbols of each input, without inputs whose symbols all occur in another input.
fn input_symbols(model: &Model) -> Vec<BTreeSet<u32>> {
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
