//! Calls of cuFFT: their results, copies and workspaces.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Context, Gradients, Node, Tensor};
use crate::operators::call::{Outcome, Unmodelled};
use crate::operators::complex_numbers::{complex_of, part_layout};
use crate::operators::function::Function;
use crate::operators::view::view_strides;

/// The longest signal with a length that is a power of two for which cuFFT was seen to need no workspace.
const LONGEST_WITHOUT_WORKSPACE: i64 = 2048;

/// cuFFT's workspace for signals of these lengths that have so many numbers in all. The documentation's worst case is eight complex numbers
/// for each; lengths without large prime factors take at most two passes over the data.
fn take_workspace(context: &mut Context, lengths: &[i64], numbers: i64, complex: Dtype) {
    if lengths.iter().all(|&length| length.count_ones() == 1 && length <= LONGEST_WITHOUT_WORKSPACE) {
        return;
    }
    let is_smooth = |&length: &i64| {
        let mut rest = length.max(1);
        for prime in [2, 3, 5, 7] {
            while rest % prime == 0 {
                rest /= prime;
            }
        }
        rest == 1
    };
    let bytes = numbers.unsigned_abs() * complex.bytes();
    let (expected, upper) = if lengths.iter().all(is_smooth) { (0, 2 * bytes) } else { (bytes / 2, 8 * bytes) };
    context.uncertain_workspace("workspace of cuFFT", (0, expected, upper));
}

/// `_exec_fft`: signals along `dims` of `source` are transformed into memory for `shape`, which is made already. Returns the
/// strides of the result.
fn execute(context: &mut Context, source: &Tensor, shape: &[i64], dims: &[usize], complex: Dtype) -> Dims {
    let layout = source.layout();
    let rank = shape.len();
    let mut order: Dims = (0..rank as i64).filter(|dim| !dims.contains(&(*dim as usize))).collect();
    let batch_dims = order.len();
    order.sort_by_key(|&dim| std::cmp::Reverse(layout.strides[dim as usize]));
    order.extend(dims.iter().map(|&dim| dim as i64));
    let by_order = |numbers: &[i64]| -> Dims { order.iter().map(|&dim| numbers[dim as usize]).collect() };
    let permuted = Layout { dtype: layout.dtype, shape: by_order(&layout.shape), strides: by_order(&layout.strides) };
    let batch: i64 = permuted.shape[..batch_dims].iter().product();
    let mut batched = Dims::from([batch]);
    batched.extend(permuted.shape[batch_dims..].iter().copied());
    let seen = view_strides(&permuted, &batched);
    let copy = seen.is_none().then(|| context.empty_contiguous(layout.dtype, &permuted.shape));
    let clone = seen
        .filter(|strides| must_be_cloned(strides, &batched))
        .map(|_| context.empty_contiguous(layout.dtype, &batched));
    let lengths: Dims = dims.iter().map(|&dim| layout.shape[dim].max(shape[dim])).collect();
    take_workspace(context, &lengths, batch * lengths.iter().product::<i64>(), complex);
    drop((clone, copy));
    let mut strides = Dims::filled(1, rank);
    let mut so_far = 1;
    for &dim in order.iter().rev() {
        strides[dim as usize] = so_far;
        so_far *= shape[dim as usize];
    }
    strides
}

/// `as_cufft_embed`: signals whose strides are not multiples of one another are copied.
fn must_be_cloned(strides: &[i64], shape: &[i64]) -> bool {
    let Some(&last) = strides.last() else { return false };
    if last <= 0 || (shape[0] != 1 && strides[0] == 0) {
        return true;
    }
    let mut inner = last;
    for dim in (1..strides.len() - 1).rev() {
        if shape[dim] == 1 {
            continue;
        }
        if strides[dim] <= 0 || strides[dim] % inner != 0 {
            return true;
        }
        inner = strides[dim];
    }
    false
}

/// Several dimensions in one call of cuFFT: at most three, and not those in front (`use_optimized_cufft_path`).
fn is_one_call(dims: &[usize]) -> bool {
    dims.len() <= 3 && !dims.starts_with(&[0, 1])
}

/// `_fft_c2c`.
fn c2c(context: &mut Context, source: &Tensor, dims: &[usize]) -> Tensor {
    let dtype = source.dtype();
    let result = context.empty_contiguous(dtype, source.shape());
    let mut sorted: Vec<usize> = dims.to_vec();
    sorted.sort_by_key(|&dim| std::cmp::Reverse(source.layout().strides[dim]));
    let strides = execute(context, source, source.shape(), &sorted, dtype);
    result.unsafe_view(Layout { dtype, shape: source.shape().into(), strides })
}

/// `_fft_r2c`.
fn r2c(context: &mut Context, source: &Tensor, dims: &[usize], is_half: bool, complex: Dtype) -> Tensor {
    let mut shape: Dims = source.shape().into();
    if let Some(&last) = dims.last().filter(|_| is_half) {
        shape[last] = shape[last] / 2 + 1;
    }
    let result = context.empty_contiguous(complex, &shape);
    let strides = execute(context, source, &shape, dims, complex);
    result.unsafe_view(Layout { dtype: complex, shape, strides })
}

#[derive(Debug)]
struct Dimensions {
    dims: Vec<usize>,
    is_half: bool,
}

pub(super) fn c2c_in_graph(context: &mut Context, source: &Tensor, dims: Vec<usize>) -> Outcome {
    if dims.len() > 3 || dims.is_empty() {
        return Err(Unmodelled);
    }
    let result = c2c(context, source, &dims);
    let backward =
        Function(dims, |dims: &Vec<usize>, context, _, gradient| smallvec![Some(c2c(context, &gradient, dims))]);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn r2c_in_graph(context: &mut Context, source: &Tensor, dims: Vec<usize>, is_half: bool) -> Outcome {
    if !is_one_call(&dims) {
        return Err(Unmodelled);
    }
    let result = r2c(context, source, &dims, is_half, complex_of(source.dtype())?);
    // Only the length of a dimension is needed, but the whole tensor is saved.
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone())];
    let backward = Function(Dimensions { dims, is_half }, r2c_backward);
    let edge = context.record(&[Some(source)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// Half of the frequencies are filled up with zeros; of the inverse transform the real part is the gradient.
fn r2c_backward(kept: &Dimensions, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let shape: Dims = node.inputs[0].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
    let is_filled = kept.is_half && gradient.shape() != shape.as_slice();
    let zeros = is_filled.then(|| context.empty_contiguous(gradient.dtype(), &shape));
    let found = c2c(context, zeros.as_ref().unwrap_or(&gradient), &kept.dims);
    drop(zeros);
    smallvec![Some(found.view(part_layout(&found)))]
}

pub(super) fn c2r_in_graph(context: &mut Context, source: &Tensor, dims: Vec<usize>, length: i64) -> Outcome {
    if !is_one_call(&dims) {
        return Err(Unmodelled);
    }
    let (complex, last) = (source.dtype(), *dims.last().ok_or(Unmodelled)?);
    let mut shape: Dims = source.shape().into();
    shape[last] = length;
    let result = context.empty_contiguous(complex.of_real_part(), &shape);
    // cuFFT may write into what it reads.
    let copy = context.empty_contiguous(complex, source.shape());
    let strides = execute(context, &copy, &shape, &dims, complex);
    drop(copy);
    let result = result.unsafe_view(Layout { dtype: complex.of_real_part(), shape, strides });
    let backward = Function(dims, |dims: &Vec<usize>, context, _, gradient| match complex_of(gradient.dtype()) {
        Ok(complex) => smallvec![Some(r2c(context, &gradient, dims, true, complex))],
        Err(Unmodelled) => smallvec![None],
    });
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}
