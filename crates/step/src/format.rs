//! Memory formats: whether channels come right after the batch or last, as PyTorch reads it from strides.

use vramfit_graph::dtype::Dtype;

use crate::tensor::{Dims, Layout, contiguous_strides};

/// The order in which the dimensions of an image lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Row-major.
    Contiguous,
    /// Channels last, in a tensor of four or five dimensions.
    ChannelsLast,
}

impl Format {
    /// `suggest_memory_format`.
    pub fn suggested(layout: &Layout) -> Format {
        if looks_channels_last(layout) { Format::ChannelsLast } else { Format::Contiguous }
    }

    /// `cudnn_conv_suggest_memory_format`: channels last if either is.
    pub fn of_convolution(input: &Layout, weight: &Layout) -> Format {
        if input.dtype == Dtype::Float64 || weight.dtype == Dtype::Float64 {
            return Format::Contiguous;
        }
        match (Format::suggested(input), Format::suggested(weight)) {
            (Format::Contiguous, Format::Contiguous) => Format::Contiguous,
            _ => Format::ChannelsLast,
        }
    }

    /// A dense layout in this format; tensors of other ranks know row-major only.
    pub fn layout(self, dtype: Dtype, shape: &[i64]) -> Layout {
        let strides = match (self, shape.len()) {
            (Format::ChannelsLast, 4 | 5) => channels_last_strides(shape),
            _ => contiguous_strides(shape),
        };
        Layout { dtype, shape: shape.into(), strides }
    }

    /// `is_contiguous(memory_format)`.
    pub fn is_kept_by(self, layout: &Layout) -> bool {
        let strides = match (self, layout.shape.len()) {
            (Format::ChannelsLast, 4 | 5) => channels_last_strides(&layout.shape),
            _ => return layout.elements() == 0 || layout.is_contiguous(),
        };
        layout.elements() == 0
            || layout.shape.iter().enumerate().all(|(dim, &size)| size == 1 || layout.strides[dim] == strides[dim])
    }
}

fn channels_last_strides(shape: &[i64]) -> Dims {
    let mut strides = Dims::filled(1, shape.len());
    let mut expected = shape[1].max(1);
    for dim in (2..shape.len()).rev() {
        strides[dim] = expected;
        expected *= shape[dim].max(1);
    }
    strides[0] = expected;
    strides
}

/// Strides that grow from the channels over the image to the batch. What is ambiguous counts as row-major.
fn looks_channels_last(layout: &Layout) -> bool {
    let rank = layout.shape.len();
    if !(rank == 4 || rank == 5) || layout.strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for dim in std::iter::once(1).chain((2..rank).rev()).chain([0]) {
        let (size, stride) = (layout.shape[dim], layout.strides[dim]);
        if size == 0 || stride < least || (dim == 0 && least == layout.strides[1]) {
            return false;
        }
        least = if size > 1 { stride * size } else { stride };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_image_is_row_major_and_a_permuted_one_is_not() {
        let plain = Layout::contiguous(Dtype::Float32, &[2, 3, 4, 5]);
        assert_eq!(Format::suggested(&plain), Format::Contiguous);
        let last = Format::ChannelsLast.layout(Dtype::Float32, &[2, 3, 4, 5]);
        assert_eq!(&last.strides[..], &[60, 1, 15, 3]);
        assert_eq!(Format::suggested(&last), Format::ChannelsLast);
    }

    #[test]
    fn a_pointwise_kernel_lies_in_both_formats_and_counts_as_row_major() {
        let weight = Layout::contiguous(Dtype::Float32, &[64, 256, 1, 1]);
        assert_eq!(Format::suggested(&weight), Format::Contiguous);
        assert!(Format::ChannelsLast.is_kept_by(&weight) && Format::Contiguous.is_kept_by(&weight));
    }
}
