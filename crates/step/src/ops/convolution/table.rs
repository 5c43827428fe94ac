//! The table of recorded convolutions, made by `validation/workspace_grid/pack.py`: groups of one type, layout, kernel and stride,
//! and in each the entries in the order of their channels.

use std::cmp::Ordering;
use std::sync::{LazyLock, OnceLock};

use vramfit_graph::dtype::Dtype;

use super::problem::{Copied, Pass, Problem};
use crate::format::Format;

static TABLE: &[u8] = include_bytes!("../../../data/cudnn-convolutions.bin");

const HEADER: usize = 16;
const GROUP: usize = 16;
const ENTRY: usize = 40;
const UNIT: f64 = 1024.0;
/// Copies of three tensors: image 3, weight 4, result 3 ways.
const COPIES: u16 = 36;
/// Classes have numbers below.
const CLASSES: usize = COPIES as usize * 16;

/// How many numbers a shape is compared by.
pub(super) const NUMBERS: usize = 7;
/// Where the input channels stand among them; entries of a group are in their order.
pub(super) const INPUTS: usize = 2;
/// Where the output channels stand; entries with the same inputs are in their order.
pub(super) const OUTPUTS: usize = 3;
/// In which order entries lie that are alike in neither.
const ORDER: [usize; NUMBERS] = [INPUTS, OUTPUTS, 0, 1, 4, 5, 6];

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The eleven numbers that entries of a group share.
pub(super) type Key = [u8; 11];

/// The group a convolution belongs to; `None` for types nobody recorded.
pub(super) fn key(problem: &Problem) -> Option<Key> {
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

/// What shapes of a group are compared by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    /// In doublings, by [`UNIT`].
    pub numbers: [i32; NUMBERS],
    pub flags: u16,
}

impl Features {
    pub fn of(problem: &Problem) -> Features {
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
}

/// One recorded convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry(&'static [u8; ENTRY]);

/// What a workspace of an entry was read as.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub copies: u8,
    pub kind: u8,
    pub rest: u16,
    pub value: u32,
}

impl Entry {
    pub fn number(self, place: usize) -> i32 {
        i32::from(half(self.0, 2 * place))
    }

    pub fn flags(self) -> u16 {
        half(self.0, 2 * NUMBERS)
    }

    pub fn reading(self, pass: Pass) -> Reading {
        let at = 16 + 8 * pass as usize;
        Reading { copies: self.0[at], kind: self.0[at + 1], rest: half(self.0, at + 2), value: word(self.0, at + 4) }
    }

    /// The class of its reading: copies and kind.
    fn class(self, pass: Pass) -> u16 {
        let at = 16 + 8 * pass as usize;
        u16::from(self.0[at]) + COPIES * u16::from(self.0[at + 1])
    }

    /// How it lies to what is looked for.
    fn compare(self, wanted: &Features) -> Ordering {
        let numbers = ORDER.iter().map(|&place| self.number(place).cmp(&wanted.numbers[place]));
        numbers.fold(Ordering::Equal, Ordering::then).then_with(|| self.flags().cmp(&wanted.flags))
    }
}

/// The entries of a group.
#[derive(Debug)]
pub(super) struct Group {
    pub key: Key,
    entries: &'static [[u8; ENTRY]],
    /// By pass, made where somebody asks.
    by_class: [OnceLock<ByClass>; 3],
}

/// A group's entries class by class, those of a class in the group's order.
#[derive(Debug)]
struct ByClass {
    places: Vec<u32>,
    /// Where each class begins among them, and at the end how many there are.
    starts: Vec<u32>,
}

/// Entries in the order of their channels: of a group, or of a class in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'g> {
    all: &'static [[u8; ENTRY]],
    places: Option<&'g [u32]>,
}

impl Group {
    fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn all(&self) -> Entries<'_> {
        Entries { all: self.entries, places: None }
    }

    /// Those that were read as this class in this pass.
    pub fn of_class(&self, class: u16, pass: Pass) -> Entries<'_> {
        let ByClass { places, starts } = self.by_class[pass as usize].get_or_init(|| self.sorted(pass));
        let class = usize::from(class);
        let range = match (starts.get(class), starts.get(class + 1)) {
            (Some(&start), Some(&end)) => start as usize..end as usize,
            _ => 0..0,
        };
        Entries { all: self.entries, places: Some(&places[range]) }
    }

    fn sorted(&self, pass: Pass) -> ByClass {
        let all = self.all();
        let class = |place: usize| usize::from(all.get(place).class(pass)).min(CLASSES - 1);
        let mut starts = vec![0; CLASSES + 1];
        for place in 0..self.len() {
            starts[class(place) + 1] += 1;
        }
        for class in 0..CLASSES {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut places = vec![0; self.len()];
        for place in 0..self.len() {
            let slot = &mut next[class(place)];
            places[*slot as usize] = place as u32;
            *slot += 1;
        }
        ByClass { places, starts }
    }

    /// The entry that is the very shape looked for.
    pub fn exact(&self, wanted: &Features) -> Option<Entry> {
        let all = self.all();
        let at = all.first(0..all.len(), |entry| entry.compare(wanted) == Ordering::Less);
        (at < all.len()).then(|| all.get(at)).filter(|entry| entry.compare(wanted) == Ordering::Equal)
    }
}

impl Entries<'_> {
    pub fn len(self) -> usize {
        self.places.map_or(self.all.len(), <[u32]>::len)
    }

    pub fn get(self, index: usize) -> Entry {
        let place = self.places.map_or(index, |places| places[index] as usize);
        Entry(&self.all[place])
    }

    /// The first of `range` that is not before; those before come first.
    pub fn first(self, range: std::ops::Range<usize>, is_before: impl Fn(Entry) -> bool) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_before(self.get(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// All groups, in the order of their keys.
pub(super) fn groups() -> &'static [Group] {
    static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(read);
    &GROUPS
}

/// The group with this key.
pub(super) fn group(key: &Key) -> Option<&'static Group> {
    let groups = groups();
    groups.binary_search_by(|group| group.key.cmp(key)).ok().map(|place| &groups[place])
}

fn read() -> Vec<Group> {
    let (groups, count) = (word(TABLE, 8) as usize, word(TABLE, 12) as usize);
    let first = |index: usize| if index < groups { word(TABLE, HEADER + index * GROUP + 12) as usize } else { count };
    let (entries, _) = TABLE[HEADER + groups * GROUP..].as_chunks::<ENTRY>();
    let read = |index: usize| {
        let mut key = Key::default();
        let length = key.len();
        key.copy_from_slice(&TABLE[HEADER + index * GROUP..][..length]);
        Group { key, entries: &entries[first(index)..first(index + 1)], by_class: Default::default() }
    };
    (0..groups).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_the_order_of_their_keys_and_entries_in_that_of_their_channels() {
        assert!(groups().is_sorted_by_key(|group| group.key));
        for group in groups() {
            let all = group.all();
            let channels = |index: usize| (all.get(index).number(INPUTS), all.get(index).number(OUTPUTS));
            assert!((0..all.len()).map(channels).is_sorted(), "{:?}", group.key);
        }
    }

    #[test]
    fn every_entry_is_in_one_class_a_pass() {
        for group in groups() {
            for pass in [Pass::Forward, Pass::InputGradient, Pass::WeightGradient] {
                let counts = (0..CLASSES as u16).map(|class| group.of_class(class, pass).len());
                assert_eq!(counts.sum::<usize>(), group.len(), "{:?}", group.key);
            }
        }
    }

    #[test]
    fn an_entry_is_found_by_its_own_features() {
        let all = groups()[0].all();
        for index in 0..all.len() {
            let entry = all.get(index);
            let mut numbers = [0; NUMBERS];
            numbers.iter_mut().enumerate().for_each(|(place, number)| *number = entry.number(place));
            let found = groups()[0].exact(&Features { numbers, flags: entry.flags() });
            assert!(found.is_some_and(|found| found.compare(&Features { numbers, flags: entry.flags() }).is_eq()));
        }
    }
}
