//! Fourier transforms by cuFFT, and complex numbers.
//!
//! The sizes of cuFFT's workspaces are known from recordings for some lengths only; others are within cuFFT's documented bound.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled, only, wrap};
use super::facts::*;
use super::function::Function;
use super::joining::{padded, rolled_in_graph};
use super::pointwise::{self, elementwise};
use super::view::{narrowed, permuted_in_graph, view_strides, viewed_as_real};
use super::windows::strided;
use crate::autograd::{Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::LocalMemory, Time::ASSUMED, Keeps::Inputs, Autocast::Unchanged);

/// What those have in common that autocast casts to single precision.
const SINGLE: Facts = Facts { autocast: Autocast::Single, ..FAMILY };

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.fft_fft.default"],
        Facts { memory: Modelled(|context, call| one_dimension(context, call, Kind::Full)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_ifft.default"],
        Facts { memory: Modelled(|context, call| one_dimension(context, call, Kind::FullInverse)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_rfft.default"],
        Facts { memory: Modelled(|context, call| one_dimension(context, call, Kind::Half)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_irfft.default"],
        Facts { memory: Modelled(|context, call| one_dimension(context, call, Kind::HalfInverse)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_fft2.default", "aten.fft_fftn.default"],
        Facts { memory: Modelled(|context, call| several_dimensions(context, call, Kind::Full)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_ifft2.default", "aten.fft_ifftn.default"],
        Facts { memory: Modelled(|context, call| several_dimensions(context, call, Kind::FullInverse)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_rfft2.default", "aten.fft_rfftn.default"],
        Facts { memory: Modelled(|context, call| several_dimensions(context, call, Kind::Half)), ..SINGLE },
    ),
    Operator::new(
        &["aten.fft_irfft2.default", "aten.fft_irfftn.default"],
        Facts { memory: Modelled(|context, call| several_dimensions(context, call, Kind::HalfInverse)), ..SINGLE },
    ),
    Operator::new(
        &[
            "aten.fft_hfft.default",
            "aten.fft_hfft2.default",
            "aten.fft_hfftn.default",
            "aten.fft_ihfft.default",
            "aten.fft_ihfft2.default",
            "aten.fft_ihfftn.default",
        ],
        SINGLE,
    ),
    Operator::new(&["aten._fft_c2c.default"], Facts { memory: Modelled(inner_c2c), ..FAMILY }),
    Operator::new(&["aten._fft_r2c.default"], Facts { memory: Modelled(inner_r2c), ..FAMILY }),
    Operator::new(&["aten._fft_c2r.default"], Facts { memory: Modelled(inner_c2r), ..FAMILY }),
    Operator::new(
        &["aten.fft_fftshift.default", "aten.fft_ifftshift.default"],
        Facts { memory: Modelled(shift), time: Time::moves("roll", Extent::Larger), keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(&["aten.stft.default"], Facts { memory: Modelled(short_time), ..SINGLE }),
    Operator::new(&["aten.stft.center", "aten.istft.default"], SINGLE),
    Operator::new(
        &["aten.real.default", "aten.imag.default"],
        Facts { memory: Modelled(part), keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(&["aten.complex.default"], Facts { memory: Modelled(complex), ..FAMILY }),
    Operator::new(&["aten.polar.default"], Facts { memory: Modelled(polar), keeps: Keeps::Results, ..FAMILY }),
];

/// Which numbers a transform reads and makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// All frequencies.
    Full,
    FullInverse,
    /// Of real numbers, the half of the frequencies that decides the other.
    Half,
    /// Back to real numbers.
    HalfInverse,
}

fn complex_of(dtype: Dtype) -> Result<Dtype, Unmodelled> {
    match dtype {
        Dtype::Float32 | Dtype::Complex64 => Ok(Dtype::Complex64),
        Dtype::Float64 | Dtype::Complex128 => Ok(Dtype::Complex128),
        _ => Err(Unmodelled),
    }
}

fn real_of(dtype: Dtype) -> Dtype {
    if dtype == Dtype::Complex128 { Dtype::Float64 } else { Dtype::Float32 }
}

pub(super) fn is_complex(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Complex64 | Dtype::Complex128)
}

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

fn c2c_in_graph(context: &mut Context, source: &Tensor, dims: Vec<usize>) -> Outcome {
    if dims.len() > 3 || dims.is_empty() {
        return Err(Unmodelled);
    }
    let result = c2c(context, source, &dims);
    let backward =
        Function(dims, |dims: &Vec<usize>, context, _, gradient| smallvec![Some(c2c(context, &gradient, dims))]);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

fn r2c_in_graph(context: &mut Context, source: &Tensor, dims: Vec<usize>, is_half: bool) -> Outcome {
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

fn c2r_in_graph(context: &mut Context, source: &Tensor, dims: Vec<usize>, length: i64) -> Outcome {
    if !is_one_call(&dims) {
        return Err(Unmodelled);
    }
    let (complex, last) = (source.dtype(), *dims.last().ok_or(Unmodelled)?);
    let mut shape: Dims = source.shape().into();
    shape[last] = length;
    let result = context.empty_contiguous(real_of(complex), &shape);
    // cuFFT may write into what it reads.
    let copy = context.empty_contiguous(complex, source.shape());
    let strides = execute(context, &copy, &shape, &dims, complex);
    drop(copy);
    let result = result.unsafe_view(Layout { dtype: real_of(complex), shape, strides });
    let backward = Function(dims, |dims: &Vec<usize>, context, _, gradient| match complex_of(gradient.dtype()) {
        Ok(complex) => smallvec![Some(r2c(context, &gradient, dims, true, complex))],
        Err(Unmodelled) => smallvec![None],
    });
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// `promote_tensor_fft`: real numbers as complex ones where the transform needs that.
fn as_complex(context: &mut Context, source: &Tensor) -> Result<Tensor, Unmodelled> {
    if is_complex(source.dtype()) {
        return Ok(source.clone());
    }
    let result = context.empty(source.like(complex_of(source.dtype())?));
    let backward = Function((), |&(), _, _, gradient| smallvec![Some(gradient.view(part_layout(&gradient)))]);
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(result.with_edge(edge))
}

/// `resize_fft_input`: filled up with zeros, or cut.
fn resized(context: &mut Context, source: Tensor, dims: &[usize], sizes: &[i64]) -> Tensor {
    let mut cut = source;
    let mut shape: Dims = cut.shape().into();
    let mut is_padded = false;
    for (&dim, &size) in dims.iter().zip(sizes) {
        if size > 0 && size < shape[dim] {
            cut = narrowed(context, &cut, dim, size);
            shape[dim] = size;
        } else if size > shape[dim] {
            shape[dim] = size;
            is_padded = true;
        }
    }
    if is_padded { padded(context, &cut, &shape) } else { cut }
}

fn transformed(context: &mut Context, source: &Tensor, dims: Vec<usize>, sizes: Dims, kind: Kind) -> Outcome {
    let is_real = !is_complex(source.dtype());
    match kind {
        Kind::Full if is_real && dims.len() == 1 => {
            let read = resized(context, source.clone(), &dims, &sizes);
            r2c_in_graph(context, &read, dims, false)
        }
        Kind::FullInverse if is_real && dims.len() == 1 => Err(Unmodelled),
        Kind::Full | Kind::FullInverse => {
            let read = as_complex(context, source)?;
            let read = resized(context, read, &dims, &sizes);
            c2c_in_graph(context, &read, dims)
        }
        Kind::Half => {
            let read = resized(context, source.clone(), &dims, &sizes);
            r2c_in_graph(context, &read, dims, true)
        }
        Kind::HalfInverse => {
            let read = as_complex(context, source)?;
            let last = *dims.last().ok_or(Unmodelled)?;
            let mut halves = sizes.clone();
            let length = match halves.last_mut() {
                Some(size) if *size > 0 => {
                    let length = *size;
                    *size = length / 2 + 1;
                    length
                }
                _ => 2 * (source.shape()[last] - 1),
            };
            let read = resized(context, read, &dims, &halves);
            c2r_in_graph(context, &read, dims, length)
        }
    }
}

/// `fft(self, n, dim, norm)` and its like.
fn one_dimension(context: &mut Context, call: &Call<'_>, kind: Kind) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = wrap(call.int(2).unwrap_or(-1), rank)?;
    transformed(context, source, vec![dim], Dims::from([call.int(1).unwrap_or(0)]), kind)
}

/// `fftn(self, s, dim, norm)` and its like.
fn several_dimensions(context: &mut Context, call: &Call<'_>, kind: Kind) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let given = if call.is_none(1) { None } else { Some(call.ints(1)?) };
    let dims: Dims = match (call.is_none(2), &given) {
        (false, _) => call.ints(2)?,
        (true, Some(sizes)) => (rank as i64 - sizes.len() as i64..rank as i64).collect(),
        (true, None) => (0..rank as i64).collect(),
    };
    let dims = dims.iter().map(|&dim| wrap(dim, rank)).collect::<Result<Vec<_>, _>>()?;
    let sizes = given.unwrap_or_else(|| Dims::filled(0, dims.len()));
    transformed(context, source, dims, sizes, kind)
}

fn wrapped_dims(call: &Call<'_>, index: usize) -> Result<Vec<usize>, Unmodelled> {
    let rank = call.tensor(0)?.shape().len();
    call.ints(index)?.iter().map(|&dim| wrap(dim, rank)).collect()
}

fn inner_c2c(context: &mut Context, call: &Call<'_>) -> Outcome {
    c2c_in_graph(context, call.tensor(0)?, wrapped_dims(call, 1)?)
}

fn inner_r2c(context: &mut Context, call: &Call<'_>) -> Outcome {
    r2c_in_graph(context, call.tensor(0)?, wrapped_dims(call, 1)?, call.bool(3)?)
}

fn inner_c2r(context: &mut Context, call: &Call<'_>) -> Outcome {
    c2r_in_graph(context, call.tensor(0)?, wrapped_dims(call, 1)?, call.int(3)?)
}

/// `fftshift`: a roll by half of each dimension.
fn shift(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dims = if call.is_none(1) { source.shape().len() } else { call.ints(1)?.len() };
    rolled_in_graph(context, source, dims)
}

/// `stft`: transforms of windows, which are views. Windows that are weighted are copied by that.
fn short_time(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, length) = (call.tensor(0)?, call.int(1)?);
    let hop = call.int(2).unwrap_or(length / 4);
    let is_windowed_whole = call.is_none(3) || call.int(3)? == length;
    let &[batch, samples] = source.shape() else { return Err(Unmodelled) };
    if is_complex(source.dtype()) || !is_windowed_whole {
        return Err(Unmodelled);
    }
    let count = 1 + (samples - length) / hop;
    let steps = &source.layout().strides;
    let strides = Dims::from([steps[0], hop * steps[1], steps[1]]);
    let mut frames = only(strided(context, source, Dims::from([batch, count, length]), strides, 0))?;
    if let Some(window) = call.optional_tensor(4) {
        let weighted = elementwise(context, &[&frames, window], frames.dtype());
        let inputs = [Some(&frames), Some(window)];
        let edge = pointwise::record(context, &inputs, &inputs, &weighted, &pointwise::MUL);
        frames = weighted.with_edge(edge);
    }
    let is_half = call.bool(6).unwrap_or(true);
    let spectrum = only(r2c_in_graph(context, &frames, vec![2], is_half))?;
    drop(frames);
    let turned = only(permuted_in_graph(context, &spectrum, &[0, 2, 1]))?;
    drop(spectrum);
    match call.bool(7) {
        Ok(true) => Ok(smallvec![turned]),
        _ => viewed_as_real(context, &turned),
    }
}

/// The layout of the real parts of complex numbers.
fn part_layout(source: &Tensor) -> Layout {
    let Layout { dtype, shape, strides } = source.layout();
    Layout { dtype: real_of(*dtype), shape: shape.clone(), strides: strides.iter().map(|stride| 2 * stride).collect() }
}

/// `real` and `imag`: every second number. The gradient is put into zeros.
fn part(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    if !is_complex(source.dtype()) {
        return Ok(smallvec![source.clone()]);
    }
    let result = source.view(part_layout(source));
    let backward = Function(source.dtype(), |&complex, context, _, gradient| {
        let zeros = context.empty_contiguous(complex, gradient.shape());
        smallvec![Some(zeros.view(zeros.shared_layout()))]
    });
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// `complex(real, imag)`: the gradients are parts of the gradient.
fn complex(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (real, imaginary) = (call.tensor(0)?, call.tensor(1)?);
    let result = elementwise(context, &[real, imaginary], complex_of(real.dtype())?);
    let backward = Function((), |&(), _, node, gradient| {
        let part = |input| node.wants(input).then(|| gradient.view(part_layout(&gradient)));
        smallvec![part(0), part(1)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(imaginary.clone()), Some(real.clone())];
    let edge = context.record(&[Some(real), Some(imaginary)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// `polar(abs, angle)`. A conjugate that is multiplied is copied first.
fn polar(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (length, angle) = (call.tensor(0)?, call.tensor(1)?);
    let result = elementwise(context, &[length, angle], complex_of(length.dtype())?);
    let backward = Function((), |&(), context, node, gradient| {
        let like = |context: &Context| context.empty(gradient.like(gradient.dtype()));
        let factor = |_input: usize| {
            let other = like(context);
            let conjugate = like(context);
            let product = like(context);
            drop(conjugate);
            drop(other);
            product
        };
        let found = [factor(0), factor(1)];
        let part = |input: usize| node.wants(input).then(|| found[input].view(part_layout(&found[input])));
        smallvec![part(0), part(1)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(result.detach())];
    let edge = context.record(&[Some(length), Some(angle)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// `abs` of complex numbers, which are computed as complex ones first.
pub(super) fn magnitude(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty(source.like(real_of(source.dtype())));
    drop(context.empty(source.like(source.dtype())));
    let backward = Function((), |&(), context, node, gradient| {
        let source = node.saved(0);
        let sign = context.empty(source.like(source.dtype()));
        let found = elementwise(context, &[&gradient, &sign], source.dtype());
        drop(sign);
        smallvec![Some(found)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}
