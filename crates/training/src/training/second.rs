//! The second step, from the first.
//!
//! Forward and backward ask for the same in both, the first of them aside: what libraries keep from then on is asked for
//! once, and names that the script binds anew let go of what they held. Only the optimizer's step is simulated twice,
//! for it makes its state in the first.

use std::iter::Peekable;
use std::slice::Iter;

use vramfit_graph::model::Mode;

use super::held::Name;
use super::program::{Mark, Position, Repeat, Round};
use super::report::Phase;
use super::settings::ZeroGrad;
use super::state::State;
use super::steps::Script;
use crate::optimizer::zero_grad;
use vramfit_eager::memory::{Aside, Entry, Happening, Memory};

/// Where a name is bound anew in the first forward pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebinding {
    pub name: Name,
    pub entry: usize,
    pub aside: usize,
}

/// How often what lasts is held before the first step, which rules may ask.
pub(super) struct Counts(Vec<(usize, usize)>);

impl Counts {
    pub(super) fn of(script: &Script<'_>) -> Counts {
        let mut counts = Vec::with_capacity(script.tensors.len());
        let tensors = script.tensors.iter().flatten();
        counts.extend(tensors.map(|tensor| (tensor.handles(), tensor.storage_handles())));
        Counts(counts)
    }
}

/// What the second step needs of the first.
pub(super) struct First {
    /// Where it began.
    pub start: Position,
    /// What was held then.
    pub counts: Counts,
    /// What it has left behind.
    pub left: State,
}

/// Whether a second step can be told from the first: it has to begin as the first did.
pub(super) fn can_be_told(script: &Script<'_>) -> bool {
    let options = script.options;
    options.steps > 1
        && script.bound.variant.mode == Mode::Train
        && options.zero_grad == ZeroGrad::BeforeForward
        && options.sets_to_none
        && !options.has_fresh_inputs
        && !options.is_cudnn_benchmarked
        && !script.context.has_dropout_state()
        && script.steps_alike(1, options.steps)
}

/// Adds the second step to the script's requests, and how the others repeat it; `None` where it turns out to be another,
/// and then the script is spoiled.
pub(super) fn tell(script: &mut Script<'_>, first: &First) -> Option<Option<Repeat>> {
    let start = script.position();
    script.step();
    let (entries, asides) = script.context.memory().borrow_mut().split_off(start.entry, start.aside);
    if !first.left.still_lies(script) {
        return None;
    }
    zero_grad(&script.parameters, true);
    if Counts::of(script).0 != first.counts.0 {
        return None;
    }
    script.context.memory().borrow_mut().reserve(start.entry - first.start.entry + entries.len());
    let mut copy = Copy::new(script, first, &start);
    copy.forward_and_backward(script, first, &start);
    copy.rounds(script, start.mark - first.start.mark);
    copy.step(script, &start, &entries, &asides);
    script.context.memory().borrow_mut().count_on_from(copy.next_id);
    let count = script.options.steps - 2;
    Some((count > 0).then(|| {
        let before = first.left.ids().to_vec();
        let after = before.iter().map(|&id| copy.numbers[id as usize]).collect();
        Repeat { count, start, next_id: copy.next_id, before, after }
    }))
}

/// Requests on the way from the first step into the second.
struct Copy {
    /// The number that memory of the first step has in the second, by its own.
    numbers: Vec<u32>,
    /// The first number of the second step's own.
    first_id: u32,
    next_id: u32,
}

/// The number of memory that is not there yet.
const UNKNOWN: u32 = u32::MAX;

impl Copy {
    fn new(script: &Script<'_>, first: &First, start: &Position) -> Copy {
        let count = script.context.memory().borrow().next_id();
        let mut numbers: Vec<u32> = (0..first.start.id).collect();
        numbers.resize(count as usize, UNKNOWN);
        for id in first.left.lasting().iter().copied().chain(script.lasting_scalars()) {
            numbers[id as usize] = id;
        }
        Copy { numbers, first_id: start.id, next_id: start.id }
    }

    /// The forward and backward passes of the first step again.
    fn forward_and_backward(&mut self, script: &mut Script<'_>, first: &First, start: &Position) {
        let optimizer = script.step_start;
        let asides = script.context.memory().borrow().asides()[first.start.aside..optimizer.aside].to_vec();
        let marks: Vec<Mark> = script.marks[first.start.mark..start.mark].to_vec();
        let mut marks = marks.iter().filter(|mark| mark.phase != Phase::Step).peekable();
        let rebindings = std::mem::take(&mut script.rebindings);
        let mut rebindings = rebindings.iter().peekable();
        let mut left = asides.iter().peekable();
        let mut at = first.start.entry;
        loop {
            while let Some(rebinding) = rebindings.next_if(|rebinding| rebinding.entry == at) {
                let aside = asides.len() - left.len() + first.start.aside;
                self.asides(script, &mut left, at, rebinding.aside - aside);
                script.held.let_go(rebinding.name);
            }
            self.asides(script, &mut left, at, usize::MAX);
            while let Some(mark) = marks.next_if(|mark| mark.end == at) {
                script.end(mark.phase, Some(1), mark.micro);
            }
            if at == optimizer.entry {
                return;
            }
            let next =
                [rebindings.peek().map(|it| it.entry), left.peek().map(|it| it.at), marks.peek().map(|it| it.end)];
            let stop = next.into_iter().flatten().fold(optimizer.entry, usize::min);
            let mut memory = script.context.memory().borrow_mut();
            for place in at..stop {
                let entry = memory.journal()[place];
                self.entry(&mut memory, entry);
            }
            drop(memory);
            at = stop;
        }
    }

    /// The micro-batches that do the same, so many marks later.
    fn rounds(&self, script: &mut Script<'_>, later: usize) {
        let again = |round: &Round| {
            let renumber = |lying: &Vec<u32>| lying.iter().map(|&id| self.numbers[id as usize]).collect();
            Round { mark: round.mark + later, lying: round.lying.iter().map(renumber).collect(), ..*round }
        };
        let rounds: Vec<Round> = script.rounds.iter().map(again).collect();
        script.rounds.extend(rounds);
    }

    /// The optimizer's step, which was simulated apart.
    fn step(&mut self, script: &mut Script<'_>, start: &Position, entries: &[Entry], asides: &[Aside]) {
        let mut left = asides.iter().peekable();
        let (mut at, end) = (start.entry, start.entry + entries.len());
        while at < end {
            self.asides(script, &mut left, at, usize::MAX);
            let stop = left.peek().map_or(end, |aside| aside.at.min(end));
            let mut memory = script.context.memory().borrow_mut();
            for entry in &entries[at - start.entry..stop - start.entry] {
                self.entry(&mut memory, *entry);
            }
            drop(memory);
            at = stop;
        }
        self.asides(script, &mut left, at, usize::MAX);
        script.end(Phase::Step, Some(1), None);
    }

    /// At most so many asides before request `at`.
    fn asides(&mut self, script: &Script<'_>, left: &mut Peekable<Iter<'_, Aside>>, at: usize, most: usize) {
        for _ in 0..most {
            let Some(aside) = left.next_if(|aside| aside.at == at) else { return };
            // All else happens once.
            if let Happening::Recount { id, category } = aside.what
                && !self.lasts(id)
            {
                let id = self.numbers[id as usize];
                script.context.memory().borrow_mut().tell(Happening::Recount { id, category });
            }
        }
    }

    /// Whether this is memory of the first step that stays.
    fn lasts(&self, id: u32) -> bool {
        id < self.first_id && self.numbers[id as usize] == id
    }

    #[inline]
    fn entry(&mut self, memory: &mut Memory, entry: Entry) {
        match entry {
            Entry::Allocate { id, .. } if self.lasts(id) => {}
            Entry::Allocate { id, bytes, place, category, plan } => {
                let number = self.next_id;
                self.numbers[id as usize] = number;
                self.next_id += 1;
                memory.write(Entry::Allocate { id: number, bytes, place, category, plan });
            }
            Entry::Free { id } => memory.write(Entry::Free { id: self.numbers[id as usize] }),
        }
    }
}
