//! Workspaces whose size a library chooses, and what about them is not certain.

use std::collections::BTreeMap;
use std::rc::Rc;

use vramfit_cudnn::convolution::{ConvolutionProblem, Evidence, PlanTable, Planned, Trial, WorkspaceRange};

use super::Context;
use crate::autograd::Plans;
use crate::memory::Storage;

/// Workspaces that were estimated from similar recordings: which, and how often.
pub type Guessed = BTreeMap<String, u32>;

/// Operators without a rule, with the steps of the pass that call them.
pub type Missing = BTreeMap<String, Vec<u32>>;

/// Where the workspaces of cuDNN came from, recorded ones aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudnnSources {
    /// An installed cuDNN was asked about a convolution, and answered.
    pub is_asked: bool,
    /// A shipped table had cuDNN's answer for the GPU's compute capability.
    pub is_tabulated: bool,
    /// A convolution was guessed from recordings of others, or of another GPU.
    pub is_guessed: bool,
    /// A layer that no installed cuDNN is asked about takes what it takes on an H200: a recurrent layer, or attention.
    pub is_assumed: bool,
}

impl Context {
    /// Sets how cuDNN's plans are chosen.
    pub fn set_plans(&mut self, plans: Plans) {
        self.plans = plans;
    }

    pub(crate) fn plans(&self) -> Plans {
        self.plans
    }

    /// The plan for a convolution and its workspace, found once.
    pub(crate) fn planned(
        &mut self,
        problem: &ConvolutionProblem,
        find: impl FnOnce(&ConvolutionProblem) -> (WorkspaceRange, Option<Trial>),
    ) -> Planned {
        self.plan_cache.get(problem, self.thread as usize, find)
    }

    /// The workspaces of cuDNN's plans, with the smaller ones that follow where there is no room.
    pub fn plan_table(&self) -> PlanTable {
        self.plan_cache.table()
    }

    /// Takes the workspace of a library that does not say how much it needs, for as long as its kernels are launched. `what`
    /// names it in the answer.
    pub(crate) fn uncertain_workspace(&mut self, what: &str, (lower, expected, upper): (u64, u64, u64)) {
        if self.memory.borrow().is_muted() {
            return;
        }
        self.note_guess(what);
        let range = WorkspaceRange { expected, lower, upper, evidence: Evidence::Guessed };
        let plan = self.plan_cache.other(range);
        self.memory.borrow_mut().pass_through(range.assuming(self.plans.assumption), plan);
    }

    /// Memory of a size that is not known, held by the caller. `what` names it in the answer.
    pub(crate) fn uncertain_scratch(&mut self, what: &str, (lower, expected, upper): (u64, u64, u64)) -> Rc<Storage> {
        self.note_guess(what);
        let range = WorkspaceRange { expected, lower, upper, evidence: Evidence::Guessed };
        self.scratch(range.assuming(self.plans.assumption))
    }

    /// Counts a workspace that was estimated from similar recordings.
    pub(crate) fn note_guess(&mut self, what: &str) {
        match self.guessed.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.guessed.insert(what.to_owned(), 1)),
        }
    }

    /// The workspaces that were estimated from similar recordings.
    pub fn guessed(&self) -> &Guessed {
        &self.guessed
    }

    /// Notes that the backward pass calls an operator without a rule.
    pub(crate) fn note_unmodelled(&mut self, name: &str) {
        let origin = self.memory.borrow().origin();
        self.unmodelled.entry(name.to_owned()).or_default().push(origin);
    }

    /// The operators without a rule that the backward pass has called; forgets them.
    pub fn take_unmodelled(&mut self) -> Missing {
        std::mem::take(&mut self.unmodelled)
    }

    /// Notes that how many different rows a sparse gradient has was assumed.
    pub(crate) fn note_assumed_rows(&mut self) {
        self.has_assumed_rows = true;
    }

    /// Whether how many different rows a sparse gradient has was assumed.
    pub fn has_assumed_rows(&self) -> bool {
        self.has_assumed_rows
    }

    /// Notes where the workspace of a convolution comes from.
    pub(crate) fn note_cudnn_source(&mut self, evidence: Evidence) {
        match evidence {
            Evidence::Recorded => {}
            Evidence::Asked => self.cudnn_sources.is_asked = true,
            Evidence::Tabulated => self.cudnn_sources.is_tabulated = true,
            Evidence::Guessed => self.cudnn_sources.is_guessed = true,
        }
    }

    /// Notes a workspace that is taken to be as on an H200.
    pub(crate) fn note_assumed_workspace(&mut self) {
        self.cudnn_sources.is_assumed = true;
    }

    /// Where the workspaces of cuDNN came from.
    pub fn cudnn_sources(&self) -> CudnnSources {
        self.cudnn_sources
    }
}
