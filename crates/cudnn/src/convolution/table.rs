//! The answers of one version of cuDNN for one GPU.

use smallvec::SmallVec;

use super::problem::{ConvolutionPass, ConvolutionProblem};
use super::range::{Evidence, WorkspaceRange};
use super::series::Series;
use super::trees::{Forms, Trees};
use crate::table::{Table, TableKind};
use crate::{TableError, TableSource};

/// Bytes beside copies of tensors, for partial results, in the upper bound of a layer with three dimensions.
const BESIDE_COPIES: u64 = 8 << 20;

/// What cuDNN answered for one GPU: layers recorded at every batch size, and decision trees that predict the answer for all others.
///
/// `docs/cudnn-workspaces.md` says how often the trees are right.
#[derive(Debug)]
pub struct ConvolutionTable<'t> {
    source: TableSource<'t>,
    series: Series<'t>,
    trees: Trees<'t>,
    /// For layers with three dimensions.
    volumes: Option<Trees<'t>>,
}

impl<'t> ConvolutionTable<'t> {
    /// Reads a table of series and a table of trees. This checks headers and lengths, not the payloads' checksums; damage there gives wrong
    /// answers or none.
    ///
    /// # Errors
    ///
    /// If one is not a table of its kind that this build can read, or if they do not belong together.
    pub fn read(series: &'t [u8], trees: &'t [u8]) -> Result<ConvolutionTable<'t>, TableError> {
        let series = Table::read(series, TableKind::Series)?;
        let trees = Table::read(trees, TableKind::Trees)?;
        if series.source != trees.source {
            return Err(TableError::DifferentSources);
        }
        let source = series.source;
        let trees = Trees::read(trees.payload, source.gpu.multiprocessors)?;
        Ok(ConvolutionTable { source, series: Series::read(series.payload)?, trees, volumes: None })
    }

    /// The table with trees for layers with three dimensions, of the same GPU and cuDNN.
    ///
    /// # Errors
    ///
    /// As for [`ConvolutionTable::read`].
    pub fn with_volumes(self, volumes: &'t [u8]) -> Result<ConvolutionTable<'t>, TableError> {
        let volumes = Table::read(volumes, TableKind::Trees)?;
        if volumes.source != self.source {
            return Err(TableError::DifferentSources);
        }
        let trees = Trees::read(volumes.payload, self.source.gpu.multiprocessors)?;
        Ok(ConvolutionTable { volumes: Some(trees), ..self })
    }

    /// Which GPU and cuDNN answered.
    pub fn source(&self) -> TableSource<'t> {
        self.source
    }

    /// The workspace of a convolution on the table's GPU.
    pub fn workspace(&self, problem: &ConvolutionProblem) -> WorkspaceRange {
        if let Some(bytes) = self.series.workspace(problem) {
            return WorkspaceRange::recorded(bytes);
        }
        let is_volume = problem.stride.len() == 3;
        match (self.trees.knows_kernel(problem), self.volumes.as_ref().filter(|_| is_volume)) {
            (Some(_), Some(volumes)) => of_volume(problem, &volumes.forms(problem)),
            (Some(is_known), None) => predicted(problem, &self.trees.forms(problem), is_known),
            (None, _) => WorkspaceRange::not_recorded(problem),
        }
    }
}

/// The size that most trees predict, given their predictions in order; the middle one if no two agree.
fn likeliest(predictions: &[u64]) -> Option<u64> {
    let votes = |bytes: u64| predictions.iter().filter(|other| **other == bytes).count();
    let most = predictions.iter().copied().max_by_key(|&bytes| votes(bytes)).filter(|&bytes| votes(bytes) > 1);
    most.or_else(|| predictions.get(predictions.len() / 2).copied())
}

/// A range for a layer with three dimensions, which is never certain: of 19,888 layers that the trees were not grown from, 89 % forward and
/// for the input's gradient have the expected size, and 50 % for the weight's. 49, 47 and 62 of them need more than the upper bound
/// (`docs/cudnn-workspaces.md`).
fn of_volume(problem: &ConvolutionProblem, forms: &Forms) -> WorkspaceRange {
    let range = predicted(problem, forms, false);
    let copies = match problem.pass {
        ConvolutionPass::Forward | ConvolutionPass::InputGradient => range.upper,
        // Partial sums of the weight's gradient.
        ConvolutionPass::WeightGradient => 2 * range.upper,
    };
    WorkspaceRange { upper: copies + BESIDE_COPIES, ..range }
}

/// The range of the trees' predictions, widened to all possible sizes for a kernel of which none was recorded.
fn predicted(problem: &ConvolutionProblem, forms: &Forms, is_known: bool) -> WorkspaceRange {
    let everything = problem.all_copies().unsigned_abs();
    let mut predictions: SmallVec<[u64; 6]> = forms.iter().map(|form| form.bytes(problem)).collect();
    predictions.sort_unstable();
    let expected = likeliest(&predictions).unwrap_or(everything);
    let lower = predictions.first().copied().unwrap_or(0);
    let upper = predictions.last().copied().unwrap_or(everything);
    match is_known {
        true => WorkspaceRange { expected, lower, upper, evidence: Evidence::Guessed },
        false => WorkspaceRange::up_to(expected, upper.max(everything)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_votes_win_and_else_the_middle() {
        assert_eq!(likeliest(&[1, 2, 2, 9]), Some(2));
        assert_eq!(likeliest(&[1, 2, 3, 9]), Some(3));
        assert_eq!(likeliest(&[1, 1, 9, 9]), Some(9));
        assert_eq!(likeliest(&[]), None);
    }
}
