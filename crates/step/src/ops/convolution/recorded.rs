//! Workspaces that cuDNN was seen to take, and what they say about convolutions nobody recorded.
//!
//! The table is made by `validation/workspace_grid/pack.py` from recordings on an H200 with cuDNN 9.19. An entry reads a
//! workspace as copies of tensors in the other layout and something within them, such as partial sums. For a shape that is not
//! in the table, [`classes`] say which of these readings cuDNN chooses, and the nearest entry of that class says how many
//! partial sums there are. `docs/cudnn-workspaces.md` says how often that is right.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::classes;
use super::problem::{Copied, Pass, Problem};
use crate::format::Format;

static TABLE: &[u8] = include_bytes!("../../../data/cudnn-convolutions.bin");

const HEADER: usize = 16;
const GROUP: usize = 16;
const ENTRY: usize = 40;
const UNIT: f64 = 1024.0;
const WEIGHTS: [u32; 7] = [1, 1, 4, 4, 1, 1, 1];
const ALIGNMENT: u32 = 2048;
const FLOAT16: u32 = 204;
/// Kinds of readings, as in `readings.py`. Partial sums of the weight in one of three paddings are below, those of what a pass
/// makes above.
const BY_IMAGE: u8 = 4;
const DEPTHWISE: u8 = 7;
const WINOGRAD: u8 = 8;
/// Where the input channels stand among the features; entries of a group are in their order.
const INPUTS: usize = 2;
/// A kernel or stride that was not recorded is this far away for each step.
const OTHER_KERNEL: u32 = 8192;

/// How many neighbours are asked, whatever their class.
const NEIGHBOURS: usize = 5;
/// How many of each class that a tree named.
const OF_A_CLASS: usize = 3;

/// What is known of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The likeliest.
    pub expected: u64,
    /// The least that similar convolutions took.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Spread {
    /// What was recorded.
    pub fn exactly(bytes: u64) -> Spread {
        Spread { expected: bytes, least: bytes, most: bytes }
    }

    /// Whether this very shape was recorded, or all neighbours say the same.
    pub fn is_certain(&self) -> bool {
        self.least == self.most
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The eleven numbers that entries of a group share.
type Key = [u8; 11];

fn key(problem: &Problem) -> Option<Key> {
    let precision = match problem.dtype {
        Dtype::Float32 => 0,
        Dtype::Bfloat16 | Dtype::Float16 => 1,
        _ => return None,
    };
    let rank = problem.stride.len();
    let is_last = u8::from(problem.format == Format::ChannelsLast);
    let mut key = [precision, is_last, problem.rank_seen(), problem.grouping(), 1, 1, 1, 1, 1, 1, 0];
    let small = |number: i64| u8::try_from(number).unwrap_or(u8::MAX);
    for dim in 0..rank {
        key[4 + 3 - rank + dim] = small(problem.weight[2 + dim]);
        key[7 + 3 - rank + dim] = small(problem.stride[dim]);
    }
    key[10] = u8::from(problem.dilation.iter().any(|&dilation| dilation > 1));
    Some(key)
}

struct Features {
    numbers: [i32; 7],
    flags: u16,
}

fn features(problem: &Problem) -> Features {
    let (inputs, outputs) = (problem.image[1], problem.result[1]);
    let numbers = [
        problem.image[0],
        problem.image[2..].iter().product(),
        inputs,
        outputs,
        problem.result[0] * problem.result[2..].iter().product::<i64>(),
        problem.weight_elements(Copied::Plain),
        problem.groups,
    ]
    .map(|number: i64| ((number.max(1) as f64).log2() * UNIT).round() as i32);
    let flag = |bit: u16, is_set: bool| u16::from(is_set) << bit;
    let flags = flag(0, inputs % 8 != 0)
        | flag(1, outputs % 8 != 0)
        | flag(2, inputs % 4 != 0)
        | flag(3, outputs % 4 != 0)
        | flag(4, problem.dtype == Dtype::Float16);
    Features { numbers, flags }
}

fn distance(entry: &[u8], wanted: &Features) -> u32 {
    let mut far = 0;
    for (place, weight) in WEIGHTS.iter().enumerate() {
        let number = i32::from(half(entry, 2 * place));
        far += number.abs_diff(wanted.numbers[place]) * weight;
    }
    let differing = half(entry, 14) ^ wanted.flags;
    far + (differing & 0xf).count_ones() * ALIGNMENT + u32::from(differing >> 4) * FLOAT16
}

/// A group's key and its entries' bytes.
fn group(index: usize) -> (&'static [u8], &'static [u8]) {
    let groups = word(TABLE, 8) as usize;
    let count = word(TABLE, 12) as usize;
    let at = HEADER + index * GROUP;
    let first = word(TABLE, at + 12) as usize;
    let end = if index + 1 < groups { word(TABLE, at + GROUP + 12) as usize } else { count };
    let entries = HEADER + groups * GROUP;
    (&TABLE[at..at + 11], &TABLE[entries + first * ENTRY..entries + end * ENTRY])
}

/// The nearest entries and how far they are, the nearest first.
type Nearest = SmallVec<[(u32, &'static [u8]); NEIGHBOURS + 1]>;

/// What is looked for.
struct Wanted {
    features: Features,
    pass: Pass,
    /// Of entries, where it matters.
    class: Option<u16>,
    count: usize,
}

impl Wanted {
    /// Searches a group from where its input channels are the wanted ones, outwards on both sides for as long as the
    /// channels alone do not make an entry too far.
    fn search(&self, nearest: &mut Nearest, entries: &'static [u8], penalty: u32) {
        let count = entries.len() / ENTRY;
        let inputs = |index: usize| i32::from(half(entries, index * ENTRY + 2 * INPUTS));
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if inputs(middle) < self.features.numbers[INPUTS] { low = middle + 1 } else { high = middle }
        }
        for index in low..count {
            if !self.consider(nearest, &entries[index * ENTRY..(index + 1) * ENTRY], penalty) {
                break;
            }
        }
        for index in (0..low).rev() {
            if !self.consider(nearest, &entries[index * ENTRY..(index + 1) * ENTRY], penalty) {
                break;
            }
        }
    }

    /// Puts an entry among the nearest if it is one; whether those with other channels may be as well.
    fn consider(&self, nearest: &mut Nearest, entry: &'static [u8], penalty: u32) -> bool {
        let worst = nearest.last().filter(|_| nearest.len() == self.count).map_or(u32::MAX, |(far, _)| *far);
        let channels = i32::from(half(entry, 2 * INPUTS)).abs_diff(self.features.numbers[INPUTS]) * WEIGHTS[INPUTS];
        if channels.saturating_add(penalty) >= worst {
            return false;
        }
        if self.class.is_some_and(|class| class_of(entry, self.pass) != class) {
            return true;
        }
        let far = distance(entry, &self.features).saturating_add(penalty);
        if far < worst {
            let place = nearest.iter().position(|(other, _)| *other > far).unwrap_or(nearest.len());
            nearest.insert(place, (far, entry));
            nearest.truncate(self.count);
        }
        true
    }
}

/// Where an entry's reading for a pass begins.
fn reading(pass: Pass) -> usize {
    16 + 8 * pass as usize
}

/// The class of an entry's reading: copies and kind.
fn class_of(entry: &[u8], pass: Pass) -> u16 {
    let at = reading(pass);
    u16::from(entry[at]) + 36 * u16::from(entry[at + 1])
}

/// What an entry says of a problem.
fn applied(entry: &[u8], problem: &Problem) -> u64 {
    let at = reading(problem.pass);
    let (copies, kind) = (entry[at], entry[at + 1]);
    let (rest, value) = (i64::from(half(entry, at + 2)), i64::from(word(entry, at + 4)));
    let copied = |number: u8| match number {
        0 => Copied::No,
        1 => Copied::Plain,
        2 => Copied::Padded,
        _ => Copied::InputsPadded,
    };
    let size = problem.dtype.bytes().cast_signed();
    let copies = problem.image_copy(copied(copies % 3))
        + problem.weight_elements(copied(copies / 3 % 4)) * size
        + problem.result_copy(copied(copies / 12));
    let bytes = match kind {
        BY_IMAGE => problem.image[0] * problem.weight_elements(Copied::Plain) * 4,
        DEPTHWISE => problem.depthwise_sums(),
        WINOGRAD => problem.winograd_tiles(),
        1..BY_IMAGE => copies + value * problem.weight_elements(copied(kind)) * 4 + rest,
        5..DEPTHWISE => copies + value * problem.produced_copy(copied(kind - BY_IMAGE)) / size * 4 + rest,
        _ => copies + value,
    };
    bytes.unsigned_abs()
}

/// What is made of what the neighbours say, the nearest first.
fn likeliest(said: &[u64], tensors: u64) -> u64 {
    let votes = |bytes: u64| said.iter().filter(|other| **other == bytes).count();
    let mut first = said[0];
    for &bytes in said {
        if votes(bytes) > votes(first) {
            first = bytes;
        }
    }
    let mut sorted: SmallVec<[u64; 16]> = said.into();
    sorted.sort_unstable();
    let middle = sorted[sorted.len() / 2];
    if first.abs_diff(middle) > tensors / 4 { middle } else { first }
}

/// The nearest entries of a class, or of any, and whether shapes of this type, layout, kernel and stride were recorded.
fn nearest(problem: &Problem, class: Option<u16>, count: usize) -> Option<(Nearest, bool)> {
    let wanted_key = key(problem)?;
    let wanted = Wanted { features: features(problem), pass: problem.pass, class, count };
    let mut nearest = Nearest::new();
    let groups = word(TABLE, 8) as usize;
    let known = (0..groups).map(group).find(|(group_key, _)| *group_key == wanted_key);
    if let Some((_, entries)) = known {
        wanted.search(&mut nearest, entries, 0);
    } else {
        for (group_key, entries) in (0..groups).map(group) {
            if group_key[..2] == wanted_key[..2] && group_key[3] == wanted_key[3] {
                let steps: u32 = (2..11).map(|place| u32::from(group_key[place].abs_diff(wanted_key[place]))).sum();
                wanted.search(&mut nearest, entries, steps * OTHER_KERNEL);
            }
        }
    }
    Some((nearest, known.is_some()))
}

/// The workspace of a convolution.
pub fn workspace(problem: &Problem) -> Spread {
    let everything = problem.all_copies().unsigned_abs();
    let Some((near, is_known)) = nearest(problem, None, NEIGHBOURS) else {
        return Spread { expected: 0, least: 0, most: everything };
    };
    let Some(&(far, first)) = near.first() else {
        return Spread { expected: everything, least: 0, most: everything };
    };
    if far == 0 {
        return Spread::exactly(applied(first, problem));
    }
    let mut said: SmallVec<[u64; 16]> = near.iter().map(|(_, entry)| applied(entry, problem)).collect();
    let mut expected = None;
    for class in classes::votes(problem) {
        let Some((of_class, _)) = nearest(problem, Some(class), OF_A_CLASS) else { continue };
        let bytes = of_class.iter().map(|(_, entry)| applied(entry, problem));
        expected = expected.or_else(|| bytes.clone().next());
        said.extend(bytes);
    }
    let expected = expected.unwrap_or_else(|| likeliest(&said, problem.plain_copies().unsigned_abs()));
    let (least, most) =
        said.iter().fold((expected, expected), |(least, most), &found| (least.min(found), most.max(found)));
    if is_known { Spread { expected, least, most } } else { Spread { expected, least: 0, most: most.max(everything) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::convolution::problem::Pass;
    use crate::tensor::Dims;

    fn problem(pass: Pass, dtype: Dtype, format: Format) -> Problem {
        Problem {
            pass,
            dtype,
            format,
            image: Dims::from([16, 64, 56, 56]),
            result: Dims::from([16, 64, 56, 56]),
            weight: Dims::from([64, 64, 3, 3]),
            stride: Dims::from([1, 1]),
            dilation: Dims::from([1, 1]),
            groups: 1,
        }
    }

    #[test]
    fn a_recorded_convolution_has_the_recorded_workspace() {
        for (pass, dtype, format, bytes) in RECORDED {
            assert_eq!(
                workspace(&problem(pass, dtype, format)),
                Spread::exactly(bytes),
                "{pass:?} {dtype:?} {format:?}"
            );
        }
    }

    #[test]
    fn one_that_was_not_recorded_is_guessed_within_what_its_neighbours_took() {
        let seen = problem(Pass::Forward, Dtype::Bfloat16, Format::Contiguous);
        let unseen = Problem { image: Dims::from([19, 64, 57, 55]), result: Dims::from([19, 64, 57, 55]), ..seen };
        let guess = workspace(&unseen);
        assert!(guess.least <= guess.expected && guess.expected <= guess.most);
        // Half precision in the first layout is copied whole: image, weight, result.
        assert!(guess.expected >= unseen.plain_copies().unsigned_abs(), "{guess:?}");
    }

    #[test]
    fn a_type_nobody_recorded_is_between_nothing_and_copies_of_everything() {
        let problem = problem(Pass::Forward, Dtype::Float64, Format::Contiguous);
        let guess = workspace(&problem);
        assert!(guess.least == 0 && guess.most == problem.all_copies().unsigned_abs() && !guess.is_certain());
    }

    const RECORDED: [(Pass, Dtype, Format, u64); 4] = [
        (Pass::Forward, Dtype::Float32, Format::Contiguous, 12_992_528),
        (Pass::WeightGradient, Dtype::Float32, Format::Contiguous, 27_902_631),
        (Pass::InputGradient, Dtype::Bfloat16, Format::Contiguous, 12_918_800),
        (Pass::WeightGradient, Dtype::Bfloat16, Format::ChannelsLast, 1_917_591),
    ];
}
