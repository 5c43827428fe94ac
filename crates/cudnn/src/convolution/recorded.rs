//! The workspace that cuDNN takes for a convolution.
//!
//! [`series`] has what cuDNN 9.19's heuristic answered for an H200, of 34,186 layers, most of common models, at every batch up to 512 or 1,024. For others, [`trees`] were
//! grown by `validation/workspace_grid/pack.py` from its answers about 1,129,455 shapes. Each names a [`Reading`](super::form::Reading): copies of tensors in the other layout and something within them, such as partial sums.
//! `docs/cudnn-workspaces.md` says how often that is right.

use std::cell::RefCell;

use smallvec::SmallVec;

use super::problem::{Problem, ProblemMap};
use super::{series, trees};
use crate::Scenario;

/// How many answers a thread remembers.
const REMEMBERED: usize = 1 << 13;

/// What is known of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The likeliest.
    pub expected: u64,
    /// The least that any tree says.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// Whether cuDNN itself was asked about this convolution: trees that agree may be wrong all the same.
    pub is_recorded: bool,
}

impl Spread {
    /// No workspace is known for certain: any up to this many bytes.
    pub fn up_to(expected: u64, most: u64) -> Spread {
        Spread { expected, least: 0, most, is_recorded: false }
    }

    /// Whether it is known, or all trees say the same.
    pub fn is_certain(&self) -> bool {
        self.least == self.most
    }

    /// The workspace, as assumed.
    pub fn assuming(&self, assumption: Scenario) -> u64 {
        match assumption {
            Scenario::Expected => self.expected,
            Scenario::Lower => self.least,
            Scenario::Upper => self.most,
        }
    }

    /// One of those it may be, by lot: in half of them the likeliest, else the least, the most, or none.
    pub fn drawn(&self, lot: u64) -> u64 {
        match lot % 8 {
            _ if self.is_recorded => self.expected,
            0..4 => self.expected,
            4 => self.least,
            5 => self.most,
            _ => 0,
        }
    }
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

/// What most trees say, of what they say in order; the middle one where no two agree.
fn likeliest(said: &[u64]) -> Option<u64> {
    let votes = |bytes: u64| said.iter().filter(|other| **other == bytes).count();
    let most = said.iter().copied().max_by_key(|&bytes| votes(bytes)).filter(|&bytes| votes(bytes) > 1);
    most.or_else(|| said.get(said.len() / 2).copied())
}

fn found(problem: &Problem) -> Spread {
    if let Some(bytes) = series::workspace(problem) {
        return Spread { expected: bytes, least: bytes, most: bytes, is_recorded: true };
    }
    let everything = problem.all_copies().unsigned_abs();
    let Some(is_known) = trees::is_known(problem) else {
        return Spread::up_to(0, everything);
    };
    let mut said: SmallVec<[u64; 6]> = trees::said(problem).iter().map(|reading| reading.of(problem)).collect();
    said.sort_unstable();
    let expected = likeliest(&said).unwrap_or(everything);
    let (least, most) = (said.first().copied().unwrap_or(0), said.last().copied().unwrap_or(everything));
    match is_known {
        true => Spread { expected, least, most, is_recorded: false },
        false => Spread::up_to(expected, most.max(everything)),
    }
}

#[cfg(test)]
mod tests {
    use vramfit_graph::dtype::Dtype;

    use super::*;
    use crate::convolution::problem::Pass;
    use vramfit_graph::dims::Dims;
    use vramfit_graph::format::Format;

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
    fn a_convolution_that_a_gpu_ran_has_the_workspace_it_took() {
        for (pass, dtype, format, bytes) in RECORDED {
            let spread = workspace(&problem(pass, dtype, format));
            assert_eq!(spread.expected, bytes, "{pass:?} {dtype:?} {format:?}");
        }
    }

    #[test]
    fn lots_draw_among_what_a_workspace_may_be_and_leave_what_was_recorded() {
        let drawn = |spread: Spread| (0..8).map(|lot| spread.drawn(lot)).collect::<Vec<u64>>();
        let guessed = Spread { expected: 5, least: 3, most: 9, is_recorded: false };
        assert_eq!(drawn(guessed), [5, 5, 5, 5, 3, 9, 0, 0]);
        assert_eq!(drawn(Spread { is_recorded: true, ..guessed }), [5; 8]);
    }

    #[test]
    fn half_precision_in_the_first_layout_is_copied_whole() {
        let seen = problem(Pass::Forward, Dtype::Bfloat16, Format::Contiguous);
        let unseen = Problem { image: Dims::from([19, 64, 57, 55]), result: Dims::from([19, 64, 57, 55]), ..seen };
        let scenario = workspace(&unseen);
        assert!(scenario.least <= scenario.expected && scenario.expected <= scenario.most);
        assert!(scenario.expected >= unseen.plain_copies().unsigned_abs(), "{scenario:?}");
    }

    #[test]
    fn a_type_nobody_asked_about_is_between_nothing_and_copies_of_everything() {
        let problem = problem(Pass::Forward, Dtype::Float64, Format::Contiguous);
        let scenario = workspace(&problem);
        assert!(scenario.least == 0 && scenario.most == problem.all_copies().unsigned_abs() && !scenario.is_certain());
    }

    /// Shapes of a draw that was held back; `sample.py` says what a line has.
    static HELD_BACK: &str = include_str!("../../data/cudnn-sample.txt");

    fn dims(first: [i64; 2], sides: &str) -> Dims {
        first.into_iter().chain(numbers(sides)).collect()
    }

    fn numbers(text: &str) -> impl Iterator<Item = i64> {
        text.split('x').map(|number| number.parse().unwrap())
    }

    fn held_back() -> impl Iterator<Item = (Problem, u64)> {
        HELD_BACK.lines().flat_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |place: usize| words[place].parse::<i64>().unwrap();
            let (batch, inputs, outputs, groups) = (number(2), number(3), number(4), number(5));
            [Pass::Forward, Pass::InputGradient, Pass::WeightGradient].map(|pass| {
                let problem = Problem {
                    pass,
                    dtype: match words[0] {
                        "fp32" => Dtype::Float32,
                        "bf16" => Dtype::Bfloat16,
                        _ => Dtype::Float16,
                    },
                    format: if words[1] == "last" && words[6].contains('x') {
                        Format::ChannelsLast
                    } else {
                        Format::Contiguous
                    },
                    image: dims([batch, inputs], words[6]),
                    result: dims([batch, outputs], words[7]),
                    weight: dims([outputs, inputs / groups], words[8]),
                    stride: numbers(words[9]).collect(),
                    dilation: numbers(words[10]).collect(),
                    groups,
                };
                (problem, words[11 + pass as usize].parse().unwrap())
            })
        })
    }

    #[test]
    fn most_of_those_that_are_in_no_series_have_the_workspace_that_the_trees_say() {
        let (mut right, mut certain, mut right_of_these, mut all) = (0, 0, 0, 0);
        for (problem, bytes) in held_back().filter(|(problem, _)| series::workspace(problem).is_none()) {
            let spread = workspace(&problem);
            let is_right = u32::from(spread.expected == bytes);
            all += 1;
            right += is_right;
            if spread.is_certain() {
                certain += 1;
                right_of_these += is_right;
            }
        }
        let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole);
        assert!(share(right, all) > 0.8, "{right} of {all}");
        assert!(share(certain, all) > 0.65, "{certain} of {all}");
        assert!(share(right_of_these, certain) > 0.94, "{right_of_these} of {certain}");
    }

    const RECORDED: [(Pass, Dtype, Format, u64); 4] = [
        (Pass::Forward, Dtype::Float32, Format::Contiguous, 12_992_528),
        (Pass::WeightGradient, Dtype::Float32, Format::Contiguous, 27_902_631),
        (Pass::InputGradient, Dtype::Bfloat16, Format::Contiguous, 12_918_800),
        (Pass::WeightGradient, Dtype::Bfloat16, Format::ChannelsLast, 1_917_591),
    ];
}
