//! Adam and AdamW, over lists of tensors.

use super::{Optimizer, Parameter};
use crate::memory::Category;
use crate::ops::Context;
use crate::tensor::Tensor;

/// The moments of each parameter, made in its first step.
pub struct Adam {
    moments: Vec<Option<[Tensor; 2]>>,
}

impl Adam {
    pub fn new(parameters: usize) -> Adam {
        Adam { moments: vec![None; parameters] }
    }
}

impl Optimizer for Adam {
    fn step(&mut self, context: &mut Context, parameters: &[Parameter]) {
        context.memory().borrow_mut().set_category(Category::Optimizer);
        let has_gradient = |parameter: &Parameter| parameter.gradient.borrow().is_some();
        for (index, parameter) in parameters.iter().enumerate().filter(|(_, parameter)| has_gradient(parameter)) {
            if self.moments[index].is_none() {
                let layout = parameter.tensor.layout().like(parameter.tensor.dtype());
                let first = context.empty(layout.clone());
                let second = context.empty(layout);
                self.moments[index] = Some([first, second]);
            }
        }
        context.memory().borrow_mut().set_category(Category::Temporary);
        // The square roots of the second moments, one list; Python lets go of a list from its end.
        let mut roots: Vec<Tensor> = Vec::new();
        for parameter in parameters.iter().filter(|parameter| has_gradient(parameter)) {
            let layout = parameter.tensor.layout().like(parameter.tensor.dtype());
            roots.push(context.empty(layout));
        }
        while roots.pop().is_some() {}
    }
}
