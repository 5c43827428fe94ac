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
    /// Whether the layer is a product of matrices, so that cuDNN may leave it to cuBLASLt.
    pub(super) fn is_pointwise(&self) -> bool {
        let ones = self.weight[2..].iter().chain(&self.stride).chain([&self.groups]);
        ones.into_iter().all(|&size| size == 1) && self.padding.iter().all(|&padding| padding == 0)
    }

    /// Whether a pointwise layer is one product for the whole batch. Otherwise it is one for each image.
    pub(super) fn is_one_product(&self) -> bool {
        let is_pixel = self.result[2..].iter().all(|&side| side == 1);
        self.format == Format::ChannelsLast || is_pixel || self.image[0] == 1
    }

    /// Whether each channel of a layer is a group of its own.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.groups == self.image[1]
    }

    /// Bytes of the workspace where cuBLASLt computes a pointwise layer. With channels first it computes the weight gradient of each image in
    /// single precision, and these are summed.
    pub(super) fn product_of_matrices(&self) -> i64 {
        match (self.pass, self.format) {
            (ConvolutionPass::WeightGradient, Format::Contiguous) => {
                4 * self.image[0] * self.weight.iter().product::<i64>()
            }
            _ => 0,
        }
    }

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

    /// Bytes of the largest workspace that any form has for this layer, where the form follows from its sizes alone: copies of all
    /// tensors, in single precision or with padded groups, Winograd's tiles, and the partial sums of a weight's gradient.
    pub(super) fn largest_form(&self) -> i64 {
        let size = self.dtype.bytes().cast_signed().max(1);
        let copies = self.all_copies().max(self.all_copies() / size * 4).max(self.grouped_copies());
        let tiles = if self.is_pointwise() { 0 } else { self.winograd_tiles() };
        let sums = match self.pass {
            ConvolutionPass::WeightGradient => {
                (4 * self.image[0] * self.weight_elements(Copied::Padded)).max(self.depthwise_sums())
            }
            _ => 0,
        };
        copies.max(tiles).max(sums)
    }

    /// Whether so many bytes are those of copies of some of the tensors, or of none, with at most `beside` more.
    pub(super) fn has_copies_of(&self, bytes: i64, beside: i64) -> bool {
        let size = self.dtype.bytes().cast_signed();
        let is_left = |rest: i64| (0..=beside).contains(&rest);
        let images = [Copied::No, Copied::Plain, Copied::Padded].map(|copied| self.image_copy(copied));
        let results = [Copied::No, Copied::Plain, Copied::Padded].map(|copied| self.result_copy(copied));
        let weights = [Copied::No, Copied::Plain, Copied::Padded, Copied::InputsPadded];
        let weights = weights.map(|copied| self.weight_elements(copied) * size);
        is_left(bytes - self.grouped_copies())
            || images.iter().any(|image| {
                results.iter().any(|result| weights.iter().any(|weight| is_left(bytes - image - result - weight)))
            })
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

    /// A forward pass, described by type, layout, batch, input and output channels, groups, then sides, kernel, stride, padding and dilation.
    /// Layers with one side are images of height one, as PyTorch runs them.
    pub(crate) fn described(text: &str) -> ConvolutionProblem {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |index: usize| words[index].parse::<i64>().unwrap();
        let sides = |index: usize, fill: i64| {
            let sides: Vec<i64> = words[index].split('x').map(|side| side.parse().unwrap()).collect();
            if sides.len() == 1 { vec![fill, sides[0]] } else { sides }
        };
        let (batch, inputs, outputs, groups) = (number(2), number(3), number(4), number(5));
        let (image, kernel, stride, padding, dilation) =
            (sides(6, 1), sides(7, 1), sides(8, 1), sides(9, 0), sides(10, 1));
        let after =
            |dim: usize| (image[dim] + 2 * padding[dim] - dilation[dim] * (kernel[dim] - 1) - 1) / stride[dim] + 1;
        let shape = |first: [i64; 2], sides: &[i64]| first.into_iter().chain(sides.iter().copied()).collect::<Dims>();
        ConvolutionProblem {
            pass: ConvolutionPass::Forward,
            dtype: match words[0] {
                "fp32" => Dtype::Float32,
                "bf16" => Dtype::Bfloat16,
                _ => Dtype::Float16,
            },
            format: if words[1] == "last" { Format::ChannelsLast } else { Format::Contiguous },
            image: shape([batch, inputs], &image),
            result: shape([batch, outputs], &(0..image.len()).map(after).collect::<Vec<i64>>()),
            weight: shape([outputs, inputs / groups], &kernel),
            stride: stride.into(),
            padding: padding.into(),
            dilation: dilation.into(),
            groups,
        }
    }

    /// Layers that differ from one another in every respect that sizes depend on.
    pub(crate) const LAYERS: [&str; 7] = [
        "fp32 first 5 96 40 1 13x9 5x3 2x1 2x1 1x1",
        "bf16 last 33 48 48 48 28x28 3x3 1x1 1x1 1x1",
        "fp16 first 7 24 36 4 10x12x14 3x3x3 1x2x2 1x1x1 1x1x1",
        "fp32 first 64 6 130 1 3000 10 5 0 1",
        "bf16 first 700 640 12 1 57x57 1x1 1x1 0x0 1x1",
        "fp16 last 1 3 1000 1 31x33 7x7 3x3 3x3 2x2",
        "fp32 last 2 32 64 2 8x8 4x4 4x4 0x0 1x1",
    ];

    #[test]
    fn copies_are_as_large_as_the_scripts_that_grew_the_trees_say() {
        for (text, [image, padded_image, weight, padded_weight, inputs_padded, result, padded_result], grouping) in
            COPIES
        {
            let problem = described(text);
            let size = problem.dtype.bytes().cast_signed();
            let images = [Copied::No, Copied::Plain, Copied::Padded].map(|copied| problem.image_copy(copied));
            assert_eq!(images, [0, image, padded_image], "{text}");
            let weights = [Copied::No, Copied::Plain, Copied::Padded, Copied::InputsPadded];
            let weights = weights.map(|copied| problem.weight_elements(copied));
            assert_eq!(weights, [0, weight, padded_weight, inputs_padded], "{text}");
            let results = [Copied::No, Copied::Plain, Copied::Padded].map(|copied| problem.result_copy(copied));
            assert_eq!(results, [0, result, padded_result], "{text}");
            assert_eq!(problem.plain_copies(), image + weight * size + result, "{text}");
            assert_eq!(problem.all_copies(), padded_image + padded_weight * size + padded_result, "{text}");
            assert_eq!(problem.grouping(), grouping, "{text}");
        }
    }

    #[test]
    fn rows_were_recorded_with_one_side_and_images_of_one_pixel_with_two() {
        let rank = |text: &str| described(text).recorded_rank();
        assert_eq!(LAYERS.map(rank), [2, 2, 3, 1, 2, 2, 2]);
        assert_eq!(rank("fp32 first 1 8 8 1 1x1 1x1 1x1 0x0 1x1"), 2);
        assert_eq!(rank("fp32 first 1 8 8 1 1x2 1x1 1x1 0x0 1x1"), 1);
        assert_eq!(rank("fp32 first 1 8 8 1 1x8 3x1 1x1 1x0 1x1"), 2);
        assert_eq!(rank("fp32 first 1 8 8 1 1x1x8 1x1x1 1x1x1 0x0x0 1x1x1"), 3);
    }

    #[test]
    fn sizes_are_consistent_only_if_the_result_follows_from_the_rest() {
        for text in LAYERS {
            let problem = described(text);
            assert!(problem.is_consistent(), "{text}");
            for dim in 2..problem.result.len() {
                for more in [-1, 1] {
                    let mut other = problem.clone();
                    other.result[dim] += more;
                    assert!(!other.is_consistent(), "{text}");
                }
            }
            let padding = Dims::filled(0, problem.padding.len() + 1);
            assert!(!ConvolutionProblem { padding, ..problem.clone() }.is_consistent());
            let dilation = Dims::filled(1, problem.dilation.len() + 1);
            assert!(!ConvolutionProblem { dilation, ..problem.clone() }.is_consistent());
            let stride = Dims::filled(0, problem.stride.len());
            assert!(!ConvolutionProblem { stride, ..problem.clone() }.is_consistent());
            let mut shorter = problem.clone();
            shorter.image = problem.image[..problem.image.len() - 1].into();
            assert!(!shorter.is_consistent());
        }
        // A kernel that covers the image exactly, and one that does not fit.
        assert!(square([4, 4], 3, 3, 1, 0).is_consistent());
        let too_wide = ConvolutionProblem { result: Dims::from([16, 4, 1, 1]), ..square([4, 4], 3, 4, 5, 0) };
        assert!(!too_wide.is_consistent());
    }

    /// Bytes of the image, the padded image; elements of the weight, padded, with padded inputs; bytes of the result, padded; grouping.
    /// From `shapes.py`.
    const COPIES: [(&str, [i64; 7], u8); 7] = [
        ("fp32 first 5 96 40 1 13x9 5x3 2x1 2x1 1x1", [224_640, 224_640, 57_600, 57_600, 57_600, 50_400, 50_400], 0),
        (
            "bf16 last 33 48 48 48 28x28 3x3 1x1 1x1 1x1",
            [2_483_712, 19_869_696, 432, 3_456, 3_456, 2_483_712, 2_483_712],
            2,
        ),
        (
            "fp16 first 7 24 36 4 10x12x14 3x3x3 1x2x2 1x1x1 1x1x1",
            [564_480, 752_640, 5_832, 8_640, 7_776, 211_680, 235_200],
            1,
        ),
        (
            "fp32 first 64 6 130 1 3000 10 5 0 1",
            [4_608_000, 6_144_000, 7_800, 10_560, 10_400, 19_934_720, 20_241_408],
            0,
        ),
        (
            "bf16 first 700 640 12 1 57x57 1x1 1x1 0x0 1x1",
            [2_911_104_000, 2_911_104_000, 7_680, 10_240, 7_680, 54_583_200, 72_777_600],
            0,
        ),
        ("fp16 last 1 3 1000 1 31x33 7x7 3x3 3x3 2x2", [6_138, 16_368, 147_000, 392_000, 392_000, 162_000, 162_000], 0),
        ("fp32 last 2 32 64 2 8x8 4x4 4x4 0x0 1x1", [16_384, 16_384, 16_384, 16_384, 16_384, 2_048, 2_048], 1),
    ];
}
