//! Workspaces that cuDNN was seen to take, and what they say about convolutions nobody recorded.
//!
//! The [`table`](super::table) is made by `validation/workspace_grid/pack.py` from recordings on an H200 with cuDNN 9.19. An entry reads a
//! workspace as copies of tensors in the other layout and something within them, such as partial sums. For a shape that is not
//! in the table, [`classes`] say which of these readings cuDNN chooses, and the nearest entry of that class says how many
//! partial sums there are. `docs/cudnn-workspaces.md` says how often that is right.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::classes;
use super::neighbours::{self, Neighbourhood};
use super::problem::{Copied, Problem, ProblemMap};
use super::table::{Entry, Reading};

/// Kinds of readings, as in `readings.py`. Partial sums of the weight in one of three paddings are below, those of what a pass
/// makes above.
const BY_IMAGE: u8 = 4;
const DEPTHWISE: u8 = 7;
const WINOGRAD: u8 = 8;
const SINGLE: u8 = 12;

/// How many neighbours are asked, whatever their class.
const NEIGHBOURS: usize = neighbours::MOST;
/// How many of each class that a tree named.
const OF_A_CLASS: usize = 3;
/// How many answers a thread remembers.
const REMEMBERED: usize = 1 << 13;

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

/// What an entry says of a problem.
fn applied(entry: Entry, problem: &Problem) -> u64 {
    let Reading { copies, kind, rest, value } = entry.reading(problem.pass);
    let (rest, value) = (i64::from(rest), i64::from(value));
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
        SINGLE => problem.plain_copies() / size * 4 + value,
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

/// The workspace of a convolution. It depends on the shape alone, so a thread looks each shape up once.
pub fn workspace(problem: &Problem) -> Spread {
    thread_local! {
        static KNOWN: RefCell<ProblemMap<Spread>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(spread) = known.get(problem) {
            return *spread;
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let spread = found(problem);
        known.insert(problem.clone(), spread);
        spread
    })
}

fn found(problem: &Problem) -> Spread {
    let everything = problem.all_copies().unsigned_abs();
    let Some(neighbourhood) = Neighbourhood::of(problem) else {
        return Spread { expected: 0, least: 0, most: everything };
    };
    if let Some(entry) = neighbourhood.exact() {
        return Spread::exactly(applied(entry, problem));
    }
    let near = neighbourhood.nearest(None, NEIGHBOURS);
    if near.is_empty() {
        return Spread { expected: everything, least: 0, most: everything };
    }
    let mut said: SmallVec<[u64; 24]> = near.iter().map(|(_, entry)| applied(*entry, problem)).collect();
    let mut expected = None;
    for class in classes::votes(problem) {
        let of_class = neighbourhood.nearest(Some(class), OF_A_CLASS);
        let bytes = of_class.iter().map(|(_, entry)| applied(*entry, problem));
        expected = expected.or_else(|| bytes.clone().next());
        said.extend(bytes);
    }
    let expected = expected.unwrap_or_else(|| likeliest(&said, problem.plain_copies().unsigned_abs()));
    let (least, most) =
        said.iter().fold((expected, expected), |(least, most), &found| (least.min(found), most.max(found)));
    if neighbourhood.is_known() {
        Spread { expected, least, most }
    } else {
        Spread { expected, least: 0, most: most.max(everything) }
    }
}

#[cfg(test)]
mod tests {
    use vramfit_graph::dtype::Dtype;

    use super::*;
    use crate::format::Format;
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
