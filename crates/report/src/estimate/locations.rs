//! Which module and source line of the model a step of the simulation belongs to.

use vramfit_eager::memory::ADDED_LOSS;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::Source;

/// The modules of all steps of a forward pass.
pub struct Locations<'a> {
    bound: &'a Bound<'a>,
    /// For each step the innermost module with a path that runs it.
    modules: Vec<Option<u32>>,
}

impl<'a> Locations<'a> {
    /// Goes through the pass once.
    pub fn new(bound: &'a Bound<'a>) -> Locations<'a> {
        let mut open: Vec<u32> = Vec::new();
        let has_path = |module: &&u32| bound.model.modules[**module as usize].path.is_some();
        let modules = bound
            .steps
            .iter()
            .map(|step| {
                match step {
                    BoundStep::Enter(module, _) => open.push(*module),
                    BoundStep::Exit(_, _) => {
                        open.pop();
                    }
                    _ => {}
                }
                open.iter().rev().find(has_path).copied()
            })
            .collect();
        Locations { bound, modules }
    }

    /// The dotted path of the module that runs a step, or words for a loss that was added; `None` elsewhere outside the
    /// model and in its outermost module.
    pub fn module(&self, step: u32) -> Option<&'a str> {
        if step == ADDED_LOSS {
            return Some("the added loss");
        }
        let module = (*self.modules.get(step as usize)?)?;
        self.bound.model.modules[module as usize].path.as_deref().filter(|path| !path.is_empty())
    }

    /// The operator of a step.
    pub fn operator(&self, step: u32) -> Option<&'a str> {
        match self.bound.steps.get(step as usize)? {
            BoundStep::Call(call) => Some(self.bound.operator_name(call)),
            _ => None,
        }
    }

    /// The line of the model's code that made a step.
    pub fn source(&self, step: u32) -> Option<&'a Source> {
        match self.bound.steps.get(step as usize)? {
            BoundStep::Call(call) => self.bound.model.sources.get(call.source? as usize),
            _ => None,
        }
    }
}
