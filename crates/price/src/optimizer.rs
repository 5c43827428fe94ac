//! The part of a step after the backward pass: gradient clipping, GradScaler, optimizer.

use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Precision;
use vramfit_training::Loop;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};

use crate::queues::{Cost, Queue};
use crate::scale::Scale;
use crate::tables::{OptimizerCost, TABLES};

/// Launches of a foreach implementation, each over a list of tensors. The time depends little on this number.
const FOREACH_LAUNCHES: u32 = 8;

/// The trained weights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weights {
    count: f64,
    bytes: f64,
    needs_scaler: bool,
}

impl Weights {
    pub fn of(bound: &Bound<'_>) -> Weights {
        let trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
        let needs_scaler = bound.variant.precision == Precision::Autocast(Dtype::Float16);
        let none = Weights { needs_scaler, ..Weights::default() };
        trained.fold(none, |sum, weight| Weights {
            count: sum.count + 1.0,
            bytes: sum.bytes + bound.tensor(weight.tensor).bytes as f64,
            ..sum
        })
    }

    /// Launches everything that follows the backward pass.
    pub fn step(&self, queue: &mut Queue, options: &Loop, recipe: Recipe, scale: Scale) {
        if options.clips_gradients {
            self.launch(queue, TABLES.optimizer_part("clip", "foreach"), FOREACH_LAUNCHES, scale);
        }
        if self.needs_scaler {
            self.launch(queue, TABLES.optimizer_part("scaler", "foreach"), 1, scale);
            queue.synchronize();
        }
        if recipe.kind == Kind::None {
            return;
        }
        let is_loop = recipe.implementation == Implementation::ForLoop || recipe.kind == Kind::Adafactor;
        let launches = match recipe.implementation {
            Implementation::Fused => 1,
            _ if is_loop => self.count as u32,
            _ => FOREACH_LAUNCHES,
        };
        self.launch(queue, TABLES.optimizer(recipe.kind, recipe.implementation), launches, scale);
    }

    fn launch(&self, queue: &mut Queue, cost: OptimizerCost, launches: u32, scale: Scale) {
        let launches = launches.max(1);
        let part = 1.0 / f64::from(launches);
        let cpu = cost.base + cost.each * self.count;
        let gpu = cost.gpu_each * self.count + cost.gpu_byte * self.bytes * scale.memory;
        for _ in 0..launches {
            queue.launch(Cost { cpu: cpu * part, gpu: gpu * part });
        }
    }
}
