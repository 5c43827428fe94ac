//! A convolution as cuDNN sees it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use vramfit_graph::dtype::Dtype;

use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;

/// Which of the three convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pass {
    /// The result.
    Forward,
    /// The image's gradient.
    InputGradient,
    /// The weight's gradient.
    WeightGradient,
}

/// A convolution: its tensors' shapes, whichever of them are given and whichever are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is found.
    pub pass: Pass,
    /// Of all tensors.
    pub dtype: Dtype,
    /// Of all tensors.
    pub format: Format,
    /// Batch, channels, height, width.
    pub image: Dims,
    /// Batch, channels, height, width.
    pub result: Dims,
    /// Outputs, inputs of a group, height, width.
    pub weight: Dims,
    /// By dimension of the image.
    pub stride: Dims,
    /// By dimension of the image.
    pub dilation: Dims,
    /// Groups of channels.
    pub groups: i64,
}

/// What differs between the convolutions of a model; the rest is compared.
impl Hash for Problem {
    fn hash<State: Hasher>(&self, state: &mut State) {
        state.write_u64(self.pass as u64);
        for &size in self.image.iter().chain(&self.weight) {
            state.write_i64(size);
        }
    }
}

/// Something for each of many convolutions.
pub type ProblemMap<T> = HashMap<Problem, T, BuildHasherDefault<Mixer>>;

/// A quick hash: shapes come from a model, not from an adversary.
#[derive(Debug, Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// How a tensor is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
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

impl Problem {
    /// Dimensions of the image as it was recorded: rows are recorded as such, though they become images of height one.
    pub fn rank_seen(&self) -> u8 {
        let rank = self.stride.len();
        let is_row = rank == 2 && self.image[2] == 1 && self.weight[2] == 1 && self.image[3] > 1;
        if is_row { 1 } else { rank as u8 }
    }

    /// 0 for one group, 1 for some, 2 where each channel is a group.
    pub fn grouping(&self) -> u8 {
        if self.groups > 1 { 1 + u8::from(self.groups == self.image[1]) } else { 0 }
    }

    /// Channels are padded to 16 bytes.
    fn multiple(&self) -> i64 {
        16 / self.dtype.bytes().cast_signed().max(1)
    }

    /// Bytes of a copy of the image.
    pub fn image_copy(&self, copied: Copied) -> i64 {
        let channels = match copied {
            Copied::No => return 0,
            Copied::Plain => self.image[1],
            _ => up(self.weight[1], self.multiple()) * self.groups,
        };
        self.image[0] * channels * self.image[2..].iter().product::<i64>() * self.dtype.bytes().cast_signed()
    }

    /// Bytes of a copy of the result.
    pub fn result_copy(&self, copied: Copied) -> i64 {
        let channels = match copied {
            Copied::No => return 0,
            Copied::Plain => self.result[1],
            _ => up(self.result[1], self.multiple()),
        };
        self.result[0] * channels * self.result[2..].iter().product::<i64>() * self.dtype.bytes().cast_signed()
    }

    /// Elements of a copy of the weight.
    pub fn weight_elements(&self, copied: Copied) -> i64 {
        let (outputs, inputs) = (self.weight[0], self.weight[1]);
        let (outputs, inputs) = match copied {
            Copied::No => return 0,
            Copied::Plain => (outputs, inputs),
            Copied::Padded => (up(outputs, self.multiple()), up(inputs, self.multiple())),
            Copied::InputsPadded => (outputs, up(inputs, self.multiple())),
        };
        outputs * inputs * self.weight[2..].iter().product::<i64>()
    }

    /// Bytes of a copy of what the pass makes: the result, or the image's gradient.
    pub fn produced_copy(&self, copied: Copied) -> i64 {
        if self.pass == Pass::Forward { self.result_copy(copied) } else { self.image_copy(copied) }
    }

    /// Bytes of the partial sums of a depthwise weight's gradient, channels last: eight an image.
    pub fn depthwise_sums(&self) -> i64 {
        8 * self.image[0] * up(self.image[1], 32) * self.weight[2..].iter().product::<i64>() * 4
    }

    /// Bytes of image, result and weight as Winograd's tiles, six by six numbers for four by four.
    pub fn winograd_tiles(&self) -> i64 {
        let tiles = self.result[0] * self.result[2..].iter().map(|side| up(*side, 4) / 4).product::<i64>();
        let (inputs, outputs) = (self.image[1], self.result[1]);
        36 * 4 * (inputs * tiles + outputs * tiles + inputs * outputs)
    }

    /// Bytes of all three tensors with the channels of a group padded to a power of two, the same for inputs and outputs.
    pub fn grouped_copies(&self) -> i64 {
        let groups = self.groups.max(1);
        let power = |channels: i64| channels.max(1).cast_unsigned().next_power_of_two().cast_signed();
        let padded = power(self.weight[1]).max(power(self.result[1] / groups)).max(4);
        let sides = |dims: &Dims| dims[2..].iter().product::<i64>();
        let rows = self.image[0] * (sides(&self.image) + sides(&self.result));
        self.dtype.bytes().cast_signed() * padded * groups * (rows + sides(&self.weight) * padded)
    }

    /// Bytes of all three tensors.
    pub fn plain_copies(&self) -> i64 {
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
