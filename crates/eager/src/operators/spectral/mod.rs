//! Fourier transforms by cuFFT.
//!
//! The sizes of cuFFT's workspaces are known from recordings for some lengths only; others are within cuFFT's documented bound.

mod cufft;

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::call::{Call, Outcome, Unmodelled, only, wrap};
use super::complex_numbers::{complex_of, part_layout};
use super::facts::*;
use super::function::Function;
use super::pointwise::{self, elementwise};
use super::rearranging::{padded, rolled_in_graph};
use super::view::{narrowed, permuted_in_graph, viewed_as_real};
use super::windows::strided;
use crate::autograd::{Context, Tensor};
use cufft::{c2c_in_graph, c2r_in_graph, r2c_in_graph};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Inputs,
    Autocast::Unchanged,
    Samples::Along(2),
);

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
    Operator::new(
        &["aten._fft_c2c.default"],
        Facts { memory: Modelled(inner_c2c), samples: Samples::Along(1), ..FAMILY },
    ),
    Operator::new(
        &["aten._fft_r2c.default"],
        Facts { memory: Modelled(inner_r2c), samples: Samples::Along(1), ..FAMILY },
    ),
    Operator::new(
        &["aten._fft_c2r.default"],
        Facts { memory: Modelled(inner_c2r), samples: Samples::Along(1), ..FAMILY },
    ),
    Operator::new(
        &["aten.fft_fftshift.default", "aten.fft_ifftshift.default"],
        Facts {
            memory: Modelled(shift),
            time: Time::moves("roll", Extent::Larger),
            keeps: Keeps::Nothing,
            samples: Samples::Along(1),
            ..FAMILY
        },
    ),
    Operator::new(&["aten.stft.default"], Facts { memory: Modelled(short_time), samples: Samples::First, ..SINGLE }),
    Operator::new(&["aten.stft.center", "aten.istft.default"], Facts { samples: Samples::First, ..SINGLE }),
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

/// `promote_tensor_fft`: real numbers as complex ones where the transform needs that.
fn as_complex(context: &mut Context, source: &Tensor) -> Result<Tensor, Unmodelled> {
    if source.dtype().is_complex() {
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
    let is_real = !source.dtype().is_complex();
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
    if source.dtype().is_complex() || !is_windowed_whole {
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
