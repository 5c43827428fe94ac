//! How the memory of a tensor is split over ranks.

use vramfit_graph::dims::Dims;

/// A storage is rows of `count` blocks with `block` elements each; of every row, a rank has an equal part of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub block: i64,
    pub count: i64,
}

/// The dimension of a tensor in which it is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitDim {
    pub dim: usize,
    /// How many consecutive entries belong together.
    pub inner: i64,
    /// How many of these there are in a row.
    pub parts: i64,
}

impl Cut {
    fn row(self) -> i64 {
        self.block * self.count
    }

    /// A tensor that is split in this dimension.
    pub fn along(split: SplitDim, strides: &[i64]) -> Cut {
        Cut { block: strides[split.dim] * split.inner, count: split.parts }
    }

    /// A tensor whose dimension is split as a whole.
    pub fn whole(dim: usize, shape: &[i64], strides: &[i64]) -> Cut {
        Cut { block: strides[dim], count: shape[dim] }
    }

    /// The dimension in which a tensor with this memory is split; `None` where it does not have all blocks of a row.
    pub fn dim(self, shape: &[i64], strides: &[i64]) -> Option<SplitDim> {
        let has_end = |&(_, (&size, &stride)): &(usize, (&i64, &i64))| {
            let end = size.saturating_mul(stride);
            stride > 0 && stride < self.row() && end >= self.row() && end > self.block
        };
        let (dim, (_, &stride)) = shape.iter().zip(strides).enumerate().find(has_end)?;
        Some(SplitDim { dim, inner: (self.block / stride).max(1), parts: self.row() / stride.max(self.block) })
    }

    /// Shape, strides and offset on one of `world` ranks.
    pub fn local(self, world: i64, shape: &Dims, strides: &Dims, offset: i64) -> Option<(Dims, Dims, i64)> {
        let SplitDim { dim, parts, .. } = self.dim(shape, strides)?;
        let (mut shape, mut strides) = (shape.clone(), strides.clone());
        shape[dim] /= world;
        for stride in strides.iter_mut().filter(|stride| **stride >= self.row()) {
            *stride /= world;
        }
        // It may begin anywhere in the first part.
        let within = offset % self.row();
        (within < self.row() / parts).then(|| (shape, strides, offset / self.row() * (self.row() / world) + within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns of a linear layer: heads of 64, over a batch of 2 and 5 positions.
    const HEADS: Cut = Cut { block: 1, count: 8 * 64 };

    fn local(cut: Cut, shape: &[i64], strides: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
        let dims = |sizes: &[i64]| {
            sizes.iter().fold(Dims::EMPTY, |mut dims, size| {
                dims.push(*size);
                dims
            })
        };
        let (shape, strides, _) = cut.local(2, &dims(shape), &dims(strides), 0)?;
        Some((shape.to_vec(), strides.to_vec()))
    }

    #[test]
    fn heads_are_split_and_not_what_is_in_a_head() {
        let viewed = local(HEADS, &[2, 8, 5, 64], &[5 * 512, 64, 512, 1]);
        assert_eq!(viewed, Some((vec![2, 4, 5, 64], vec![5 * 256, 64, 256, 1])));
        let half = local(HEADS, &[2, 8, 5, 32], &[5 * 512, 64, 512, 1]);
        assert_eq!(half, Some((vec![2, 4, 5, 32], vec![5 * 256, 64, 256, 1])));
    }

    #[test]
    fn a_dimension_of_batch_and_heads_has_the_heads_inside() {
        let scores = Cut { block: 25, count: 8 };
        assert_eq!(local(scores, &[16, 5, 5], &[25, 5, 1]), Some((vec![8, 5, 5], vec![25, 5, 1])));
        let split = scores.dim(&[16, 5, 5], &[25, 5, 1]).expect("it is split");
        assert_eq!(Cut::along(split, &[25, 5, 1]), scores);
        assert_eq!(local(scores, &[2, 8, 5, 5], &[200, 25, 5, 1]), Some((vec![2, 4, 5, 5], vec![100, 25, 5, 1])));
    }

    #[test]
    fn heads_that_are_joined_again_stay_whole_heads() {
        let heads = Cut { block: 64, count: 8 };
        let split = heads.dim(&[2, 5, 512], &[2560, 512, 1]).expect("it is split");
        assert_eq!((split.dim, split.inner, split.parts), (2, 64, 8));
    }

    #[test]
    fn a_part_of_the_heads_is_not_followed() {
        assert_eq!(local(HEADS, &[2, 5, 256], &[2560, 512, 1]), None);
    }
}
