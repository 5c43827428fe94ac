//! The workspaces of layers that cuDNN's heuristic was asked about at every batch.
//!
//! Made by `validation/workspace_grid/pack_series.py`: how many layers there are, the hashes of what they are, in order, where each lies, then the layers. A
//! layer is how many batches it was asked at, from 1 on, the lengths of its first two series, and a series for each pass. A series is the
//! logarithm of a stride, lines (bytes more a batch, bytes at batch 0), and runs of batches that are a stride apart, all from the first on, then all from the
//! second on, and so on: each the number of its line and its length, or 0, a length, and for each batch the bytes it is beside the first line.

use std::sync::LazyLock;

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::problem::{Pass, Problem};
use vramfit_graph::format::Format;

static TABLE: &[u8] = include_bytes!("../../data/cudnn-series.bin");

const MAGIC: usize = 8;
const NAME: usize = 8;
const PLACE: usize = 4;
/// Of FNV-1a.
const FIRST: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Where things are in the table.
struct Parts {
    names: &'static [[u8; NAME]],
    places: &'static [[u8; PLACE]],
    layers: &'static [u8],
}

static PARTS: LazyLock<Parts> = LazyLock::new(|| {
    let (head, rest) = TABLE[MAGIC..].split_at(PLACE);
    let count = head.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte));
    let (names, rest) = rest.split_at(NAME * count);
    let (places, layers) = rest.split_at(PLACE * count);
    Parts { names: names.as_chunks().0, places: places.as_chunks().0, layers }
});

/// The hash of what a layer is but its batch; `None` for types nobody asked about. Of the padding it has what shows in the result's sides: with strides of 3 and
/// more two paddings may come to the same.
fn name(problem: &Problem) -> Option<u64> {
    let dtype = match problem.dtype {
        Dtype::Float32 => 0,
        Dtype::Bfloat16 => 1,
        Dtype::Float16 => 2,
        _ => return None,
    };
    let is_last = i64::from(problem.format == Format::ChannelsLast);
    let (image, result, weight) = (&problem.image, &problem.result, &problem.weight);
    let sizes =
        image[2..].iter().chain(&result[2..]).chain(&weight[2..]).chain(&problem.stride).chain(&problem.dilation);
    let numbers = [dtype, is_last, image[1], result[1], problem.groups];
    let mix = |hash: u64, number: &i64| (hash ^ number.cast_unsigned()).wrapping_mul(PRIME);
    Some(numbers.iter().chain(sizes).fold(FIRST, mix))
}

/// Numbers one after another: seven bits a byte, the lowest first, the highest bit of each says that more follow.
struct Numbers(&'static [u8]);

impl Numbers {
    fn next(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    /// The lowest bit is the sign.
    fn next_signed(&mut self) -> Option<i64> {
        let number = self.next()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

/// Bytes of the workspace, where the layer was asked about at this batch.
pub(super) fn workspace(problem: &Problem) -> Option<u64> {
    let name = name(problem)?;
    let place = PARTS.names.binary_search_by_key(&name, |name| u64::from_le_bytes(*name)).ok()?;
    let mut layer = Numbers(PARTS.layers.get(u32::from_le_bytes(PARTS.places[place]) as usize..)?);
    let batches = layer.next()?;
    let lengths = [layer.next()?, layer.next()?];
    let batch = u64::try_from(problem.image[0]).ok().filter(|batch| (1..=batches).contains(batch))?;
    let skipped = match problem.pass {
        Pass::Forward => 0,
        Pass::InputGradient => lengths[0],
        Pass::WeightGradient => lengths[0] + lengths[1],
    };
    said(Numbers(layer.0.get(skipped as usize..)?), batches, batch)
}

/// What a series says of a batch.
fn said(mut series: Numbers, batches: u64, batch: u64) -> Option<u64> {
    let stride = 1 << series.next()?;
    let mut lines: SmallVec<[(i64, i64); 8]> = SmallVec::new();
    for _ in 0..series.next()? {
        lines.push((series.next_signed()?, series.next_signed()?));
    }
    let at = |line: Option<&(i64, i64)>| line.map_or(0, |(slope, start)| slope * batch.cast_signed() + start);
    // How many batches come before it: all that begin earlier within a stride, then those of its own.
    let (within, strides) = ((batch - 1) % stride, (batch - 1) / stride);
    let mut before = (0..within).map(|first| (batches - first).div_ceil(stride)).sum::<u64>() + strides;
    loop {
        let (line, length) = (series.next()?, series.next()?);
        if before >= length {
            before -= length;
            for _ in 0..if line == 0 { length } else { 0 } {
                series.next()?;
            }
            continue;
        }
        if line > 0 {
            return at(Some(lines.get(line as usize - 1)?)).try_into().ok();
        }
        for _ in 0..before {
            series.next()?;
        }
        return (at(lines.first()) + series.next_signed()?).try_into().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_graph::dims::Dims;

    fn problem(pass: Pass, batch: i64) -> Problem {
        Problem {
            pass,
            dtype: Dtype::Float32,
            format: Format::Contiguous,
            image: Dims::from([batch, 64, 27, 27]),
            result: Dims::from([batch, 192, 27, 27]),
            weight: Dims::from([192, 64, 5, 5]),
            stride: Dims::from([1, 1]),
            dilation: Dims::from([1, 1]),
            groups: 1,
        }
    }

    #[test]
    fn a_layer_of_a_model_has_what_cudnn_answered_at_each_batch() {
        for (pass, batch, bytes) in ANSWERED {
            assert_eq!(workspace(&problem(pass, batch)), Some(bytes), "{pass:?} {batch}");
        }
    }

    #[test]
    fn a_batch_beyond_those_asked_about_and_a_layer_of_no_model_are_not_known() {
        assert_eq!(workspace(&problem(Pass::Forward, 1_000_000)), None);
        assert_eq!(workspace(&problem(Pass::Forward, 0)), None);
        let odd = Problem { result: Dims::from([8, 193, 27, 27]), ..problem(Pass::Forward, 8) };
        assert_eq!(workspace(&odd), None);
    }

    /// Layers and shapes as the documentation counts them.
    #[test]
    fn there_are_as_many_layers_and_shapes_as_is_said() {
        let batches =
            |place: &[u8; PLACE]| Numbers(&PARTS.layers[u32::from_le_bytes(*place) as usize..]).next().unwrap();
        assert_eq!(PARTS.names.len(), 34_186);
        assert_eq!(PARTS.places.iter().map(batches).sum::<u64>(), 21_065_476);
    }

    #[test]
    fn every_layer_has_a_workspace_at_every_batch_it_was_asked_at() {
        assert!(PARTS.names.is_sorted_by_key(|name| u64::from_le_bytes(*name)));
        for place in PARTS.places.iter().step_by(101) {
            let mut layer = Numbers(&PARTS.layers[u32::from_le_bytes(*place) as usize..]);
            let (batches, first, second) = (layer.next().unwrap(), layer.next().unwrap(), layer.next().unwrap());
            for skipped in [0, first, first + second] {
                for batch in 1..=batches {
                    assert!(said(Numbers(&layer.0[skipped as usize..]), batches, batch).is_some());
                }
            }
        }
    }

    /// Of AlexNet's second layer; found by `dense.py`.
    const ANSWERED: [(Pass, i64, u64); 6] = [
        (Pass::Forward, 1, 1_415_440),
        (Pass::Forward, 233, 182_503_027),
        (Pass::InputGradient, 1, 0),
        (Pass::InputGradient, 254, 194_116_243),
        (Pass::WeightGradient, 7, 6_454_416),
        (Pass::WeightGradient, 512, 391_955_231),
    ];
}
