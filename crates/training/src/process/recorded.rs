//! Runs a recorded script.

use vramfit_eager::autograd::{RecurrentWeights, Thread};
use vramfit_eager::forward::{Forward, PhaseEnd};

use super::{LivePass, Process};
use crate::program::Mark;
use crate::report::Phase;

impl Process<'_> {
    /// Does everything that a recorded script did, and marks the ends of its phases.
    pub(super) fn run_recorded(&mut self, index: usize) {
        let Process { script, context, passes, marks, .. } = self;
        let bound = script.passes[index].bound;
        let LivePass { shared, tensors, missing, .. } = &mut passes[index];
        context.set_thread(Thread::Main);
        context.recurrent_weights = RecurrentWeights::AsStored;
        context.has_sparse_gradients = true;
        context.set_grad(bound.variant.has_grad);
        let mut forward = Forward::new(shared, tensors);
        forward.run(context, |_, _, _| {});
        let end = context.memory().borrow().journal().len();
        let last = PhaseEnd { phase: Phase::Eval.name().to_owned(), at: end };
        let mut step = 0;
        for PhaseEnd { phase, at } in forward.phase_ends.drain(..).chain([last]) {
            let phase = named(&phase);
            // A script that ends with an update has nothing after it.
            if marks.last().is_none_or(|mark| mark.end < at) {
                marks.push(Mark { phase, step: Some(step), micro: None, end: at });
            }
            step += u32::from(phase == Phase::Step);
        }
        missing.append(&mut forward.missing);
        tensors.clone_from(&forward.tensors);
    }
}

fn named(name: &str) -> Phase {
    match name {
        "forward" => Phase::Forward,
        "backward" => Phase::Backward,
        "step" => Phase::Step,
        _ => Phase::Eval,
    }
}
