//! The layout of a tensor: element type, shape and strides, with PyTorch's rules for dense and broadcast strides.

use smallvec::SmallVec;

use crate::dims::Dims;
use crate::dtype::Dtype;

/// Element type, shape and strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The elements' type.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Dims,
    /// The strides.
    pub strides: Dims,
}

impl Layout {
    /// A contiguous layout.
    pub fn contiguous(dtype: Dtype, shape: &[i64]) -> Layout {
        Layout { dtype, shape: shape.into(), strides: contiguous_strides(shape) }
    }

    /// How many elements there are.
    pub fn elements(&self) -> i64 {
        self.shape.iter().fold(1, |product, &size| times(product, size))
    }

    /// Bytes of the smallest storage that holds it.
    pub fn bytes(&self) -> u64 {
        let mut last = 0_i64;
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            if size == 0 {
                return 0;
            }
            last = last.checked_add(times(size - 1, stride)).unwrap_or(i64::MAX);
        }
        last.saturating_add(1).unsigned_abs().saturating_mul(self.dtype.bytes())
    }

    /// Whether it is row-major without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (&size, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if size == 0 {
                return true;
            }
            if size != 1 {
                if stride != expected {
                    return false;
                }
                expected = times(size, expected);
            }
        }
        true
    }

    /// Whether it equals [`Layout::contiguous`], strides of dimensions of size 1 included.
    pub fn is_plain(&self) -> bool {
        let mut expected = 1_i64;
        self.shape.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let is_expected = stride == expected;
            expected = times(expected, size.max(1));
            is_expected
        })
    }

    /// Whether its elements fill its memory, each once, in any order of dimensions.
    pub fn is_dense(&self) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let mut order: SmallVec<[usize; 4]> = (0..self.shape.len()).filter(|&dim| self.shape[dim] != 1).collect();
        order.sort_by_key(|&dim| self.strides[dim]);
        let mut expected = 1;
        for dim in order {
            if self.shape[dim] == 0 {
                return true;
            }
            if self.strides[dim] != expected {
                return false;
            }
            expected = times(self.shape[dim], expected);
        }
        true
    }

    /// The layout `empty_like` gives: the same strides where it is dense, else dense ones in the same order of
    /// dimensions.
    #[must_use]
    pub fn like(&self, dtype: Dtype) -> Layout {
        let strides = if self.is_dense() { self.strides.clone() } else { ordered_strides(&self.shape, &self.strides) };
        Layout { dtype, shape: self.shape.clone(), strides }
    }

    /// The same shape and strides with other elements.
    #[must_use]
    pub fn with_dtype(&self, dtype: Dtype) -> Layout {
        Layout { dtype, ..self.clone() }
    }
}

/// The product of two sizes or strides, neither of which is negative; saturates.
#[inline]
fn times(one: i64, other: i64) -> i64 {
    one.checked_mul(other).unwrap_or(i64::MAX)
}

/// Row-major strides, as PyTorch computes them; one beyond 64 bits saturates to `i64::MAX`.
pub fn contiguous_strides(shape: &[i64]) -> Dims {
    let mut strides = Dims::filled(1, shape.len());
    let mut expected = 1_i64;
    for (stride, size) in strides.iter_mut().zip(shape).rev() {
        *stride = expected;
        expected = times(expected, (*size).max(1));
    }
    strides
}

/// Dense strides in the order of dimensions of `strides`, as `infer_dense_strides` computes them.
fn ordered_strides(shape: &[i64], strides: &[i64]) -> Dims {
    let mut order: SmallVec<[usize; 4]> = (0..shape.len()).rev().collect();
    // An insertion sort from the innermost dimension outwards; expanded dimensions stay where they are.
    for index in 1..order.len() {
        let mut position = index;
        while position > 0 {
            let (inner, outer) = (order[position - 1], order[position]);
            let (inner_stride, outer_stride) = (strides[inner], strides[outer]);
            let is_wrong = inner_stride != 0
                && outer_stride != 0
                && (inner_stride > outer_stride || (inner_stride == outer_stride && shape[inner] > shape[outer]));
            if !is_wrong {
                break;
            }
            order.swap(position - 1, position);
            position -= 1;
        }
    }
    let mut result = Dims::filled(1, shape.len());
    let mut expected = 1;
    for dim in order {
        result[dim] = expected;
        expected = times(shape[dim].max(1), expected);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::contiguous_strides;

    #[test]
    fn contiguous_strides_are_pytorchs() {
        let strides = |shape: &[i64]| contiguous_strides(shape).to_vec();
        assert_eq!(strides(&[]), []);
        assert_eq!(strides(&[7]), [1]);
        assert_eq!(strides(&[2, 3, 4]), [12, 4, 1]);
        assert_eq!(strides(&[2, 0, 4]), [4, 4, 1]);
        assert_eq!(strides(&[2, 1, 3, 1, 2, 2, 2]), [24, 24, 8, 8, 4, 2, 1]);
        assert_eq!(strides(&[0, 1 << 40, 1 << 40]), [i64::MAX, 1 << 40, 1]);
    }
}
