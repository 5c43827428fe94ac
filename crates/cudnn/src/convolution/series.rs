//! Workspaces of layers for which cuDNN's heuristic was queried at every batch size.
//!
//! `validation/workspace_grid/pack_series.py` makes the table: the number of layers, the offsets of their records, and the records, sorted by
//! [key](super::layer_key). A record is a key, the number of batch sizes from 1 on, the lengths of the first two series, and one series for
//! each pass. A series is the logarithm of a stride, lines (bytes per batch, bytes at batch 0), and runs of batches that are a stride apart:
//! first those that start at batch 1, then at 2, and so on. A run is the number of its line and its length, or 0, a length, and for each
//! batch the difference from the first line.

use super::layer_key;
use super::lines;
use super::numbers::Numbers;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use crate::TableError;
use crate::table::word;

const OFFSET: usize = 4;
/// Strides are 1, 2, 4 or 8.
const HIGHEST_STRIDE_LOGARITHM: u64 = 3;

/// The recorded layers. The payload may be damaged: lookups then find nothing, or wrong bytes, but do not panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'t> {
    offsets: &'t [[u8; OFFSET]],
    records: &'t [u8],
}

impl<'t> Series<'t> {
    pub fn read(payload: &'t [u8]) -> Result<Series<'t>, TableError> {
        let count = word(payload, 0).ok_or(TableError::Malformed)? as usize;
        let length = count.checked_mul(OFFSET).ok_or(TableError::Malformed)?;
        let (offsets, records) = payload[OFFSET..].split_at_checked(length).ok_or(TableError::Malformed)?;
        Ok(Series { offsets: offsets.as_chunks().0, records })
    }

    fn record(&self, offset: [u8; OFFSET]) -> &'t [u8] {
        self.records.get(u32::from_le_bytes(offset) as usize..).unwrap_or_default()
    }

    /// Bytes of the workspace, if this layer was recorded at this batch size.
    pub fn workspace(&self, problem: &ConvolutionProblem) -> Option<u64> {
        let key = layer_key::of(problem)?;
        let start = |record: &'t [u8]| record.get(..key.len()).unwrap_or(record);
        let index = self.offsets.binary_search_by(|offset| start(self.record(*offset)).cmp(&key)).ok()?;
        let mut layer = Numbers(&self.record(self.offsets[index])[key.len()..]);
        let batches = layer.next()?;
        let lengths = [layer.next()?, layer.next()?];
        let batch = u64::try_from(problem.image[0]).ok().filter(|batch| (1..=batches).contains(batch))?;
        let skipped = match problem.pass {
            ConvolutionPass::Forward => 0,
            ConvolutionPass::InputGradient => lengths[0],
            ConvolutionPass::WeightGradient => lengths[0].checked_add(lengths[1])?,
        };
        bytes_at(Numbers(layer.0.get(usize::try_from(skipped).ok()?..)?), batches, batch)
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
    use crate::convolution::problem::tests::square;

    /// One pointwise layer from 1 to 2 channels, recorded at batches 1 to 3.
    const LAYER: [u8; 26] = [
        1, 0, 0, 0, 0, 0, 0, 0, // one record, at offset 0
        16, 1, 2, 1, 5, 5, 1, 1, 1, 1, 0, 0, 1, 1, // key
        3, 4, 4, // three batches; the first two series have four bytes each
        0, // the first series: a stride of 1
    ];

    fn payload() -> Vec<u8> {
        let mut bytes = LAYER.to_vec();
        // Forward: one line of 10 bytes a batch and 2 more, for all three. Input gradient: none. Weight gradient: 4, 5, 7 without a line.
        bytes.extend([1, 20, 4, 1, 3, 0, 1, 0, 0, 1, 3, 0, 0, 0, 3, 8, 10, 14]);
        bytes[23..25].copy_from_slice(&[6, 6]);
        bytes
    }

    fn all(series: Series<'_>) -> Vec<Option<u64>> {
        let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
        let at = |pass, batch| {
            let mut problem = ConvolutionProblem { pass, ..square([1, 2], 5, 1, 1, 0) };
            (problem.image[0], problem.result[0]) = (batch, batch);
            series.workspace(&problem)
        };
        passes.into_iter().flat_map(|pass| (0..5).map(move |batch| at(pass, batch))).collect()
    }

    #[test]
    fn a_layer_has_its_bytes_at_the_recorded_batches_and_none_at_others() {
        let payload = payload();
        let expected = [[12, 22, 32], [0, 0, 0], [4, 5, 7]];
        let expected = expected.map(|[one, two, three]| [None, Some(one), Some(two), Some(three), None]);
        assert_eq!(all(Series::read(&payload).unwrap()), expected.concat());
    }

    #[test]
    fn damaged_payloads_are_refused_or_answered_without_a_panic() {
        let payload = payload();
        for length in 0..payload.len() {
            match Series::read(&payload[..length]) {
                Ok(series) => drop(all(series)),
                Err(error) => assert!(error == TableError::Malformed && length < 8),
            }
        }
        for (index, byte) in (0..payload.len()).flat_map(|index| (0..=255).map(move |byte| (index, byte))) {
            let mut damaged = payload.clone();
            damaged[index] = byte;
            if let Ok(series) = Series::read(&damaged) {
                all(series);
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

    /// The counts that docs/cudnn-workspaces.md states.
    #[test]
    fn the_documented_number_of_layers_and_shapes_is_recorded() {
        let series = shipped();
        assert_eq!(series.offsets.len(), 34_186);
        assert_eq!(series.offsets.iter().map(|offset| after_key(series.record(*offset)).1).sum::<u64>(), 21_065_476);
    }

    /// A record's key, number of batches, and what follows.
    fn after_key(record: &'static [u8]) -> (&'static [u8], u64, Numbers<'static>) {
        let mut numbers = Numbers(record);
        let rank = numbers.next().unwrap() >> 3;
        for _ in 0..3 + 5 * rank {
            numbers.next().unwrap();
        }
        let key = &record[..record.len() - numbers.0.len()];
        (key, numbers.next().unwrap(), numbers)
    }

    #[test]
    fn keys_are_unique_and_every_layer_has_bytes_at_every_batch() {
        let series = shipped();
        let keys: Vec<&[u8]> = series.offsets.iter().map(|offset| after_key(series.record(*offset)).0).collect();
        assert!(keys.is_sorted_by(|one, next| one < next));
        for offset in series.offsets.iter().step_by(101) {
            let (_, batches, mut layer) = after_key(series.record(*offset));
            let (first, second) = (layer.next().unwrap(), layer.next().unwrap());
            for skipped in [0, first, first + second] {
                for batch in 1..=batches {
                    assert!(bytes_at(Numbers(&layer.0[skipped as usize..]), batches, batch).is_some());
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
