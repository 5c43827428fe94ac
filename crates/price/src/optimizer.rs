//! What follows the backward pass: clipping, a scaler, the optimizer.

use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Precision;
use vramfit_training::Loop;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};

use crate::queues::{Cost, Queues};
use crate::scale::Scale;
use crate::tables::{OptimizerCost, TABLES};

/// Operators over lists that a step hands over one after another; how many does not matter much.
const LISTS: u32 = 8;

/// The weights that are trained.
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

    /// Hands over all that follows the backward pass.
    pub fn step(&self, queues: &mut Queues, options: &Loop, recipe: Recipe, scale: Scale) {
        if options.clips_gradients {
            self.hand_over(queues, TABLES.optimizer_part("clip", "foreach"), LISTS, scale);
        }
        if self.needs_scaler {
            self.hand_over(queues, TABLES.optimizer_part("scaler", "foreach"), 1, scale);
            queues.wait();
        }
        if recipe.kind == Kind::None {
            return;
        }
        let is_loop = recipe.implementation == Implementation::ForLoop || recipe.kind == Kind::Adafactor;
        let pieces = match recipe.implementation {
            Implementation::Fused => 1,
            _ if is_loop => self.count as u32,
            _ => LISTS,
        };
        self.hand_over(queues, TABLES.optimizer(recipe.kind, recipe.implementation), pieces, scale);
    }

    fn hand_over(&self, queues: &mut Queues, cost: OptimizerCost, pieces: u32, scale: Scale) {
        let pieces = pieces.max(1);
        let part = 1.0 / f64::from(pieces);
        let cpu = cost.base + cost.each * self.count;
        let gpu = cost.gpu_each * self.count + cost.gpu_byte * self.bytes * scale.memory;
        for _ in 0..pieces {
            queues.hand_over(Cost { cpu: cpu * part, gpu: gpu * part });
        }
    }
}
