//! Workspaces that cuDNN was seen to take, and what they say about convolutions nobody recorded.
//!
//! The table is made by `validation/workspace_grid/pack.py` from recordings on an H200 with cuDNN 9.19. An entry reads a
//! workspace as copies of tensors in the other layout plus partial sums or a few bytes; for a shape that is not in the table,
//! the nearest entries are applied to its sizes. `docs/cudnn-workspaces.md` says how often that is right.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::problem::{Copied, Problem};
use crate::format::Format;

static TABLE: &[u8] = include_bytes!("../../../data/cudnn-convolutions.bin");

const HEADER: usize = 16;
const GROUP: usize = 16;
const ENTRY: usize = 40;
const UNIT: f64 = 1024.0;
const WEIGHTS: [u32; 7] = [1, 1, 2, 2, 1, 1, 1];
const ALIGNMENT: u32 = 2048;
const FLOAT16: u32 = 204;
/// A kernel or stride that was not recorded is this far away for each step.
const OTHER_KERNEL: u32 = 8192;

/// How many neighbours are asked.
const NEIGHBOURS: usize = 4;

/// What is known of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The likeliest.
    pub expected: u64,
    /// The least that similar convolutions took.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl Guess {
    /// What was recorded.
    pub fn exactly(bytes: u64) -> Guess {
        Guess { expected: bytes, least: bytes, most: bytes }
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
    let channels = problem.image[1];
    let grouping = if problem.groups > 1 { 1 + u8::from(problem.groups == channels) } else { 0 };
    let rank = problem.stride.len();
    // Rows were recorded as images of height one, which is what they become.
    let is_row = rank == 2 && problem.image[2] == 1 && problem.weight[2] == 1 && problem.image[3] > 1;
    let rank_seen = if is_row { 1 } else { rank as u8 };
    let mut key =
        [precision, u8::from(problem.format == Format::ChannelsLast), rank_seen, grouping, 1, 1, 1, 1, 1, 1, 0];
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

fn search(nearest: &mut Nearest, entries: &'static [u8], wanted: &Features, penalty: u32) {
    for entry in entries.chunks_exact(ENTRY) {
        let far = distance(entry, wanted).saturating_add(penalty);
        if nearest.len() == NEIGHBOURS && nearest.last().is_some_and(|(last, _)| *last <= far) {
            continue;
        }
        let place = nearest.iter().position(|(other, _)| *other > far).unwrap_or(nearest.len());
        nearest.insert(place, (far, entry));
        nearest.truncate(NEIGHBOURS);
    }
}

/// What an entry says of a problem.
fn applied(entry: &[u8], problem: &Problem) -> u64 {
    let at = 16 + 8 * problem.pass as usize;
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
    let inner = if kind == 0 { value } else { value * problem.weight_elements(copied(kind)) * 4 + rest };
    (copies + inner).unsigned_abs()
}

/// The workspace of a convolution.
pub fn workspace(problem: &Problem) -> Guess {
    let everything = problem.all_copies().unsigned_abs();
    let Some(wanted_key) = key(problem) else {
        return Guess { expected: 0, least: 0, most: everything };
    };
    let wanted = features(problem);
    let mut nearest = Nearest::new();
    let mut is_known = false;
    let groups = word(TABLE, 8) as usize;
    for index in 0..groups {
        let (group_key, entries) = group(index);
        if group_key == wanted_key {
            search(&mut nearest, entries, &wanted, 0);
            is_known = true;
        }
    }
    if !is_known {
        for index in 0..groups {
            let (group_key, entries) = group(index);
            if group_key[..2] == wanted_key[..2] && group_key[3] == wanted_key[3] {
                let steps: u32 = (2..11).map(|place| u32::from(group_key[place].abs_diff(wanted_key[place]))).sum();
                search(&mut nearest, entries, &wanted, steps * OTHER_KERNEL);
            }
        }
    }
    let Some(&(far, first)) = nearest.first() else {
        return Guess { expected: everything, least: 0, most: everything };
    };
    let expected = applied(first, problem);
    if far == 0 {
        return Guess::exactly(expected);
    }
    let others = nearest.iter().map(|(_, entry)| applied(entry, problem));
    let (least, most) = others.fold((expected, expected), |(least, most), found| (least.min(found), most.max(found)));
    if is_known { Guess { expected, least, most } } else { Guess { expected, least: 0, most: most.max(everything) } }
}
