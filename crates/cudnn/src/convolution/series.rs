//! Workspaces of layers for which cuDNN's heuristic was queried at every batch size.
//!
//! `validation/workspace_grid/pack_series.py` makes the table: [blocks](super::blocks) of layers. After its key a record has the number of
//! batch sizes from 1 on, the lengths of three series, and one series for each pass. A series is the logarithm of a stride, lines (bytes per
//! batch, bytes at batch 0), and runs of batches that are a stride apart: first those that start at batch 1, then at 2, and so on. A run is
//! the number of its line and its length, or 0, a length, and for each batch the difference from the first line.

use super::blocks::Blocks;
use super::layer_key;
use super::lines;
use super::numbers::Numbers;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use crate::TableError;

const PASSES: usize = 3;
/// Strides are 1, 2, 4 or 8.
const HIGHEST_STRIDE_LOGARITHM: u64 = 3;

/// The recorded layers. The payload may be damaged: lookups then find nothing, or wrong bytes, but do not panic.
#[derive(Debug)]
pub(super) struct Series<'t>(Blocks<'t>);

/// What a record has after its key.
struct Layer<'t> {
    batches: u64,
    /// By pass.
    series: [&'t [u8]; PASSES],
}

impl<'t> Layer<'t> {
    fn read(mut record: Numbers<'t>) -> Option<Layer<'t>> {
        let batches = record.next()?;
        let mut lengths = [0; PASSES];
        for length in &mut lengths {
            *length = record.next_length()?;
        }
        let mut series: [&[u8]; PASSES] = Default::default();
        for (one, length) in series.iter_mut().zip(lengths) {
            *one = record.bytes(length)?;
        }
        Some(Layer { batches, series })
    }
}

impl<'t> Series<'t> {
    pub fn read(payload: &'t [u8]) -> Result<Series<'t>, TableError> {
        Blocks::read(&mut Numbers(payload)).map(Series).ok_or(TableError::Malformed)
    }

    /// Bytes of the workspace, if this layer was recorded at this batch size.
    pub fn workspace(&self, problem: &ConvolutionProblem) -> Option<u64> {
        let layer = Layer::read(self.0.find(&layer_key::of(problem)?)?)?;
        let batch = u64::try_from(problem.image[0]).ok().filter(|batch| (1..=layer.batches).contains(batch))?;
        let series = layer.series[match problem.pass {
            ConvolutionPass::Forward => 0,
            ConvolutionPass::InputGradient => 1,
            ConvolutionPass::WeightGradient => 2,
        }];
        bytes_at(Numbers(series), layer.batches, batch)
    }
}

/// The bytes of a series at a batch size.
fn bytes_at(mut series: Numbers<'_>, batches: u64, batch: u64) -> Option<u64> {
    let stride = 1 << series.next().filter(|&logarithm| logarithm <= HIGHEST_STRIDE_LOGARITHM)?;
    // Batches stored before this one: all whose first batch within a stride is smaller, then those with the same first batch.
    let (within, strides) = ((batch - 1) % stride, (batch - 1) / stride);
    let before = (0..within).map(|first| (batches - first).div_ceil(stride)).sum::<u64>() + strides;
    lines::bytes_at(series, before, batch.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::blocks::tests::block;
    use crate::convolution::problem::tests::square;

    /// Two pointwise layers from 1 channel to 2 and to 3, recorded at batches 1 to 3.
    fn payload() -> Vec<u8> {
        // Forward: one line of 10 bytes a batch and 2 more, for all three. Input gradient: none. Weight gradient: 4, 5, 7 without a line.
        let series: [&[u8]; PASSES] = [&[0, 1, 20, 4, 1, 3], &[0, 1, 0, 0, 1, 3], &[0, 0, 0, 3, 8, 10, 14]];
        let rest = [&[3], &series.map(|one| one.len() as u8)[..], &series.concat()].concat();
        let keys = [2, 3].map(|outputs| [16, 1, outputs, 1, 5, 5, 1, 1, 1, 1, 0, 0, 1, 1]);
        block(&keys.each_ref().map(|key| (&key[..], &rest[..])))
    }

    /// The layer with so many output channels: each pass at batches 0 to 4.
    fn all(series: &Series<'_>, outputs: i64) -> Vec<Option<u64>> {
        let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
        let at = |pass, batch| {
            let mut problem = ConvolutionProblem { pass, ..square([1, outputs], 5, 1, 1, 0) };
            (problem.image[0], problem.result[0]) = (batch, batch);
            series.workspace(&problem)
        };
        passes.into_iter().flat_map(|pass| (0..5).map(move |batch| at(pass, batch))).collect()
    }

    #[test]
    fn a_layer_has_its_bytes_at_the_recorded_batches_and_none_at_others() {
        let payload = payload();
        let series = Series::read(&payload).unwrap();
        let expected = [[12, 22, 32], [0, 0, 0], [4, 5, 7]];
        let expected = expected.map(|[one, two, three]| [None, Some(one), Some(two), Some(three), None]).concat();
        for outputs in [2, 3] {
            assert_eq!(all(&series, outputs), expected, "{outputs}");
        }
        for outputs in [1, 4] {
            assert_eq!(all(&series, outputs), [None; 15], "{outputs}");
        }
    }

    #[test]
    fn damaged_payloads_are_refused_or_answered_without_a_panic() {
        let payload = payload();
        let ask = |series: Series<'_>| [1, 2, 3, 4].map(|outputs| all(&series, outputs));
        for length in 0..payload.len() {
            assert_eq!(Series::read(&payload[..length]).err(), Some(TableError::Malformed), "{length}");
        }
        for (index, byte) in (0..payload.len()).flat_map(|index| (0..=255).map(move |byte| (index, byte))) {
            let mut damaged = payload.clone();
            damaged[index] = byte;
            if let Ok(series) = Series::read(&damaged) {
                ask(series);
            }
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        assert_eq!(Numbers(&[255; 9]).next(), None);
        assert_eq!(Numbers(&[255; 12]).next(), None);
        assert_eq!(Numbers(&[200, 1]).next(), Some(200));
        assert_eq!(Numbers(&[7]).next_signed(), Some(-4));
    }
}

#[cfg(test)]
#[cfg(feature = "tables")]
mod shipped_tests {
    use vramfit_graph::dims::Dims;

    use super::*;
    use crate::convolution::problem::tests::square;
    use crate::convolution::shipped;
    use crate::table::{Table, TableKind};

    fn shipped() -> Series<'static> {
        Series::read(Table::read(shipped::SERIES, TableKind::Series).unwrap().payload).unwrap()
    }

    fn problem(pass: ConvolutionPass, batch: i64) -> ConvolutionProblem {
        let mut problem = ConvolutionProblem { pass, ..square([64, 192], 27, 5, 1, 2) };
        (problem.image[0], problem.result[0]) = (batch, batch);
        problem
    }

    #[test]
    fn a_layer_of_a_model_has_what_cudnn_answered_at_each_batch() {
        for (pass, batch, bytes) in ANSWERED {
            assert_eq!(shipped().workspace(&problem(pass, batch)), Some(bytes), "{pass:?} {batch}");
        }
    }

    #[test]
    fn unrecorded_batches_and_layers_have_no_answer() {
        let series = shipped();
        assert_eq!(series.workspace(&problem(ConvolutionPass::Forward, 1_000_000)), None);
        assert_eq!(series.workspace(&problem(ConvolutionPass::Forward, 0)), None);
        let known = problem(ConvolutionPass::Forward, 8);
        let other = ConvolutionProblem { result: Dims::from([8, 193, 27, 27]), ..known };
        assert_eq!(series.workspace(&other), None);
    }

    /// From a stride of 3 on, paddings may give results of the same size. The old table did not distinguish them.
    #[test]
    fn alexnets_first_layer_is_recorded_with_its_own_padding_only() {
        let recorded = square([3, 64], 224, 11, 4, 2);
        let padded = square([3, 64], 224, 11, 4, 3);
        assert_eq!(recorded.result, padded.result);
        assert!(shipped().workspace(&recorded).is_some());
        assert_eq!(shipped().workspace(&padded), None);
    }

    /// Every layer with its key.
    fn layers<'s>(series: &'s Series<'static>) -> Vec<(&'s [u8], Layer<'s>)> {
        let layer = |record: &'s [u8]| {
            let mut rest = Numbers(record);
            let rank = rest.next().unwrap() >> 3;
            (0..3 + 5 * rank).for_each(|_| assert!(rest.next().is_some()));
            (&record[..record.len() - rest.0.len()], Layer::read(rest).unwrap())
        };
        series.0.records().map(layer).collect()
    }

    /// The counts that docs/cudnn-workspaces.md states.
    #[test]
    fn the_documented_number_of_layers_and_shapes_is_recorded() {
        let series = shipped();
        let layers = layers(&series);
        assert_eq!(layers.len(), 34_186);
        assert_eq!(layers.iter().map(|(_, layer)| layer.batches).sum::<u64>(), 21_065_476);
    }

    #[test]
    fn keys_are_unique_and_every_layer_has_bytes_at_every_batch() {
        let series = shipped();
        let layers = layers(&series);
        assert!(layers.is_sorted_by(|one, next| one.0 < next.0));
        assert!(layers.iter().all(|(key, _)| series.0.find(key).is_some()));
        for (_, layer) in layers.iter().step_by(101) {
            for one in layer.series {
                for batch in 1..=layer.batches {
                    assert!(bytes_at(Numbers(one), layer.batches, batch).is_some());
                }
            }
        }
    }

    /// AlexNet's second layer, as `dense.py` recorded it.
    const ANSWERED: [(ConvolutionPass, i64, u64); 6] = [
        (ConvolutionPass::Forward, 1, 1_415_440),
        (ConvolutionPass::Forward, 233, 182_503_027),
        (ConvolutionPass::InputGradient, 1, 0),
        (ConvolutionPass::InputGradient, 254, 194_116_243),
        (ConvolutionPass::WeightGradient, 7, 6_454_416),
        (ConvolutionPass::WeightGradient, 512, 391_955_231),
    ];
}
