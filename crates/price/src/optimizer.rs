//! How often an optimizer goes over its numbers.

use vramfit_step::optimizer::{Implementation, Kind, Recipe};

/// Reads and writes of a step for each weight's number: those of the algorithm for a fused kernel, and three (two read, one
/// written) for each operator over lists or single weights elsewhere.
pub(crate) fn passes(recipe: Recipe) -> f64 {
    let (state, operators) = match recipe.kind {
        Kind::None => return 0.0,
        Kind::Sgd => (0.0, 1.0),
        Kind::Momentum | Kind::Nesterov => (1.0, 3.0),
        Kind::Adam | Kind::AdamW => (2.0, 7.0),
        Kind::Amsgrad => (3.0, 8.0),
        Kind::RmsProp | Kind::Adagrad => (1.0, 5.0),
        Kind::Adadelta => (2.0, 9.0),
        Kind::Adamax | Kind::NAdam | Kind::RAdam => (2.0, 8.0),
        Kind::Adafactor => (0.1, 6.0),
    };
    match recipe.implementation {
        Implementation::Fused => 3.0 + 2.0 * state,
        _ => 3.0 * operators,
    }
}
