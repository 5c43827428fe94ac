//! What a convolution is beside its tensors, and which kernels PyTorch gives it to.

use vramfit_graph::bind::Value;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use crate::operators::call::{Call, Unmodelled};

/// Strides, paddings and dilations by dimension of the image, groups, direction.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub stride: Dims,
    pub padding: Dims,
    pub dilation: Dims,
    pub groups: i64,
    pub is_transposed: bool,
}

/// Who runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    /// PyTorch's own kernels for one channel a group.
    Depthwise,
    Cudnn,
}

/// A list with one number for each dimension; a single number counts for all.
fn listed(call: &Call<'_>, index: usize, count: usize, default: i64) -> Result<Dims, Unmodelled> {
    if call.is_none(index) {
        return Ok(Dims::filled(default, count));
    }
    let numbers = call.ints(index)?;
    match numbers.len() {
        1 => Ok(Dims::filled(numbers[0], count)),
        given if given == count => Ok(numbers),
        _ => Err(Unmodelled),
    }
}

fn spatial(call: &Call<'_>) -> Result<usize, Unmodelled> {
    call.tensor(1)?.shape().len().checked_sub(2).filter(|&count| count > 0).ok_or(Unmodelled)
}

impl Geometry {
    /// `convNd(input, weight, bias, stride, padding, dilation, groups)`.
    pub fn plain(call: &Call<'_>) -> Result<Geometry, Unmodelled> {
        let count = spatial(call)?;
        Ok(Geometry {
            stride: listed(call, 3, count, 1)?,
            padding: listed(call, 4, count, 0)?,
            dilation: listed(call, 5, count, 1)?,
            groups: call.int(6).unwrap_or(1),
            is_transposed: false,
        })
    }

    /// The same with `same` or `valid`. An odd total padding takes a copy of the input, which is not modelled.
    pub fn padded_by_name(call: &Call<'_>) -> Result<Geometry, Unmodelled> {
        let count = spatial(call)?;
        let Some(Value::Text(word)) = call.arguments.get(4) else { return Err(Unmodelled) };
        let dilation = listed(call, 5, count, 1)?;
        let mut padding = Dims::filled(0, count);
        if word == "same" {
            let kernel = call.tensor(1)?.shape();
            for dim in 0..count {
                let total = dilation[dim] * (kernel[dim + 2] - 1);
                if total % 2 != 0 {
                    return Err(Unmodelled);
                }
                padding[dim] = total / 2;
            }
        }
        let groups = call.int(6).unwrap_or(1);
        Ok(Geometry { stride: listed(call, 3, count, 1)?, padding, dilation, groups, is_transposed: false })
    }

    /// `conv_transposeNd(input, weight, bias, stride, padding, output_padding, groups, dilation)`.
    pub fn transposed(call: &Call<'_>) -> Result<Geometry, Unmodelled> {
        let count = spatial(call)?;
        let geometry = Geometry {
            stride: listed(call, 3, count, 1)?,
            padding: listed(call, 4, count, 0)?,
            dilation: listed(call, 7, count, 1)?,
            groups: call.int(6).unwrap_or(1),
            is_transposed: true,
        };
        geometry.with_output_padding(&listed(call, 5, count, 0)?)
    }

    /// `convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)`.
    pub fn general(call: &Call<'_>) -> Result<Geometry, Unmodelled> {
        let count = spatial(call)?;
        let geometry = Geometry {
            stride: listed(call, 3, count, 1)?,
            padding: listed(call, 4, count, 0)?,
            dilation: listed(call, 5, count, 1)?,
            groups: call.int(8)?,
            is_transposed: call.bool(6)?,
        };
        geometry.with_output_padding(&listed(call, 7, count, 0)?)
    }

    /// `convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, …)`.
    pub fn of_backward(call: &Call<'_>) -> Result<Geometry, Unmodelled> {
        let count = spatial(call)?;
        let geometry = Geometry {
            stride: listed(call, 4, count, 1)?,
            padding: listed(call, 5, count, 0)?,
            dilation: listed(call, 6, count, 1)?,
            groups: call.int(9)?,
            is_transposed: call.bool(7)?,
        };
        geometry.with_output_padding(&listed(call, 8, count, 0)?)
    }

    /// An output padding as large as a stride is no work for cuDNN.
    fn with_output_padding(self, padding: &[i64]) -> Result<Geometry, Unmodelled> {
        let is_big = padding.iter().zip(&self.stride).any(|(padding, stride)| padding >= stride && *padding > 0);
        if is_big { Err(Unmodelled) } else { Ok(self) }
    }

    /// Of rows seen as images of height one.
    #[must_use]
    pub fn into_image(self) -> Geometry {
        let before = |first: i64, numbers: &Dims| Dims::from([first, numbers[0]]);
        Geometry {
            stride: before(1, &self.stride),
            padding: before(0, &self.padding),
            dilation: before(1, &self.dilation),
            ..self
        }
    }

    /// Who runs it.
    pub fn backend(&self, input: &Layout, weight: &Layout) -> Backend {
        let channels = input.shape[1];
        let is_depthwise =
            !self.is_transposed && channels == self.groups && self.groups > 1 && weight.shape[0] % channels == 0;
        if is_depthwise && !self.suits_cudnn_depthwise(input, weight) { Backend::Depthwise } else { Backend::Cudnn }
    }

    /// `use_cudnn_depthwise`: always with channels last, else for the half-precision shapes that cuDNN was found faster on.
    fn suits_cudnn_depthwise(&self, input: &Layout, weight: &Layout) -> bool {
        if Format::of_convolution(input, weight) == Format::ChannelsLast {
            return true;
        }
        let is_tried = input.dtype == Dtype::Float16
            && input.shape.len() == 4
            && self.dilation.iter().all(|&dilation| dilation == 1)
            && (self.stride[0] == self.stride[1] || input.shape[2] == 1)
            && input.shape[1] >= 32;
        is_tried && self.is_faster_in_cudnn(input, weight)
    }

    fn is_faster_in_cudnn(&self, input: &Layout, weight: &Layout) -> bool {
        let (batch, channels, width) = (input.shape[0], input.shape[1], input.shape[3]);
        let (height, filter) = (weight.shape[2], weight.shape[3]);
        let stride = self.stride[1];
        if input.shape[2] == 1 && stride == 1 {
            return true;
        }
        if height != filter || !matches!(filter, 1 | 3 | 5) || width < 7 {
            return false;
        }
        match (stride, filter) {
            (1, _) => true,
            (2, 1) if batch == 1 => width <= 28,
            (2, 1) => batch <= 16 && channels >= 128 && width <= 7,
            (2, _) => batch == 1 || channels >= 512 || (channels >= 256 && width >= 28),
            _ => false,
        }
    }
}
