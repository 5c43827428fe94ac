//! Memory formats: whether channels come right after the batch or last, as PyTorch reads it from strides.

use std::rc::Rc;

use crate::dtype::Dtype;

use crate::dims::Dims;
use crate::layout::{Layout, contiguous_strides};

/// The order of an image's dimensions in memory.
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

    /// The same for a tensor of another's shape: the other's own layout where it is that.
    pub fn layout_like(self, dtype: Dtype, other: &Rc<Layout>) -> Rc<Layout> {
        let is_that = other.dtype == dtype
            && match (self, other.shape.len()) {
                (Format::ChannelsLast, 4 | 5) => other.strides == channels_last_strides(&other.shape),
                _ => other.is_plain(),
            };
        if is_that { Rc::clone(other) } else { Rc::new(self.layout(dtype, &other.shape)) }
    }

    /// `is_contiguous(memory_format)`.
    pub fn is_kept_by(self, layout: &Layout) -> bool {
        let strides = match (self, layout.shape.len()) {
            (Format::ChannelsLast, 4 | 5) => channels_last_strides(&layout.shape),
            _ => return layout.is_contiguous() || layout.elements() == 0,
        };
        let mut dims = layout.shape.iter().zip(&layout.strides).zip(&strides);
        dims.all(|((&size, found), wanted)| size == 1 || found == wanted) || layout.elements() == 0
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
    let (shape, strides) = (&layout.shape[..], &layout.strides[..]);
    let (&[batch, channels, ref image @ ..], &[batch_stride, channel_stride, ref image_strides @ ..]) =
        (shape, strides)
    else {
        return false;
    };
    if !matches!(image.len(), 2 | 3) || channel_stride == 0 {
        return false;
    }
    let mut least = 0;
    let mut grows = |size: i64, stride: i64| {
        let is_beyond = size != 0 && stride >= least;
        least = if size > 1 { stride * size } else { stride };
        is_beyond
    };
    grows(channels, channel_stride)
        && image.iter().zip(image_strides).rev().all(|(&size, &stride)| grows(size, stride))
        && least != channel_stride
        && batch != 0
        && batch_stride >= least
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
    fn a_layout_is_shared_only_where_a_new_one_would_be_the_same() {
        let formats = [Format::Contiguous, Format::ChannelsLast];
        for shape in [&[2, 3, 4, 5][..], &[2, 1, 1, 5], &[0, 3, 4, 5], &[7, 3], &[]] {
            let plain = Layout::contiguous(Dtype::Float32, shape);
            let other_stride =
                Layout { strides: plain.strides.iter().map(|stride| stride + 1).collect(), ..plain.clone() };
            let known = [plain, Format::ChannelsLast.layout(Dtype::Float32, shape), other_stride];
            for (layout, format) in known.map(Rc::new).iter().flat_map(|it| formats.map(|format| (it, format))) {
                for dtype in [Dtype::Float32, Dtype::Float16] {
                    let found = format.layout_like(dtype, layout);
                    assert_eq!(*found, format.layout(dtype, shape));
                    assert_eq!(Rc::ptr_eq(&found, layout), *found == **layout);
                }
            }
        }
    }

    #[test]
    fn a_pointwise_kernel_lies_in_both_formats_and_counts_as_row_major() {
        let weight = Layout::contiguous(Dtype::Float32, &[64, 256, 1, 1]);
        assert_eq!(Format::suggested(&weight), Format::Contiguous);
        assert!(Format::ChannelsLast.is_kept_by(&weight) && Format::Contiguous.is_kept_by(&weight));
    }
}
