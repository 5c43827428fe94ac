//! Workspaces of layers for which cuDNN's heuristic was queried at every batch size.
//!
//! `validation/workspace_grid/pack_series.py` makes the table: numbers of layers and pairs, the [pairs](super::pairs), the offsets of blocks,
//! and the blocks. A block has the records of 16 layers, sorted by [key](super::layer_key). A record is how many bytes of its key are those
//! of the key before, how many others there are, and these; the number of batch sizes from 1 on; the lengths of three series, and one
//! series for each pass, as symbols. A series is the logarithm of a stride, lines (bytes per batch, bytes at batch 0), and runs of batches
//! that are a stride apart: first those that start at batch 1, then at 2, and so on. A run is the number of its line and its length, or 0,
//! a length, and for each batch the difference from the first line.

use super::layer_key::{self, LayerKey};
use super::lines;
use super::numbers::Numbers;
use super::pairs::Pairs;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use crate::TableError;
use crate::table::word;

/// Bytes of the two counts, of a pair and of an offset.
const COUNTS: usize = 8;
const PAIR: usize = 4;
const OFFSET: usize = 4;
const LAYERS_PER_BLOCK: usize = 16;
const PASSES: usize = 3;
/// Strides are 1, 2, 4 or 8.
const HIGHEST_STRIDE_LOGARITHM: u64 = 3;

/// The recorded layers. The payload may be damaged: lookups then find nothing, or wrong bytes, but do not panic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'t> {
    pairs: Pairs<'t>,
    layers: usize,
    offsets: &'t [[u8; OFFSET]],
    blocks: &'t [u8],
}

/// What a record has after its key.
struct Layer<'t> {
    batches: u64,
    /// The symbols of each pass.
    series: [&'t [u8]; PASSES],
}

/// The records of a block, one after another.
struct Records<'t> {
    key: LayerKey,
    rest: Numbers<'t>,
}

impl<'t> Records<'t> {
    /// Reads the next record; its key is then in `self`.
    fn next(&mut self) -> Option<Layer<'t>> {
        let shared = self.rest.next_length()?;
        self.key.truncate(shared);
        let others = self.rest.next_length()?;
        self.key.extend_from_slice(self.rest.bytes(others)?);
        let batches = self.rest.next()?;
        let mut lengths = [0; PASSES];
        for length in &mut lengths {
            *length = self.rest.next_length()?;
        }
        let mut series: [&[u8]; PASSES] = Default::default();
        for (symbols, length) in series.iter_mut().zip(lengths) {
            *symbols = self.rest.bytes(length)?;
        }
        Some(Layer { batches, series })
    }
}

impl<'t> Series<'t> {
    pub fn read(payload: &'t [u8]) -> Result<Series<'t>, TableError> {
        Series::parse(payload).ok_or(TableError::Malformed)
    }

    fn parse(payload: &'t [u8]) -> Option<Series<'t>> {
        let (layers, pairs) = (word(payload, 0)? as usize, word(payload, 4)? as usize);
        let (pairs, rest) = payload.get(COUNTS..)?.split_at_checked(pairs.checked_mul(PAIR)?)?;
        let offsets = layers.div_ceil(LAYERS_PER_BLOCK).checked_mul(OFFSET)?;
        let (offsets, blocks) = rest.split_at_checked(offsets)?;
        Some(Series { pairs: Pairs(pairs.as_chunks().0), layers, offsets: offsets.as_chunks().0, blocks })
    }

    fn block(&self, offset: [u8; OFFSET]) -> Records<'t> {
        let rest = self.blocks.get(u32::from_le_bytes(offset) as usize..).unwrap_or_default();
        Records { key: LayerKey::new(), rest: Numbers(rest) }
    }

    /// The key of a block's first record, which shares nothing with another.
    fn first_key(&self, offset: [u8; OFFSET]) -> &'t [u8] {
        let mut record = self.block(offset).rest;
        let key = |record: &mut Numbers<'t>| {
            record.next()?;
            let length = record.next_length()?;
            record.bytes(length)
        };
        key(&mut record).unwrap_or_default()
    }

    fn layer(&self, key: &LayerKey) -> Option<Layer<'t>> {
        let block = self.offsets.partition_point(|offset| self.first_key(*offset) <= &key[..]).checked_sub(1)?;
        let mut records = self.block(self.offsets[block]);
        for _ in 0..LAYERS_PER_BLOCK.min(self.layers - block * LAYERS_PER_BLOCK) {
            let layer = records.next()?;
            if records.key == *key {
                return Some(layer);
            }
        }
        None
    }

    /// Bytes of the workspace, if this layer was recorded at this batch size.
    pub fn workspace(&self, problem: &ConvolutionProblem) -> Option<u64> {
        let layer = self.layer(&layer_key::of(problem)?)?;
        let batch = u64::try_from(problem.image[0]).ok().filter(|batch| (1..=layer.batches).contains(batch))?;
        let symbols = layer.series[match problem.pass {
            ConvolutionPass::Forward => 0,
            ConvolutionPass::InputGradient => 1,
            ConvolutionPass::WeightGradient => 2,
        }];
        bytes_at(Numbers(&self.pairs.bytes(symbols)?), layer.batches, batch)
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

    /// Two pointwise layers from 1 channel to 2 and to 3, recorded at batches 1 to 3.
    fn payload() -> Vec<u8> {
        let (layers, pairs, offset) = (2_u32, [[0_u16, 1], [1, 3]], 0_u32);
        let mut bytes: Vec<u8> = [layers, pairs.len() as u32].into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend(pairs.into_iter().flatten().flat_map(u16::to_le_bytes));
        bytes.extend(offset.to_le_bytes());
        // Forward: one line of 10 bytes a batch and 2 more, for all three. Input gradient: none. Weight gradient: 4, 5, 7 without a line.
        let series: [&[u16]; PASSES] = [&[256, 20, 4, 257], &[256, 0, 0, 257], &[0, 0, 0, 3, 8, 10, 14]];
        let keys: [(u8, &[u8]); 2] =
            [(0, &[16, 1, 2, 1, 5, 5, 1, 1, 1, 1, 0, 0, 1, 1]), (2, &[3, 1, 5, 5, 1, 1, 1, 1, 0, 0, 1, 1])];
        for (shared, others) in keys {
            bytes.extend([shared, others.len() as u8]);
            bytes.extend(others);
            bytes.push(3);
            bytes.extend(series.map(|symbols| 2 * symbols.len() as u8));
            bytes.extend(series.concat().into_iter().flat_map(u16::to_le_bytes));
        }
        bytes
    }

    /// The layer with so many output channels: each pass at batches 0 to 4.
    fn all(series: Series<'_>, outputs: i64) -> Vec<Option<u64>> {
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
            assert_eq!(all(series, outputs), expected, "{outputs}");
        }
        for outputs in [1, 4] {
            assert_eq!(all(series, outputs), [None; 15], "{outputs}");
        }
    }

    #[test]
    fn damaged_payloads_are_refused_or_answered_without_a_panic() {
        let payload = payload();
        let ask = |series: Series<'_>| [1, 2, 3, 4].map(|outputs| all(series, outputs));
        for length in 0..payload.len() {
            match Series::read(&payload[..length]) {
                Ok(series) => drop(ask(series)),
                Err(error) => assert!(error == TableError::Malformed && length < 20),
            }
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
    fn layers(series: Series<'static>) -> impl Iterator<Item = (LayerKey, Layer<'static>)> {
        let blocks = series.offsets.iter().enumerate();
        blocks.flat_map(move |(block, offset)| {
            let mut records = series.block(*offset);
            let count = LAYERS_PER_BLOCK.min(series.layers - block * LAYERS_PER_BLOCK);
            (0..count).map(move |_| {
                let layer = records.next().unwrap();
                (records.key.clone(), layer)
            })
        })
    }

    /// The counts that docs/cudnn-workspaces.md states.
    #[test]
    fn the_documented_number_of_layers_and_shapes_is_recorded() {
        assert_eq!(layers(shipped()).count(), 34_186);
        assert_eq!(layers(shipped()).map(|(_, layer)| layer.batches).sum::<u64>(), 21_065_476);
    }

    #[test]
    fn keys_are_unique_and_every_layer_has_bytes_at_every_batch() {
        let series = shipped();
        let keys: Vec<LayerKey> = layers(series).map(|(key, _)| key).collect();
        assert!(keys.is_sorted_by(|one, next| one < next));
        assert!(keys.iter().all(|key| series.layer(key).is_some()));
        for (_, layer) in layers(series).step_by(101) {
            for symbols in layer.series {
                let bytes = series.pairs.bytes(symbols).unwrap();
                for batch in 1..=layer.batches {
                    assert!(bytes_at(Numbers(&bytes), layer.batches, batch).is_some());
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
