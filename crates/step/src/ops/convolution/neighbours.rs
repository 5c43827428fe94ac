//! The recorded convolutions nearest to one that was not recorded.

use smallvec::SmallVec;

use super::problem::{Pass, Problem};
use super::table::{self, Entries, Entry, Features, Group, INPUTS, Key, NUMBERS, OUTPUTS};

const WEIGHTS: [u32; NUMBERS] = [1, 1, 4, 4, 1, 1, 1];
const ALIGNMENT: u32 = 2048;
const FLOAT16: u32 = 204;
/// A kernel or stride that was not recorded is this far away for each step.
const OTHER_KERNEL: u32 = 8192;
/// The most that are asked for.
pub(super) const MOST: usize = 5;

/// The nearest entries and how far they are, the nearest first.
pub(super) type Nearest = SmallVec<[(u32, Entry); MOST + 1]>;

/// Where neighbours of a convolution are looked for.
pub(super) struct Neighbourhood {
    features: Features,
    pass: Pass,
    key: Key,
    group: Option<&'static Group>,
}

impl Neighbourhood {
    /// `None` for a type nobody recorded.
    pub fn of(problem: &Problem) -> Option<Neighbourhood> {
        let key = table::key(problem)?;
        Some(Neighbourhood { features: Features::of(problem), pass: problem.pass, key, group: table::group(&key) })
    }

    /// Whether shapes of this type, layout, kernel and stride were recorded.
    pub fn is_known(&self) -> bool {
        self.group.is_some()
    }

    /// The entry that is this very shape.
    pub fn exact(&self) -> Option<Entry> {
        self.group.and_then(|group| group.exact(&self.features))
    }

    /// The nearest of a class, or of any; of other kernels and strides where this one was not recorded.
    pub fn nearest(&self, class: Option<u16>, count: usize) -> Nearest {
        let mut found = Found { features: &self.features, count, nearest: Nearest::new() };
        let entries = |group: &'static Group| match class {
            Some(class) => group.of_class(class, self.pass),
            None => group.all(),
        };
        if let Some(group) = self.group {
            found.search(entries(group), 0);
            return found.nearest;
        }
        let mut others: Vec<(u32, &Group)> = table::groups()
            .iter()
            .filter(|group| group.key[..2] == self.key[..2] && group.key[3] == self.key[3])
            .map(|group| (self.steps_to(&group.key) * OTHER_KERNEL, group))
            .collect();
        others.sort_by_key(|(penalty, _)| *penalty);
        for (penalty, group) in others {
            if penalty >= found.worst() {
                break;
            }
            found.search(entries(group), penalty);
        }
        found.nearest
    }

    fn steps_to(&self, key: &Key) -> u32 {
        (2..key.len()).map(|place| u32::from(key[place].abs_diff(self.key[place]))).sum()
    }
}

/// A search under way.
struct Found<'w> {
    features: &'w Features,
    count: usize,
    nearest: Nearest,
}

impl Found<'_> {
    /// What is as far is not wanted any more.
    fn worst(&self) -> u32 {
        self.nearest.last().filter(|_| self.nearest.len() == self.count).map_or(u32::MAX, |(far, _)| *far)
    }

    /// How far an entry is by one of its numbers alone.
    fn apart(&self, entry: Entry, place: usize) -> u32 {
        entry.number(place).abs_diff(self.features.numbers[place]) * WEIGHTS[place]
    }

    /// From where the input channels are the wanted ones, outwards on both sides for as long as they alone do not make
    /// an entry too far.
    fn search(&mut self, entries: Entries<'_>, penalty: u32) {
        let wanted = self.features.numbers[INPUTS];
        let middle = entries.first(0..entries.len(), |entry| entry.number(INPUTS) < wanted);
        let mut at = middle;
        while at < entries.len() {
            let first = entries.get(at);
            let far = self.apart(first, INPUTS).saturating_add(penalty);
            if far >= self.worst() {
                break;
            }
            let end = entries.first(at..entries.len(), |entry| entry.number(INPUTS) <= first.number(INPUTS));
            self.search_outputs(entries, at..end, far, penalty);
            at = end;
        }
        let mut end = middle;
        while end > 0 {
            let last = entries.get(end - 1);
            let far = self.apart(last, INPUTS).saturating_add(penalty);
            if far >= self.worst() {
                break;
            }
            let start = entries.first(0..end, |entry| entry.number(INPUTS) < last.number(INPUTS));
            self.search_outputs(entries, start..end, far, penalty);
            end = start;
        }
    }

    /// The same by output channels, among entries whose inputs are so far.
    fn search_outputs(&mut self, entries: Entries<'_>, range: std::ops::Range<usize>, far: u32, penalty: u32) {
        let wanted = self.features.numbers[OUTPUTS];
        let middle = entries.first(range.clone(), |entry| entry.number(OUTPUTS) < wanted);
        for index in middle..range.end {
            if !self.consider_near(entries.get(index), far, penalty) {
                break;
            }
        }
        for index in (range.start..middle).rev() {
            if !self.consider_near(entries.get(index), far, penalty) {
                break;
            }
        }
    }

    /// Whether the output channels alone do not make an entry too far, nor those beyond it; if so, it is considered.
    fn consider_near(&mut self, entry: Entry, far: u32, penalty: u32) -> bool {
        let is_near = self.apart(entry, OUTPUTS).saturating_add(far) < self.worst();
        if is_near {
            self.consider(entry, penalty);
        }
        is_near
    }

    /// Puts an entry among the nearest if it is one.
    fn consider(&mut self, entry: Entry, penalty: u32) {
        let worst = self.worst();
        let differing = entry.flags() ^ self.features.flags;
        let by_flags = (differing & 0xf).count_ones() * ALIGNMENT + u32::from(differing >> 4) * FLOAT16;
        let mut far = by_flags.saturating_add(penalty);
        for place in 0..NUMBERS {
            far = far.saturating_add(self.apart(entry, place));
        }
        if far < worst {
            let place = self.nearest.iter().position(|(other, _)| *other > far).unwrap_or(self.nearest.len());
            self.nearest.insert(place, (far, entry));
            self.nearest.truncate(self.count);
        }
    }
}
