//! A slimmer model: which modules hold most memory, and what fewer or narrower ones would save.
//!
//! A model with fewer blocks is simulated. The saving of a narrower layer, or of a GRU instead of an LSTM, is estimated
//! from weights, gradients and optimizer state, because activations depend on the rest of the model.

mod fewer_blocks;

use std::collections::HashMap;

use vramfit_eager::forward::block_names;
use vramfit_eager::memory::Category;
use vramfit_graph::bind::Bound;
use vramfit_graph::select::select_variant;
use vramfit_training::{Phase, visit};

use crate::control::Control;
use crate::forms::Adapters;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::tricks::role::Role;
use crate::tricks::trick::{Finding, Trick};
use crate::workbench::{Peaks, Workbench};

use fewer_blocks::without_blocks;

pub(crate) struct SlimmerModel;

/// Kinds of modules to report.
const SHOWN: usize = 4;

impl Trick for SlimmerModel {
    fn name(&self) -> &'static str {
        "slimmer model"
    }

    fn setting(&self) -> &'static str {
        "model"
    }

    fn role(&self) -> Role {
        Role::Shown(Risk::SmallerTraining)
    }

    fn conflicts(&self) -> &'static str {
        "pretrained weights of the larger model"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "fewer or narrower layers, GRU instead of LSTM: a change to the model's own configuration"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, _start: &Setup) -> Result<Vec<Setup>, String> {
        Err("this needs another model; the list shows what parts of this one take".to_owned())
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, control: &Control) -> Vec<Finding> {
        let (Some(bound), Some(run)) = (bench.bind(start), bench.probe_run(start, control)) else { return Vec::new() };
        let mut found = fewer(bench, start, &bound, Peaks::of(&run), control);
        // Bytes of weights, gradients and optimizer state per byte of weights.
        let step = run.phases.iter().rev().find(|phase| phase.phase == Phase::Step);
        let share = step.map_or(1.0, |step| {
            let of = |category: Category| step.peak.account.requested[category as usize] as f64;
            let weights = of(Category::Parameters);
            (weights + of(Category::Gradients) + of(Category::Optimizer)) / weights.max(1.0)
        });
        found.extend(holders(bench, start, &bound, share));
        found.extend(recurrent(&bound, share));
        found
    }
}

/// What the model saves without its last blocks.
fn fewer(bench: &Workbench<'_>, start: &Setup, bound: &Bound<'_>, peaks: Peaks, control: &Control) -> Vec<Finding> {
    let blocks = block_names(bound);
    let Ok(variant) = select_variant(bench.model, start.variant) else { return Vec::new() };
    let mut counts = vec![1, blocks.len() / 2];
    counts.dedup();
    counts.retain(|&count| count > 0 && count < blocks.len());
    let mut found = Vec::new();
    for count in counts {
        let removed = &blocks[blocks.len() - count..];
        let Some(model) = without_blocks(bench.model, variant, removed) else { continue };
        let other = Workbench::new(&model, None, bench.device);
        let start = Setup { is_in_place: false, adapters: Adapters::AsGiven, ..start.clone() };
        if let Some(now) = other.peaks(&start, control) {
            found.push(Finding {
                what: format!("without {count} of {} blocks (from {} on), simulated", blocks.len(), removed[0]),
                bytes: Some(peaks.reserved as i64 - now.reserved as i64),
            });
        }
    }
    found
}

/// The kinds of modules that hold most memory: tensors saved for backward, and weights with gradients and optimizer
/// state.
fn holders(bench: &Workbench<'_>, start: &Setup, bound: &Bound<'_>, share: f64) -> Vec<Finding> {
    let Ok(visits) = visit(bound, &start.training, bench.machine()) else { return Vec::new() };
    let layers = vramfit_training::layers::layers(bound, &visits);
    let size = bound.model.parameters.first().map_or(4, |weight| bound.tensor(weight.tensor).dtype.bytes());
    let mut kinds: HashMap<(String, String), (u64, u64, u64)> = HashMap::new();
    for layer in layers.iter().filter(|layer| layer.is_leaf) {
        let parts =
            layer.path.split('.').map(|part| if part.bytes().all(|byte| byte.is_ascii_digit()) { "*" } else { part });
        let pattern = parts.collect::<Vec<_>>().join(".");
        let kind = kinds.entry((layer.class.clone(), pattern)).or_default();
        kind.0 += 1;
        kind.1 += layer.saved_bytes;
        kind.2 += (layer.parameters as f64 * size as f64 * share) as u64;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by(|one, other| (other.1.1 + other.1.2).cmp(&(one.1.1 + one.1.2)).then(one.0.cmp(&other.0)));
    kinds
        .into_iter()
        .take(SHOWN)
        .map(|((class, pattern), (count, saved, weights))| {
            let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            Finding {
                what: format!(
                    "{pattern} ({count} {class}) hold {:.0} MiB for backward and {:.0} MiB in weights, gradients and \
                     optimizer state; half as wide they would save about",
                    mebibytes(saved),
                    mebibytes(weights)
                ),
                bytes: Some(((saved + weights) / 2) as i64),
            }
        })
        .collect()
}

/// The saving of a GRU, which has three gates, over an LSTM, which has four.
fn recurrent(bound: &Bound<'_>, share: f64) -> Option<Finding> {
    let model = bound.model;
    let modules =
        model.modules.iter().filter(|module| module.class == "LSTM").filter_map(|module| module.path.as_deref());
    let paths: Vec<&str> = modules.collect();
    let bytes: u64 = model
        .parameters
        .iter()
        .filter(|weight| {
            weight.names.iter().any(|name| {
                paths
                    .iter()
                    .any(|path| path.is_empty() || name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
            })
        })
        .map(|weight| bound.tensor(weight.tensor).bytes)
        .sum();
    (bytes > 0).then(|| Finding {
        what: "GRU instead of LSTM: a quarter of its weights, with their gradients and optimizer state".to_owned(),
        bytes: Some((bytes as f64 / 4.0 * share) as i64),
    })
}
