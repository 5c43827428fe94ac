//! The part of a step after the backward pass: gradient clipping, GradScaler, optimizer.

use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Precision;
use vramfit_training::optimizer::{Implementation, Kind, Library, Recipe};
use vramfit_training::{Loop, StatePlace, script};

use crate::compute::matrix_product;
use crate::queues::{Cost, Queue};
use crate::scale::Scale;
use crate::tables::{OptimizerCost, Product, TABLES};

/// Launches of a foreach implementation, each over a list of tensors. The time depends little on this number.
const FOREACH_LAUNCHES: u32 = 8;
/// Newton-Schulz iterations of Muon.
const ITERATIONS: f64 = 5.0;

/// The trained weights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weights {
    all: Tensors,
    /// The copy in single precision that DeepSpeed's engine updates. It is one tensor, but the engine goes over the gradients one by one before,
    /// and is taken to need as long for each as an optimizer does.
    master: Tensors,
    /// The matrices of hidden layers, which Muon updates.
    hidden: Tensors,
    /// GPU time of Muon's matrix products.
    products: f64,
    needs_scaler: bool,
}

/// Some of the weights.
#[derive(Clone, Copy, Debug, Default)]
struct Tensors {
    count: f64,
    bytes: f64,
}

/// Bytes of an element of master weights.
const SINGLE: f64 = 4.0;

impl Tensors {
    fn add(&mut self, bytes: f64) {
        self.count += 1.0;
        self.bytes += bytes;
    }

    /// The part that one of some ranks has.
    fn split(self, ranks: u32) -> Tensors {
        Tensors { bytes: self.bytes / f64::from(ranks), ..self }
    }

    fn without(self, other: Tensors) -> Tensors {
        Tensors { count: self.count - other.count, bytes: self.bytes - other.bytes }
    }
}

impl Weights {
    pub fn of(bound: &Bound<'_>, scale: Scale) -> Weights {
        let needs_scaler = bound.variant.precision == Precision::Autocast(Dtype::Float16);
        let mut found = Weights { needs_scaler, ..Weights::default() };
        for weight in bound.model.parameters.iter().filter(|weight| weight.requires_grad) {
            let tensor = bound.tensor(weight.tensor);
            found.all.add(tensor.bytes as f64);
            found.master.add(SINGLE * tensor.shape.iter().product::<i64>() as f64);
            if script::is_hidden(bound, weight) {
                found.hidden.add(tensor.bytes as f64);
                found.products += newton_schulz(&tensor.shape, scale);
            }
        }
        found
    }

    /// Launches everything that follows the backward pass.
    pub fn step(&self, queue: &mut Queue, options: &Loop, recipe: Recipe, scale: Scale) {
        let has_engine = options.parallel.has_engine();
        // What DeepSpeed's engine does to gradients is counted as traffic.
        if options.clips_gradients && !has_engine {
            launch(queue, self.all, TABLES.optimizer_part("clip", "foreach"), FOREACH_LAUNCHES, scale);
        }
        if self.needs_scaler {
            launch(queue, self.all, TABLES.optimizer_part("scaler", "foreach"), 1, scale);
            queue.synchronize();
        }
        let place = if options.parallel.offloads() { StatePlace::Cpu } else { options.optimizer_state };
        let ranks = options.parallel.update_ranks();
        match (place, recipe.kind) {
            (_, Kind::None) => {}
            (StatePlace::Cpu, kind) if has_engine => {
                // Clipping and casting pass over the same bytes as the simplest update.
                on_cpu(queue, self.master, kind);
                on_cpu(queue, self.master, Kind::Sgd);
            }
            (StatePlace::Cpu, kind) => on_cpu(queue, self.all, kind),
            (StatePlace::Gpu, _) if has_engine => update(queue, self.master.split(ranks), options, recipe, scale),
            (StatePlace::Gpu, Kind::Muon) => {
                let muon = TABLES.optimizer(Kind::Muon, Implementation::Default);
                launch(queue, self.hidden.split(ranks), muon, self.hidden.count as u32, scale);
                queue.launch(Cost { cpu: 0.0, gpu: self.products });
                let others = Recipe::new(Kind::AdamW, Implementation::Default);
                update(queue, self.all.without(self.hidden).split(ranks), options, others, scale);
            }
            (StatePlace::Gpu, _) => update(queue, self.all.split(ranks), options, recipe, scale),
        }
    }
}

/// The CPU copies gradients from the GPU, updates its copies of the weights, and copies them back. The time is that of the
/// machine on which it was measured: rough, because CPUs and buses differ more than GPUs. Ranks share the CPU, so that it updates all
/// weights however they are split.
fn on_cpu(queue: &mut Queue, weights: Tensors, kind: Kind) {
    queue.synchronize();
    let cost = TABLES.optimizer_part(kind.name(), "cpu");
    let cpu = cost.base + cost.each * weights.count + cost.gpu_byte * weights.bytes;
    queue.launch(Cost { cpu, gpu: 0.0 });
}

/// GPU microseconds to read or write so many bytes, as long as clipping takes for each: it reads gradients twice and writes them once.
pub(crate) fn passing(bytes: f64, scale: Scale) -> f64 {
    TABLES.optimizer_part("clip", "foreach").gpu_byte / 3.0 * bytes * scale.memory
}

/// The update of some weights.
fn update(queue: &mut Queue, weights: Tensors, options: &Loop, recipe: Recipe, scale: Scale) {
    let is_loop = recipe.implementation == Implementation::ForLoop || recipe.kind.goes_weight_by_weight();
    let cost = TABLES.optimizer(recipe.kind, recipe.implementation);
    if options.steps_in_backward {
        // Each weight has an optimizer of its own, with all that a step takes.
        let cost = OptimizerCost { base: 0.0, each: cost.base + cost.each, ..cost };
        launch(queue, weights, cost, weights.count as u32, scale);
        return;
    }
    let launches = match recipe.implementation {
        Implementation::Fused => 1,
        _ if is_loop => weights.count as u32,
        _ => FOREACH_LAUNCHES,
    };
    launch(queue, weights, cost, launches, scale);
    if recipe.kind.library() == Library::Bitsandbytes {
        // It waits for the GPU after each weight; the time for that is in what was measured for each weight.
        queue.synchronize();
    }
}

fn launch(queue: &mut Queue, weights: Tensors, cost: OptimizerCost, launches: u32, scale: Scale) {
    let launches = launches.max(1);
    let part = 1.0 / f64::from(launches);
    let cpu = cost.base + cost.each * weights.count;
    let gpu = cost.gpu_each * weights.count + cost.gpu_byte * weights.bytes * scale.memory;
    for _ in 0..launches {
        queue.launch(Cost { cpu: cpu * part, gpu: gpu * part });
    }
}

/// GPU time of the products that make a matrix orthogonal, in half precision.
fn newton_schulz(shape: &[i64], scale: Scale) -> f64 {
    let [rows, columns] = *shape else { return 0.0 };
    let (short, long) = (rows.min(columns) as f64, rows.max(columns) as f64);
    let sizes = [[short, long, short], [short, short, short], [short, short, long]];
    ITERATIONS * sizes.map(|sizes| matrix_product(Product::Forward, sizes, true, scale)).iter().sum::<f64>()
}
