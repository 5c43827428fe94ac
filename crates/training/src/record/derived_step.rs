//! The second step, derived from the first.
//!
//! Forward and backward passes request the same in both steps, with two differences: libraries allocate what they keep
//! only in the first, and in the second each name frees what it held when it is bound again. Only the update is simulated
//! twice, because it makes the optimizer's state in the first step.

use std::iter::Peekable;
use std::slice::Iter;

use vramfit_eager::memory::{Entry, Memory, SideEvent, SideEventKind};

use super::micro_batches::run_step;
use super::state::State;
use crate::process::{Process, Rebinding};
use crate::program::{Mark, MicroBatchRun, Position, Repeat};
use crate::script::{Action, OptimizerSetup, Parallel, Pass, Script};

/// The parts of a step from which a second one can be derived.
#[derive(Clone, Copy)]
pub(super) struct StepParts<'s> {
    /// Frees all gradients.
    zero_grad: &'s [Action],
    /// Forward and backward passes.
    passes: &'s [Action],
    /// The optimizers' updates.
    update: &'s [Action],
}

impl<'s> StepParts<'s> {
    /// `None` where a second step would not begin as the first did.
    pub(super) fn of(script: &Script<'_>, step: &'s [Action]) -> Option<StepParts<'s>> {
        let is_zero_grad =
            |action: &Action| matches!(action, Action::BeginStep | Action::ZeroGrad { sets_to_none: true, .. });
        let zeroed = step.iter().take_while(|action| is_zero_grad(action)).count();
        let update = step.iter().rposition(|action| *action == Action::EndMicroBatch)? + 1;
        let parts =
            StepParts { zero_grad: &step[..zeroed], passes: step.get(zeroed..update)?, update: &step[update..] };
        let is_pass = |action: &Action| {
            use Action::{Backward, BeginMicroBatch, EndMicroBatch, EndPhase, Forward, Release};
            matches!(
                action,
                BeginMicroBatch | EndMicroBatch | EndPhase(_) | Forward { .. } | Backward { .. } | Release { .. }
            )
        };
        let is_update = |action: &Action| {
            use Action::{ClipGradients, EndPhase, Unscale, Update, UpdateAverage, UpdateScaler};
            matches!(
                action,
                EndPhase(_)
                    | Unscale { .. }
                    | ClipGradients { .. }
                    | Update { .. }
                    | UpdateScaler { .. }
                    | UpdateAverage { .. }
            )
        };
        let frees_gradients_of = |pass: usize| {
            let optimizers = parts.zero_grad.iter().filter_map(|action| match action {
                Action::ZeroGrad { optimizer, .. } => Some(&script.optimizers[*optimizer]),
                _ => None,
            });
            frees_all_gradients(&script.passes[pass], optimizers)
        };
        let frees_all = parts.passes.iter().all(|action| match action {
            Action::Backward { pass, .. } => frees_gradients_of(*pass),
            _ => true,
        });
        let is_derivable = parts.passes.iter().all(is_pass)
            && parts.update.iter().all(is_update)
            && parts.update.iter().any(|action| matches!(action, Action::Update { .. }))
            && frees_all
            && script.passes.iter().all(|pass| pass.parallel == Parallel::None)
            && !script.plans.are_benchmarked;
        is_derivable.then_some(parts)
    }
}

/// Whether these optimizers have all trained weights of a pass's model.
fn frees_all_gradients<'o>(pass: &Pass<'_>, optimizers: impl Iterator<Item = &'o OptimizerSetup>) -> bool {
    let weights = &pass.bound.model.parameters;
    let mut is_freed: Vec<bool> = weights.iter().map(|weight| !weight.requires_grad).collect();
    for optimizer in optimizers.filter(|optimizer| optimizer.model == pass.model) {
        match &optimizer.groups {
            None => return true,
            Some(groups) => groups.iter().flat_map(|group| &group.weights).for_each(|&weight| is_freed[weight] = true),
        }
    }
    is_freed.into_iter().all(|is_freed| is_freed)
}

/// The reference counts of the tensors that exist before a step: rules may look at them.
#[derive(PartialEq, Eq)]
struct ReferenceCounts(Vec<(usize, usize)>);

impl ReferenceCounts {
    fn of(process: &Process<'_>) -> ReferenceCounts {
        let tensors = || process.passes.iter().flat_map(|pass| pass.tensors.iter().flatten());
        let mut counts = Vec::with_capacity(process.passes.iter().map(|pass| pass.tensors.len()).sum());
        counts.extend(tensors().map(|tensor| (tensor.handles(), tensor.storage_handles())));
        ReferenceCounts(counts)
    }
}

/// The first step, while or after it ran.
pub(super) struct FirstStep<'s, Left> {
    parts: StepParts<'s>,
    start: Position,
    update_start: Position,
    counts: ReferenceCounts,
    /// What it left behind.
    left: Left,
}

impl<'s> FirstStep<'s, ()> {
    /// Runs the step.
    pub(super) fn run(process: &mut Process<'_>, parts: StepParts<'s>, can_copy: bool) -> FirstStep<'s, ()> {
        let start = process.position();
        let counts = ReferenceCounts::of(process);
        process.run_all(parts.zero_grad);
        run_step(process, parts.passes, can_copy);
        let update_start = process.position();
        process.run_all(parts.update);
        FirstStep { parts, start, update_start, counts, left: () }
    }

    /// The step with what it left behind; `None` where no second step can be derived from it.
    pub(super) fn finished(self, process: &Process<'_>) -> Option<FirstStep<'s, State>> {
        if process.context.has_dropout_state() {
            return None;
        }
        let FirstStep { parts, start, update_start, counts, .. } = self;
        let left = State::of_memory(process)?;
        Some(FirstStep { parts, start, update_start, counts, left })
    }
}

impl FirstStep<'_, State> {
    /// Adds the second step to the journal and returns how the steps after it repeat it: `following` of the run, the second
    /// included, and `possible` if it went on. `None` where the second step turns out to differ; then the process cannot be
    /// used any further.
    pub(super) fn derive_second(
        &self,
        process: &mut Process<'_>,
        following: usize,
        possible: usize,
    ) -> Option<Option<Repeat>> {
        let start = process.position();
        process.run_all(self.parts.update);
        let update_marks = process.marks.split_off(start.mark);
        let (entries, side_events) = process.context.memory().borrow_mut().split_off(start.entry, start.side_event);
        if !self.left.is_unchanged(process) {
            return None;
        }
        process.run_all(self.parts.zero_grad);
        if ReferenceCounts::of(process) != self.counts {
            return None;
        }
        process.context.memory().borrow_mut().reserve(start.entry - self.start.entry + entries.len());
        let mut derived = Derivation::new(process, self, &start);
        derived.derive_passes(process, self);
        derived.derive_micro_batch_runs(process, start.mark - self.start.mark);
        derived.derive_update(process, start.entry, &entries, &side_events, &update_marks);
        process.context.memory().borrow_mut().set_next_id(derived.next_id);
        let (count, possible) = (following as u32 - 1, possible as u32 - 1);
        Some((count > 0).then(|| {
            let before = self.left.ids().to_vec();
            let after = before.iter().map(|&id| derived.ids[id as usize]).collect();
            Repeat { count, possible, start, next_id: derived.next_id, before, after }
        }))
    }
}

/// Requests of the first step on their way into the second.
struct Derivation {
    /// By id in the first step, the id in the second.
    ids: Vec<u32>,
    /// The first id that the second step allocates.
    first_id: u32,
    next_id: u32,
}

/// The id of memory that the second step has not allocated yet.
const UNKNOWN: u32 = u32::MAX;

impl Derivation {
    fn new(process: &Process<'_>, first: &FirstStep<'_, State>, start: &Position) -> Derivation {
        let count = process.context.memory().borrow().next_id();
        let mut ids: Vec<u32> = (0..first.start.id).collect();
        ids.resize(count as usize, UNKNOWN);
        for id in first.left.lasting().iter().copied().chain(lasting_scalars(process)) {
            ids[id as usize] = id;
        }
        Derivation { ids, first_id: start.id, next_id: start.id }
    }

    /// The forward and backward passes of the first step again.
    fn derive_passes(&mut self, process: &mut Process<'_>, first: &FirstStep<'_, State>) {
        let (start, end) = (first.start, first.update_start);
        let side_events = process.context.memory().borrow().side_events()[start.side_event..end.side_event].to_vec();
        let marks = process.marks[start.mark..end.mark].to_vec();
        let rebindings = std::mem::take(&mut process.rebindings);
        let mut rebindings: Peekable<Iter<'_, Rebinding>> = rebindings.iter().peekable();
        let mut marks = marks.iter().peekable();
        let mut left = side_events.iter().peekable();
        let mut at = start.entry;
        loop {
            while let Some(rebinding) = rebindings.next_if(|rebinding| rebinding.entry == at) {
                let side_event = side_events.len() - left.len() + start.side_event;
                self.derive_side_events(process, &mut left, at, rebinding.side_event - side_event);
                process.passes[rebinding.pass].names.release(rebinding.name);
            }
            self.derive_side_events(process, &mut left, at, usize::MAX);
            derive_marks(process, &mut marks, at);
            if at == end.entry {
                return;
            }
            let next =
                [rebindings.peek().map(|it| it.entry), left.peek().map(|it| it.at), marks.peek().map(|it| it.end)];
            let stop = next.into_iter().flatten().fold(end.entry, usize::min);
            let mut memory = process.context.memory().borrow_mut();
            for index in at..stop {
                let entry = memory.journal()[index];
                self.derive_entry(&mut memory, entry);
            }
            drop(memory);
            at = stop;
        }
    }

    /// The copied micro-batches of the first step, `later` marks after it.
    fn derive_micro_batch_runs(&self, process: &mut Process<'_>, later: usize) {
        let derived = |run: &MicroBatchRun| {
            let renumbered = |live: &Vec<u32>| live.iter().map(|&id| self.ids[id as usize]).collect();
            MicroBatchRun { mark: run.mark + later, live: run.live.iter().map(renumbered).collect(), ..*run }
        };
        let runs: Vec<MicroBatchRun> = process.micro_batch_runs.iter().map(derived).collect();
        process.micro_batch_runs.extend(runs);
    }

    /// The update, which was simulated apart; its first request was request `start` of the journal.
    fn derive_update(
        &mut self,
        process: &mut Process<'_>,
        start: usize,
        entries: &[Entry],
        side_events: &[SideEvent],
        marks: &[Mark],
    ) {
        let mut left = side_events.iter().peekable();
        let mut marks = marks.iter().peekable();
        let (mut at, end) = (start, start + entries.len());
        loop {
            self.derive_side_events(process, &mut left, at, usize::MAX);
            derive_marks(process, &mut marks, at);
            if at == end {
                return;
            }
            let next = [left.peek().map(|it| it.at), marks.peek().map(|it| it.end)];
            let stop = next.into_iter().flatten().fold(end, usize::min);
            let mut memory = process.context.memory().borrow_mut();
            for entry in &entries[at - start..stop - start] {
                self.derive_entry(&mut memory, *entry);
            }
            drop(memory);
            at = stop;
        }
    }

    /// At most `count` of the side events before request `at`.
    fn derive_side_events(
        &mut self,
        process: &Process<'_>,
        left: &mut Peekable<Iter<'_, SideEvent>>,
        at: usize,
        count: usize,
    ) {
        for _ in 0..count {
            let Some(side_event) = left.next_if(|side_event| side_event.at == at) else { return };
            // Driver and library events happen once, in the first step.
            if let SideEventKind::CategoryChanged { id, category } = side_event.kind
                && !self.lasts(id)
            {
                let id = self.ids[id as usize];
                process.context.memory().borrow_mut().add_side_event(SideEventKind::CategoryChanged { id, category });
            }
        }
    }

    /// Whether the first step allocated this and the second keeps using it.
    fn lasts(&self, id: u32) -> bool {
        id < self.first_id && self.ids[id as usize] == id
    }

    #[inline]
    fn derive_entry(&mut self, memory: &mut Memory, entry: Entry) {
        match entry {
            Entry::Allocate { id, .. } if self.lasts(id) => {}
            Entry::Allocate { id, bytes, origin, category, stream, plan } => {
                let derived = self.next_id;
                self.ids[id as usize] = derived;
                self.next_id += 1;
                memory.write(Entry::Allocate { id: derived, bytes, origin, category, stream, plan });
            }
            Entry::Free { id } => memory.write(Entry::Free { id: self.ids[id as usize] }),
        }
    }
}

/// The ends of phases after request `at`, one step later.
fn derive_marks(process: &mut Process<'_>, marks: &mut Peekable<Iter<'_, Mark>>, at: usize) {
    while let Some(mark) = marks.next_if(|mark| mark.end == at) {
        process.end_phase(mark.phase, mark.step.map(|step| step + 1), mark.micro);
    }
}

/// Scalars that the first step allocates and later steps keep: of the scalers, and the targets of added losses.
fn lasting_scalars(process: &Process<'_>) -> impl Iterator<Item = u32> {
    let scalers = process.scalers.iter().flat_map(|scaler| scaler.kept()).flatten();
    let classes = process.passes.iter().filter_map(|pass| pass.classes.as_ref());
    scalers.chain(classes).filter_map(|tensor| tensor.storage()?.id())
}
