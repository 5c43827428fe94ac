//! What given lines of a program cost: the bytes they hold without need, and how much lower the peak would be without them.

mod iterations;
mod needless;

use std::collections::{BTreeMap, HashMap, HashSet};

use vramfit_trace::snapshot::{FrameId, Snapshot, StackId};

use crate::Explanation;
use crate::findings::median;
use crate::history::{Lifetime, OUTSIDE, number};
use crate::origin::Activity;
use crate::roles::Role;
use iterations::{Iterations, iterations};
use needless::Needless;

/// Lines of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The file, as the recording names it.
    pub file: String,
    /// The first line.
    pub first: u32,
    /// The last line.
    pub last: u32,
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What an iteration allocates and is still held after the next one.
    Kept {
        /// The lines that allocate it.
        made: Vec<Lines>,
        /// The header and the statements of the loop, in order; without them an iteration is a training step.
        body: Vec<Lines>,
    },
    /// What calls of a network in these lines leave in memory.
    Passes(Lines),
    /// Gradients that are held through a forward pass, from the end of a step to the next backward pass.
    Gradients,
    /// All that these lines allocate.
    Made(Lines),
}

/// What it costs in the recorded run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The most bytes held at once.
    pub bytes: u64,
    /// Bytes that an iteration keeps, or that a call of a network leaves.
    pub each: Option<u64>,
    /// How much lower the peak of allocated bytes would be; `None` where part of it is needed.
    pub peak_reduction: Option<u64>,
}

/// Answers questions about one recording.
pub struct Costs<'a> {
    snapshot: &'a Snapshot,
    explanation: &'a Explanation,
}

/// The share of the iterations that must keep something.
const STEADY: f64 = 0.5;

impl<'a> Costs<'a> {
    /// Of an explained recording.
    pub fn new(snapshot: &'a Snapshot, explanation: &'a Explanation) -> Costs<'a> {
        Costs { snapshot, explanation }
    }

    /// The files whose lines the recording has.
    pub fn files(&self) -> Vec<&'a str> {
        let stacks = (0..self.snapshot.stacks.len()).map(|index| StackId(number(index)));
        let frames = stacks.flat_map(|stack| self.snapshot.stacks.frames(stack));
        let files: HashSet<_> = frames.map(|frame| frame.file).collect();
        let mut names: Vec<&str> = files.into_iter().map(|file| self.snapshot.strings.get(file)).collect();
        names.sort_unstable();
        names
    }

    /// Whether any of the lines allocated memory, itself or in what it called.
    pub fn has_run(&self, lines: &Lines) -> bool {
        self.within(std::slice::from_ref(lines)).contains(&true)
    }

    /// What `subject` costs; `None` if the recording cannot say, as for a loop of one or two iterations.
    pub fn of(&self, subject: &Subject) -> Option<Cost> {
        match subject {
            Subject::Kept { made, body } => self.kept(made, body),
            Subject::Passes(call) => self.passes(call),
            Subject::Gradients => self.gradients(),
            Subject::Made(lines) => {
                let is_within = self.within(std::slice::from_ref(lines));
                let mut needless = Needless::default();
                for lifetime in self.explanation.history.births().iter().filter(|it| is_within[it.stack.0 as usize]) {
                    needless.add(lifetime.birth, lifetime.death, lifetime.size);
                }
                Some(self.cost(&needless, None))
            }
        }
    }

    /// For each stack, whether it passes through one of the lines.
    fn within(&self, lines: &[Lines]) -> Vec<bool> {
        let stacks = (0..self.snapshot.stacks.len()).map(|index| StackId(number(index)));
        let passes =
            |stack| self.snapshot.stacks.frame_ids(stack).iter().any(|&frame| self.unit(frame, lines).is_some());
        stacks.map(passes).collect()
    }

    /// The index of the first of `lines` that a frame is in.
    fn unit(&self, frame: FrameId, lines: &[Lines]) -> Option<usize> {
        let frame = self.snapshot.stacks.frame(frame);
        let file = self.snapshot.strings.get(frame.file);
        lines.iter().position(|it| (it.first..=it.last).contains(&frame.line) && it.file == file)
    }

    fn cost(&self, needless: &Needless, each: Option<u64>) -> Cost {
        let history = &self.explanation.history;
        let (_, peak) = history.peak_allocated();
        let without = needless.peak_without(&history.allocated, history.allocated_at_start);
        Cost { bytes: needless.most_at_once(), each, peak_reduction: Some(peak.saturating_sub(without)) }
    }

    fn kept(&self, made: &[Lines], body: &[Lines]) -> Option<Cost> {
        let Explanation { history, roles, steps, .. } = self.explanation;
        let iterations = match body {
            [] => Iterations::of_steps(steps),
            body => iterations(self.snapshot, history, |frame| self.unit(frame, body)),
        };
        let judged = iterations.judged()?;
        let is_within = self.within(made);
        let mut carried: HashMap<StackId, Vec<Carried>> = HashMap::new();
        for (birth, lifetime) in history.births().iter().enumerate() {
            if !is_within[lifetime.stack.0 as usize] || roles[history.earlier + birth] == Role::Library {
                continue;
            }
            let Some(born) = iterations.at(lifetime.birth) else { continue };
            if let Some(end) = iterations.end_of_next(born).filter(|&end| lifetime.death > end) {
                carried.entry(lifetime.stack).or_default().push(Carried { born, end, lifetime });
            }
        }
        let mut needless = Needless::default();
        let mut kept = vec![0u64; judged];
        for carried in carried.into_values().flat_map(|carried| repeated(carried, judged)) {
            needless.add(carried.end, carried.lifetime.death, carried.lifetime.size);
            kept[carried.born] += carried.lifetime.size;
        }
        let keeping: Vec<u64> = kept.into_iter().filter(|&bytes| bytes > 0).collect();
        Some(self.cost(&needless, Some(median(keeping))))
    }

    fn passes(&self, call: &Lines) -> Option<Cost> {
        let Explanation { history, phases, roles, .. } = self.explanation;
        let is_within = self.within(std::slice::from_ref(call));
        let mut needless = Needless::default();
        let mut left = Vec::new();
        for span in phases.spans.iter().filter(|it| it.activity == Activity::Forward && it.end_event != OUTSIDE) {
            let births = span.first as usize..span.end as usize;
            let mut bytes = None;
            for birth in births {
                let lifetime = &history.births()[birth];
                if !is_within[lifetime.stack.0 as usize] {
                    continue;
                }
                let left = bytes.get_or_insert(0);
                if lifetime.death >= span.end_event && roles[history.earlier + birth] != Role::Library {
                    needless.add(span.end_event, lifetime.death, lifetime.size);
                    *left += lifetime.size;
                }
            }
            left.extend(bytes);
        }
        if left.is_empty() {
            return None;
        }
        Some(Cost { peak_reduction: None, ..self.cost(&needless, Some(median(left))) })
    }

    fn gradients(&self) -> Option<Cost> {
        let Explanation { history, phases, steps, roles, .. } = self.explanation;
        let backwards: Vec<u32> =
            phases.spans.iter().filter(|it| it.activity == Activity::Backward).map(|span| span.first_event).collect();
        if steps.list.len() < 2 || backwards.is_empty() {
            return None;
        }
        let mut needless = Needless::default();
        for (birth, lifetime) in history.births().iter().enumerate() {
            let is_gradient = phases.activities[birth] == Activity::Backward
                && matches!(roles[history.earlier + birth], Role::Gradient | Role::Kept);
            let ends = steps.list.iter().map(|step| step.end);
            for end in ends.filter(|&end| is_gradient && lifetime.birth < end && end < lifetime.death) {
                let next = backwards.get(backwards.partition_point(|&first| first < end));
                let Some(until) = next.map(|&next| next.min(lifetime.death)) else { continue };
                let between = history.births_before(end)..history.births_before(until);
                if phases.activities[between].contains(&Activity::Forward) {
                    needless.add(end, until, lifetime.size);
                }
            }
        }
        Some(self.cost(&needless, None))
    }
}

/// An allocation that is still held after the iteration that follows its own.
#[derive(Clone, Copy)]
struct Carried<'a> {
    /// The iteration that made it.
    born: usize,
    /// The event at which the next one is over.
    end: u32,
    lifetime: &'a Lifetime,
}

/// What one call stack keeps in iteration after iteration. A loop that keeps something once does not grow, and of an iteration
/// that keeps more than others the odd sizes are left out: the first call of a library makes its workspace.
fn repeated(carried: Vec<Carried<'_>>, judged: usize) -> Vec<Carried<'_>> {
    let mut often: HashMap<u64, usize> = HashMap::new();
    let mut by_iteration: BTreeMap<usize, Vec<Carried<'_>>> = BTreeMap::new();
    for one in carried {
        *often.entry(one.lifetime.requested).or_default() += 1;
        by_iteration.entry(one.born).or_default().push(one);
    }
    if by_iteration.len() < 2 || (by_iteration.len() as f64) < STEADY * judged as f64 {
        return Vec::new();
    }
    let typical = median(by_iteration.values().map(|made| made.len() as u64).collect());
    for made in by_iteration.values_mut() {
        made.sort_by_key(|one| (std::cmp::Reverse(often[&one.lifetime.requested]), one.lifetime.birth));
        made.truncate(usize::try_from(typical).unwrap_or(usize::MAX));
    }
    by_iteration.into_values().flatten().collect()
}
