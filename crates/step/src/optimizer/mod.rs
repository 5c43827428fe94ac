//! Optimizers: the state they keep and what a step allocates on the way.

mod adam;

use std::cell::RefCell;
use std::rc::Rc;

use crate::ops::Context;
use crate::tensor::Tensor;

/// A trained weight and its gradient.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The weight.
    pub tensor: Tensor,
    /// Its gradient.
    pub gradient: Rc<RefCell<Option<Tensor>>>,
}

/// Which optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `torch.optim.Adam`.
    Adam,
    /// `torch.optim.AdamW`.
    AdamW,
    /// None: gradients are left as they are.
    None,
}

/// An optimizer with its state.
pub trait Optimizer {
    /// As `optimizer.step()`.
    fn step(&mut self, context: &mut Context, parameters: &[Parameter]);
}

/// The optimizer `kind` for so many parameters.
pub fn optimizer(kind: Kind, parameters: usize) -> Box<dyn Optimizer> {
    match kind {
        Kind::Adam | Kind::AdamW => Box::new(adam::Adam::new(parameters)),
        Kind::None => Box::new(Nothing),
    }
}

struct Nothing;

impl Optimizer for Nothing {
    fn step(&mut self, _context: &mut Context, _parameters: &[Parameter]) {}
}
