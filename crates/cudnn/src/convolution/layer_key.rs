//! The key under which a layer is recorded: its full description without the batch size, so equal keys mean equal layers.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::problem::ConvolutionProblem;

/// The layer's numbers, each in seven bits a byte, lowest bits first; the highest bit of a byte says that more follow. No key is the
/// beginning of another.
pub(super) type LayerKey = SmallVec<[u8; 48]>;

fn push(key: &mut LayerKey, number: i64) -> Option<()> {
    let mut rest = u64::try_from(number).ok()?;
    while rest > 127 {
        key.push(rest as u8 | 128);
        rest >>= 7;
    }
    key.push(rest as u8);
    Some(())
}

/// `None` for types that were not recorded and for sizes that contradict one another: the result's sides are not in the key, because they follow from the rest.
pub(super) fn of(problem: &ConvolutionProblem) -> Option<LayerKey> {
    let dtype = match problem.dtype {
        Dtype::Float32 => 0,
        Dtype::Bfloat16 => 1,
        Dtype::Float16 => 2,
        _ => return None,
    };
    if !problem.is_consistent() {
        return None;
    }
    let is_last = i64::from(problem.format == Format::ChannelsLast);
    let rank = problem.stride.len() as i64;
    let mut key = LayerKey::new();
    for number in [dtype | is_last << 2 | rank << 3, problem.image[1], problem.result[1], problem.groups] {
        push(&mut key, number)?;
    }
    let sizes = problem.image[2..].iter().chain(&problem.weight[2..]).chain(&problem.stride);
    for &number in sizes.chain(&problem.padding).chain(&problem.dilation) {
        push(&mut key, number)?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use vramfit_graph::dims::Dims;

    use super::*;
    use crate::convolution::problem::tests::square;

    #[test]
    fn a_key_lists_every_number_of_a_layer_but_its_batch() {
        let layer = square([3, 64], 224, 11, 4, 2);
        let key = of(&layer).unwrap();
        assert_eq!(key[..], [16, 3, 64, 1, 96 | 128, 1, 96 | 128, 1, 11, 11, 4, 4, 2, 2, 1, 1]);
        let (mut image, mut result) = (layer.image.clone(), layer.result.clone());
        (image[0], result[0]) = (999, 999);
        assert_eq!(of(&ConvolutionProblem { image, result, ..layer }), Some(key));
    }

    #[test]
    fn layers_that_differ_only_in_padding_have_different_keys() {
        let layer = square([3, 64], 224, 11, 4, 2);
        let padded = square([3, 64], 224, 11, 4, 3);
        assert_eq!(layer.result, padded.result);
        assert_ne!(of(&layer), of(&padded));
    }

    #[test]
    fn sizes_that_contradict_one_another_and_unrecorded_types_have_no_key() {
        let layer = square([3, 64], 224, 11, 4, 2);
        let result = Dims::from([16, 64, 55, 56]);
        assert_eq!(of(&ConvolutionProblem { result, ..layer.clone() }), None);
        assert_eq!(of(&ConvolutionProblem { groups: -1, ..layer.clone() }), None);
        assert_eq!(of(&ConvolutionProblem { dtype: Dtype::Float64, ..layer }), None);
    }
}
