//! Why a number is not certain to the byte.

use vramfit_catalogue::TorchRelease;
use vramfit_eager::autograd::Guessed;
use vramfit_eager::forward::Missing;

/// Something that is not known, and that the answer depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Operators without a memory rule, with how many steps of one pass call each.
    UnmodelledOperators(Vec<Counted>),
    /// cuDNN workspaces that were guessed from similar recordings, with how often each kind occurs.
    GuessedWorkspaces(Vec<Counted>),
    /// `torch.backends.cudnn.benchmark` picks the fastest of several plans, whose workspaces differ.
    CudnnBenchmark(Vec<Counted>),
    /// The model's file does not record when Python frees some of its tensors.
    PythonLifetimes,
    /// Which of two equal cached blocks is reused depends on addresses that the CUDA driver chooses.
    AddressOrder,
    /// Steps after the reported ones need more: free blocks of one size are used in another order there.
    LaterSteps {
        /// The first of them, counted from 0.
        step: u32,
    },
    /// What the model's file does not record, in the words of its reader.
    ModelFile(String),
    /// What the training does that is not simulated to the byte, in words.
    Training(String),
    /// The training runs with another PyTorch than the one that was measured.
    TorchNotMeasured {
        /// Its version, such as 2.8.
        version: String,
        /// The cuDNN of its wheels, if that is known.
        cudnn: Option<&'static str>,
    },
    /// A rank of several was measured with a process group that only copies.
    RanksNotMeasured,
    /// The CUDA context and cuBLAS's workspaces were not measured on this GPU.
    GpuNotMeasured,
    /// cuDNN's workspaces were recorded on another GPU than this one.
    CudnnNotMeasured,
    /// An installed cuDNN gave workspaces for a GPU that it did not see. The training may run with another version.
    CudnnAsked,
    /// A shipped table has cuDNN's workspaces for this GPU's compute capability. The training may run with another version.
    CudnnTabulated {
        /// The version that was asked, such as 9.19.0.
        version: String,
    },
}

/// A name with how often it occurs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// An operator, or a kind of workspace.
    pub name: String,
    /// How often.
    pub count: usize,
}

impl Cause {
    /// Whether the peaks of the reported steps may be certain all the same.
    pub(super) fn leaves_exact(&self) -> bool {
        matches!(self, Cause::LaterSteps { .. })
    }

    /// That these operators have no rule; `None` where all have one.
    pub(super) fn unmodelled(missing: &Missing) -> Option<Cause> {
        let operators = missing.iter().map(|(name, calls)| Counted { name: name.clone(), count: calls.len() });
        (!missing.is_empty()).then(|| Cause::UnmodelledOperators(operators.collect()))
    }

    /// That this PyTorch was not measured; `None` where it was, or where the version is not known.
    pub(super) fn torch(version: Option<&str>) -> Option<Cause> {
        let version = version?;
        let release = version.parse::<TorchRelease>().ok();
        (release != Some(TorchRelease::MEASURED)).then(|| Cause::TorchNotMeasured {
            version: release.map_or_else(|| version.to_owned(), |release| release.to_string()),
            cudnn: release.and_then(TorchRelease::cudnn),
        })
    }

    /// That these workspaces are not certain; `None` where all are.
    pub(super) fn workspaces(guessed: &Guessed, is_cudnn_benchmarked: bool) -> Option<Cause> {
        let workspaces = guessed.iter().map(|(name, &count)| Counted { name: name.clone(), count: count as usize });
        let cause = if is_cudnn_benchmarked { Cause::CudnnBenchmark } else { Cause::GuessedWorkspaces };
        (!guessed.is_empty()).then(|| cause(workspaces.collect()))
    }
}

/// At least one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Causes {
    first: Cause,
    others: Vec<Cause>,
}

impl Causes {
    /// `None` where there is no cause.
    pub fn of(causes: impl IntoIterator<Item = Cause>) -> Option<Causes> {
        let mut causes = causes.into_iter();
        Some(Causes { first: causes.next()?, others: causes.collect() })
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
