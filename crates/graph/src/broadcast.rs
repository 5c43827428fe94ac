//! How elementwise operators lay out a result of several inputs, as `TensorIterator` finds it.

use crate::dtype::Dtype;
use smallvec::SmallVec;

use crate::dims::Dims;
use crate::layout::{Layout, contiguous_strides};

impl Layout {
    /// The layout that elementwise operators give their result.
    pub fn broadcast(inputs: &[&Layout], dtype: Dtype) -> Layout {
        if let [first, others @ ..] = inputs
            && others.iter().all(|other| other.shape == first.shape)
        {
            let shape = first.shape.clone();
            if inputs.iter().all(|input| input.is_contiguous()) {
                return Layout { dtype, strides: contiguous_strides(&shape), shape };
            }
            if first.is_dense() && others.iter().all(|other| other.strides == first.strides) {
                return Layout { dtype, strides: first.strides.clone(), shape };
            }
        }
        let shape = broadcast_shape(inputs);
        let strides = iterator_strides(&shape, inputs);
        Layout { dtype, shape, strides }
    }
}

/// The shape that all of these broadcast to.
fn broadcast_shape(inputs: &[&Layout]) -> Dims {
    let rank = inputs.iter().map(|input| input.shape.len()).max().unwrap_or(0);
    let mut shape = Dims::filled(1, rank);
    for input in inputs {
        let skipped = rank - input.shape.len();
        for (dim, &size) in input.shape.iter().enumerate() {
            if shape[skipped + dim] == 1 {
                shape[skipped + dim] = size;
            }
        }
    }
    shape
}

/// The strides of a result whose inputs do not all agree: dimensions from the smallest stride on, as the first input
/// that can tell orders them.
fn iterator_strides(shape: &[i64], inputs: &[&Layout]) -> Dims {
    let rank = shape.len();
    let stride = |input: &Layout, dim: usize| {
        let skipped = rank - input.shape.len();
        if dim < skipped || (input.shape[dim - skipped] == 1 && shape[dim] != 1) {
            0
        } else {
            input.strides[dim - skipped]
        }
    };
    let compare = |first: usize, second: usize| -> i32 {
        for input in inputs {
            let (one, other) = (stride(input, first), stride(input, second));
            if one == 0 || other == 0 {
                continue;
            }
            if one != other {
                return if one < other { -1 } else { 1 };
            }
            if shape[first] > shape[second] {
                return 1;
            }
        }
        0
    };
    let mut order: SmallVec<[usize; 6]> = (0..rank).rev().collect();
    for index in 1..rank {
        let mut position = index;
        for before in (0..index).rev() {
            match compare(order[before], order[position]) {
                1 => {
                    order.swap(before, position);
                    position = before;
                }
                -1 => break,
                _ => {}
            }
        }
    }
    let mut strides = Dims::filled(1, rank);
    let mut expected = 1;
    for dim in order {
        strides[dim] = expected;
        expected *= shape[dim];
    }
    strides
}
