//! Who answers the question which workspace cuDNN takes for a convolution.

use std::cell::RefCell;

use super::live::LiveAnswers;
use super::problem::ConvolutionProblem;
use super::problem_map::ProblemMap;
use super::range::{Evidence, WorkspaceRange};
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
    /// Nothing was recorded: ranges from no workspace to the largest of any form.
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
    /// The GPU, and whether an installed cuDNN was asked about it.
    source: Option<(GpuIdentity, bool)>,
    /// Whether the installed cuDNN is another version than the recorded one, once that matters.
    is_other_version: Option<bool>,
    ranges: ProblemMap<WorkspaceRange>,
}

/// What cuDNN answers for a GPU of this compute capability that was only described to it: an installed library if there is one, else the
/// shipped tables. For a pointwise layer the tables come first: they were made next to a GPU, and have what
/// cuBLASLt takes there.
fn described(problem: &ConvolutionProblem, gpu: GpuIdentity, live: Option<&dyn LiveAnswers>) -> Option<WorkspaceRange> {
    let asked = || Some(WorkspaceRange::asked(&live?.plan(problem)?, problem, gpu));
    let tabulated = || {
        let bytes = shipped::by_capability(problem, gpu.compute_capability)?;
        Some(WorkspaceRange::described(bytes, Evidence::Tabulated, gpu))
    };
    if problem.is_pointwise() { tabulated().or_else(asked) } else { asked().or_else(tabulated) }
}

/// Whether an installed cuDNN is known to be another version than the one whose answers were recorded.
fn is_other_version(live: &dyn LiveAnswers) -> bool {
    live.version().is_some_and(|version| shipped::shipped_version().is_some_and(|recorded| recorded != version))
}

/// The workspace of a convolution on a GPU. Where no GPU like it was recorded, cuDNN's answers for its compute capability count. A
/// table that cannot be read counts as nothing recorded. An installed
/// cuDNN of another version than the recorded one may choose otherwise even on the recorded GPU.
pub fn workspace(problem: &ConvolutionProblem, gpu: GpuIdentity, live: Option<&dyn LiveAnswers>) -> WorkspaceRange {
    thread_local! {
        static MEMORY: RefCell<Memory> = RefCell::default();
    }
    MEMORY.with_borrow_mut(|memory| {
        let source = Some((gpu, live.is_some()));
        if memory.source != source || memory.ranges.len() >= REMEMBERED {
            *memory = Memory { source, ..Memory::default() };
        }
        if let Some(range) = memory.ranges.get(problem) {
            return *range;
        }
        let answers = Answers::shipped(gpu).unwrap_or(Answers::NotRecorded);
        let mut is_other_version =
            || *memory.is_other_version.get_or_insert_with(|| live.is_some_and(is_other_version));
        let range = match answers.workspace(problem) {
            recorded if recorded.evidence == Evidence::Recorded && is_other_version() => {
                recorded.or_of_another_version(described(problem, gpu, live))
            }
            recorded if recorded.evidence == Evidence::Recorded => recorded,
            guessed => match (described(problem, gpu, live), answers) {
                (Some(asked), Answers::Recorded(_)) if !is_other_version() => asked.beside_recorded(guessed, problem),
                (Some(asked), _) => asked,
                (None, _) => guessed,
            },
        };
        memory.ranges.insert(problem.clone(), range);
        range
    })
}

#[cfg(test)]
mod tests {
    use vramfit_graph::dtype::Dtype;

    use super::*;
    use crate::convolution::ConvolutionPass;
    use crate::convolution::live::{CudnnVersion, LivePlan, LiveReport};
    use crate::convolution::problem::tests::square;

    const H200: GpuIdentity =
        GpuIdentity { compute_capability: (9, 0), multiprocessors: 132, threads_per_multiprocessor: 2048 };
    const A100: GpuIdentity = GpuIdentity { compute_capability: (8, 0), multiprocessors: 108, ..H200 };

    #[test]
    fn an_unrecorded_type_is_between_no_workspace_and_the_largest_form() {
        let problem = ConvolutionProblem { dtype: Dtype::Float64, ..square([64, 64], 56, 3, 1, 1) };
        let range = workspace(&problem, H200, None);
        assert!(range.lower == 0 && range.upper == problem.largest_form().unsigned_abs() && !range.is_certain());
        assert_eq!((range.expected, range.evidence), (0, Evidence::Guessed));
    }

    #[cfg(not(feature = "tables"))]
    #[test]
    fn without_tables_every_convolution_is_between_no_workspace_and_the_largest_form() {
        let problem = square([64, 64], 56, 3, 1, 1);
        for gpu in [H200, A100] {
            assert!(matches!(Answers::shipped(gpu), Ok(Answers::NotRecorded)));
            let range = workspace(&problem, gpu, None);
            assert_eq!((range.expected, range.lower, range.evidence), (0, 0, Evidence::Guessed));
            assert_eq!(range.upper, problem.largest_form().unsigned_abs());
        }
    }

    #[cfg(feature = "tables")]
    #[test]
    fn a_layer_in_no_table_of_its_gpu_gets_the_expected_size_in_a_range_for_any_plan() {
        let mut problem = square([64, 64], 56, 3, 1, 1);
        (problem.image[0], problem.result[0]) = (33, 33);
        let (own, other) = (workspace(&problem, H200, None), workspace(&problem, A100, None));
        assert!(own.evidence == Evidence::Recorded && own.is_certain() && own.expected > 0);
        assert_eq!((other.expected, other.lower, other.evidence), (own.expected, 0, Evidence::Guessed));
        assert_eq!(other.upper, own.upper.max(problem.largest_form().unsigned_abs()));
        assert_eq!(workspace(&problem, H200, None), own);
    }

    #[cfg(feature = "tables")]
    #[test]
    fn a_common_layer_has_what_cudnn_answers_for_the_compute_capability() {
        let mut problem = square([64, 64], 56, 3, 1, 1);
        (problem.image[0], problem.result[0]) = (32, 32);
        let on = |compute_capability| workspace(&problem, GpuIdentity { compute_capability, ..A100 }, None);
        let capabilities = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];
        let ranges = capabilities.map(on);
        assert!(ranges.iter().all(|range| range.evidence == Evidence::Tabulated), "{ranges:?}");
        assert_eq!(ranges.map(|range| range.is_certain()), capabilities.map(|capability| capability != (9, 0)));
        assert!(ranges.iter().any(|range| range.expected != ranges[0].expected), "{ranges:?}");
        assert_eq!(on((9, 0)).expected, workspace(&problem, H200, None).expected);
        assert_eq!(on((6, 1)).evidence, Evidence::Guessed);
    }

    #[cfg(feature = "tables")]
    #[test]
    fn compute_capability_9_0_leaves_room_for_the_parts_of_split_tiles() {
        let problem = square([64, 64], 56, 3, 1, 1);
        let smaller_hopper = GpuIdentity { multiprocessors: 114, ..H200 };
        let range = workspace(&problem, smaller_hopper, None);
        let parts = 2 * 114 * (256 << 10);
        assert_eq!(range.evidence, Evidence::Tabulated);
        assert_eq!((range.lower, range.upper), (range.expected.saturating_sub(parts), range.expected + parts));
    }

    /// Answers 3 bytes about every layer.
    #[derive(Debug)]
    struct AskedAboutEverything;

    impl LiveAnswers for AskedAboutEverything {
        fn plan(&self, _problem: &ConvolutionProblem) -> Option<LivePlan> {
            Some(LivePlan { workspace: 3, engine: None })
        }

        fn workspaces(&self, _problem: &ConvolutionProblem) -> Vec<u64> {
            unreachable!("nobody tries all plans here")
        }

        fn version(&self) -> Option<CudnnVersion> {
            None
        }

        fn report(&self) -> LiveReport {
            unreachable!("nobody reads it here")
        }
    }

    #[cfg(feature = "tables")]
    #[test]
    fn a_pointwise_layer_in_no_table_is_between_the_answer_and_a_product_of_matrices() {
        let at = |batch, pass| {
            let mut problem = ConvolutionProblem { pass, ..square([64, 256], 56, 1, 1, 0) };
            (problem.image[0], problem.result[0]) = (batch, batch);
            workspace(&problem, A100, Some(&AskedAboutEverything))
        };
        assert_eq!(at(32, ConvolutionPass::Forward).evidence, Evidence::Tabulated);
        let forward = at(33, ConvolutionPass::Forward);
        assert_eq!((forward.lower, forward.expected, forward.upper, forward.evidence), (0, 0, 3, Evidence::Asked));
        let product = 33 * 64 * 256 * 4;
        let gradient = at(33, ConvolutionPass::WeightGradient);
        assert_eq!((gradient.lower, gradient.expected, gradient.upper), (3, product, product));
        let mut small = ConvolutionProblem { pass: ConvolutionPass::WeightGradient, ..square([512, 512], 7, 1, 1, 0) };
        (small.image[0], small.result[0]) = (33, 33);
        let gradient = workspace(&small, A100, Some(&AskedAboutEverything));
        assert_eq!((gradient.lower, gradient.expected, gradient.upper), (3, 3, 33 * 512 * 512 * 4));
    }

    /// Answers 3 bytes about layers with 3×3 weights, and nothing about others.
    #[derive(Debug)]
    struct AskedAboutThreeByThree;

    impl LiveAnswers for AskedAboutThreeByThree {
        fn plan(&self, problem: &ConvolutionProblem) -> Option<LivePlan> {
            (problem.weight[2] == 3).then_some(LivePlan { workspace: 3, engine: None })
        }

        fn workspaces(&self, _problem: &ConvolutionProblem) -> Vec<u64> {
            unreachable!("nobody tries all plans here")
        }

        fn version(&self) -> Option<CudnnVersion> {
            None
        }

        fn report(&self) -> LiveReport {
            unreachable!("nobody reads it here")
        }
    }

    #[cfg(feature = "tables")]
    #[test]
    fn an_installed_cudnn_is_asked_where_the_shipped_answers_leave_a_range() {
        let (known, unknown) = (square([64, 64], 56, 3, 1, 1), square([64, 64], 56, 5, 2, 1));
        let live: Option<&dyn LiveAnswers> = Some(&AskedAboutThreeByThree);
        let asked = WorkspaceRange { evidence: Evidence::Asked, ..WorkspaceRange::recorded(3) };
        assert_eq!(workspace(&known, A100, live), asked);
        assert_eq!(workspace(&unknown, A100, live), workspace(&unknown, A100, None));
        assert_eq!(workspace(&known, H200, live), workspace(&known, H200, None));
    }
}
