//! A convolution as cuDNN sees it.

use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

/// Which tensor a convolution computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvolutionPass {
    /// The result.
    Forward,
    /// The gradient of the image.
    InputGradient,
    /// The gradient of the weight.
    WeightGradient,
}

/// A convolution: the shapes of its three tensors, whichever of them it computes, and its geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvolutionProblem {
    /// Which tensor it computes.
    pub pass: ConvolutionPass,
    /// Element type of all tensors.
    pub dtype: Dtype,
    /// Memory format of all tensors.
    pub format: Format,
    /// Batch, channels, then the sides.
    pub image: Dims,
    /// Batch, channels, then the sides.
    pub result: Dims,
    /// Output channels, input channels of a group, then the sides.
    pub weight: Dims,
    /// For each side.
    pub stride: Dims,
    /// For each side, the same at both ends.
    pub padding: Dims,
    /// For each side.
    pub dilation: Dims,
    /// Groups of channels.
    pub groups: i64,
}

/// How a workspace copies a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// Not at all.
    No,
    /// As it is.
    Plain,
    /// With its channels padded to what tensor cores read at once.
    Padded,
    /// A weight with its input channels padded only.
    InputsPadded,
}

fn up(number: i64, multiple: i64) -> i64 {
    (number + multiple - 1) / multiple * multiple
}

impl ConvolutionProblem {
    /// Whether the sides of the result follow from the other sizes.
    pub(super) fn is_consistent(&self) -> bool {
        let rank = self.stride.len();
        let has_rank = |dims: &Dims, more: usize| dims.len() == rank + more;
        let has_ranks = [&self.image, &self.result, &self.weight].iter().all(|shape| has_rank(shape, 2))
            && has_rank(&self.padding, 0)
            && has_rank(&self.dilation, 0);
        has_ranks
            && (0..rank).all(|dim| {
                let kernel = self.dilation[dim] * (self.weight[2 + dim] - 1) + 1;
                let room = self.image[2 + dim] + 2 * self.padding[dim] - kernel;
                room >= 0 && self.stride[dim] > 0 && room / self.stride[dim] + 1 == self.result[2 + dim]
            })
    }

    /// Sides of the image when it was recorded. PyTorch runs one-dimensional layers as images of height one, but they were recorded with one side.
    pub(super) fn recorded_rank(&self) -> u8 {
        let rank = self.stride.len();
        let is_row = rank == 2 && self.image[2] == 1 && self.weight[2] == 1 && self.image[3] > 1;
        if is_row { 1 } else { rank as u8 }
    }

    /// 0 for one group, 1 for several, 2 if each channel is a group.
    pub(super) fn grouping(&self) -> u8 {
        if self.groups > 1 { 1 + u8::from(self.groups == self.image[1]) } else { 0 }
    }

    /// Channels are padded to a multiple of so many, 16 bytes.
    fn multiple(&self) -> i64 {
        16 / self.dtype.bytes().cast_signed().max(1)
    }

    /// Bytes of a copy of the image.
    pub(super) fn image_copy(&self, copied: Copied) -> i64 {
        let channels = match copied {
            Copied::No => return 0,
            Copied::Plain => self.image[1],
            _ => up(self.weight[1], self.multiple()) * self.groups,
        };
        self.image[0] * channels * self.image[2..].iter().product::<i64>() * self.dtype.bytes().cast_signed()
    }

    /// Bytes of a copy of the result.
    pub(super) fn result_copy(&self, copied: Copied) -> i64 {
        let channels = match copied {
            Copied::No => return 0,
            Copied::Plain => self.result[1],
            _ => up(self.result[1], self.multiple()),
        };
        self.result[0] * channels * self.result[2..].iter().product::<i64>() * self.dtype.bytes().cast_signed()
    }

    /// Elements of a copy of the weight.
    pub(super) fn weight_elements(&self, copied: Copied) -> i64 {
        let (outputs, inputs) = (self.weight[0], self.weight[1]);
        let (outputs, inputs) = match copied {
            Copied::No => return 0,
            Copied::Plain => (outputs, inputs),
            Copied::Padded => (up(outputs, self.multiple()), up(inputs, self.multiple())),
            Copied::InputsPadded => (outputs, up(inputs, self.multiple())),
        };
        outputs * inputs * self.weight[2..].iter().product::<i64>()
    }

    /// Bytes of a copy of what the pass computes: the result, or the gradient of the image.
    pub(super) fn produced_copy(&self, copied: Copied) -> i64 {
        if self.pass == ConvolutionPass::Forward { self.result_copy(copied) } else { self.image_copy(copied) }
    }

    /// Bytes of the partial sums of a depthwise weight's gradient with channels last: eight per image.
    pub(super) fn depthwise_sums(&self) -> i64 {
        8 * self.image[0] * up(self.image[1], 32) * self.weight[2..].iter().product::<i64>() * 4
    }

    /// Bytes of image, result and weight as Winograd tiles: 6 × 6 numbers for every 4 × 4.
    pub(super) fn winograd_tiles(&self) -> i64 {
        let tiles = self.result[0] * self.result[2..].iter().map(|side| up(*side, 4) / 4).product::<i64>();
        let (inputs, outputs) = (self.image[1], self.result[1]);
        36 * 4 * (inputs * tiles + outputs * tiles + inputs * outputs)
    }

    /// Bytes of all three tensors with the channels of a group padded to a power of two, the same for inputs and outputs.
    pub(super) fn grouped_copies(&self) -> i64 {
        let groups = self.groups.max(1);
        let power = |channels: i64| channels.max(1).cast_unsigned().next_power_of_two().cast_signed();
        let padded = power(self.weight[1]).max(power(self.result[1] / groups)).max(4);
        let sides = |dims: &Dims| dims[2..].iter().product::<i64>();
        let rows = self.image[0] * (sides(&self.image) + sides(&self.result));
        self.dtype.bytes().cast_signed() * padded * groups * (rows + sides(&self.weight) * padded)
    }

    /// Bytes of all three tensors.
    pub(super) fn plain_copies(&self) -> i64 {
        self.image_copy(Copied::Plain)
            + self.weight_elements(Copied::Plain) * self.dtype.bytes().cast_signed()
            + self.result_copy(Copied::Plain)
    }

    /// Bytes of padded copies of all three tensors.
    pub fn all_copies(&self) -> i64 {
        self.image_copy(Copied::Padded)
            + self.weight_elements(Copied::Padded) * self.dtype.bytes().cast_signed()
            + self.result_copy(Copied::Padded)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The forward pass of a square single-precision layer at batch 16.
    pub(crate) fn square(channels: [i64; 2], side: i64, kernel: i64, stride: i64, padding: i64) -> ConvolutionProblem {
        let [inputs, outputs] = channels;
        let after = (side + 2 * padding - kernel) / stride + 1;
        ConvolutionProblem {
            pass: ConvolutionPass::Forward,
            dtype: Dtype::Float32,
            format: Format::Contiguous,
            image: Dims::from([16, inputs, side, side]),
            result: Dims::from([16, outputs, after, after]),
            weight: Dims::from([outputs, inputs, kernel, kernel]),
            stride: Dims::from([stride, stride]),
            padding: Dims::from([padding, padding]),
            dilation: Dims::from([1, 1]),
            groups: 1,
        }
    }
}
