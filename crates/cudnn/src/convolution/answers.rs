//! Who answers the question which workspace cuDNN takes for a convolution.

use std::cell::RefCell;

use super::problem::ConvolutionProblem;
use super::problem_map::ProblemMap;
use super::range::WorkspaceRange;
use super::shipped;
use super::table::ConvolutionTable;
use crate::{GpuIdentity, TableError};

/// How many answers a thread remembers.
const REMEMBERED: usize = 1 << 13;

/// Where answers for a GPU come from.
#[derive(Clone, Copy, Debug)]
pub enum Answers<'t> {
    /// A table of this very GPU.
    Recorded(&'t ConvolutionTable<'t>),
    /// A table of another GPU: its expected sizes, in ranges that allow for any plan.
    OtherGpu(&'t ConvolutionTable<'t>),
    /// Nothing was recorded: ranges from no workspace to copies of all tensors.
    NotRecorded,
}

impl Answers<'static> {
    /// The shipped answers for a GPU.
    ///
    /// # Errors
    ///
    /// If the shipped table cannot be read.
    pub fn shipped(gpu: GpuIdentity) -> Result<Answers<'static>, &'static TableError> {
        Ok(match shipped::table()? {
            Some(table) => Answers::from_table(table, gpu),
            None => Answers::NotRecorded,
        })
    }
}

impl<'t> Answers<'t> {
    /// The answers of a table for a GPU, which need not be the table's own.
    pub fn from_table(table: &'t ConvolutionTable<'t>, gpu: GpuIdentity) -> Answers<'t> {
        if table.source().gpu == gpu { Answers::Recorded(table) } else { Answers::OtherGpu(table) }
    }

    /// The workspace of a convolution.
    pub fn workspace(&self, problem: &ConvolutionProblem) -> WorkspaceRange {
        match self {
            Answers::Recorded(table) => table.workspace(problem),
            Answers::OtherGpu(table) => table.workspace(problem).on_another_gpu(problem),
            Answers::NotRecorded => WorkspaceRange::not_recorded(problem),
        }
    }
}

/// The answers that a thread has already looked up for one GPU.
#[derive(Default)]
struct Memory {
    gpu: Option<GpuIdentity>,
    ranges: ProblemMap<WorkspaceRange>,
}

/// The workspace of a convolution on a GPU, from the shipped answers. A table that cannot be read counts as nothing recorded.
pub fn workspace(problem: &ConvolutionProblem, gpu: GpuIdentity) -> WorkspaceRange {
    thread_local! {
        static MEMORY: RefCell<Memory> = RefCell::default();
    }
    MEMORY.with_borrow_mut(|memory| {
        if memory.gpu != Some(gpu) || memory.ranges.len() >= REMEMBERED {
            memory.gpu = Some(gpu);
            memory.ranges.clear();
        }
        if let Some(range) = memory.ranges.get(problem) {
            return *range;
        }
        let range = Answers::shipped(gpu).unwrap_or(Answers::NotRecorded).workspace(problem);
        memory.ranges.insert(problem.clone(), range);
        range
    })
}

#[cfg(test)]
mod tests {
    use vramfit_graph::dtype::Dtype;

    use super::*;
    use crate::convolution::problem::tests::square;

    const H200: GpuIdentity =
        GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };
    const A100: GpuIdentity = GpuIdentity { compute_capability: (8, 0), multiprocessors: 108, ..H200 };

    #[test]
    fn an_unrecorded_type_is_between_no_workspace_and_copies_of_everything() {
        let problem = ConvolutionProblem { dtype: Dtype::Float64, ..square([64, 64], 56, 3, 1, 1) };
        let range = workspace(&problem, H200);
        assert!(range.lower == 0 && range.upper == problem.all_copies().unsigned_abs() && !range.is_certain());
        assert_eq!((range.expected, range.is_recorded), (0, false));
    }

    #[cfg(not(feature = "tables"))]
    #[test]
    fn without_tables_every_convolution_is_between_no_workspace_and_copies_of_everything() {
        let problem = square([64, 64], 56, 3, 1, 1);
        for gpu in [H200, A100] {
            assert!(matches!(Answers::shipped(gpu), Ok(Answers::NotRecorded)));
            let range = workspace(&problem, gpu);
            assert_eq!((range.expected, range.lower, range.is_recorded), (0, 0, false));
            assert_eq!(range.upper, problem.all_copies().unsigned_abs());
        }
    }

    #[cfg(feature = "tables")]
    #[test]
    fn another_gpu_gets_the_expected_size_in_a_range_for_any_plan() {
        let problem = square([64, 64], 56, 3, 1, 1);
        let (own, other) = (workspace(&problem, H200), workspace(&problem, A100));
        assert!(own.is_recorded && own.is_certain() && own.expected > 0);
        assert_eq!((other.expected, other.lower, other.is_recorded), (own.expected, 0, false));
        assert_eq!(other.upper, own.upper.max(problem.all_copies().unsigned_abs()));
        assert_eq!(workspace(&problem, H200), own);
    }
}
