//! The calls of a bound graph, each with its times, and the step that a loop makes of them.

use vramfit_eager::forward::{Choice, Region, UnknownModule, regions};
use vramfit_eager::operators::{Keeps, Work, facts};
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_graph::model::{Mode, TensorId};
use vramfit_training::Loop;
use vramfit_training::optimizer::Recipe;

use crate::call::{CallCost, Known, Pricer, each_tensor};
use crate::clock::{Clock, StepTime};
use crate::optimizer::Weights;
use crate::queues::{Cost, Lanes};
use crate::scale::Scale;
use crate::tables::TABLES;

/// Steps that are played before the one that counts, so that the queue is as full as it gets.
const WARM_STEPS: u32 = 2;
/// Steps that differ by less, relatively, take the same time.
const STEADY: f64 = 1e-6;
/// Micro-batches that are played; the others take as long as the last of these.
const PLAYED: u32 = 3;

/// A call's times.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its place among the bound steps.
    place: usize,
    keeps: Keeps,
    /// Whether Python waits for the GPU.
    waits: bool,
    cost: CallCost,
    /// What its weights' gradients cost where they are added to those of an earlier micro-batch.
    added: Cost,
}

/// The calls of a bound graph, each with its times.
#[derive(Clone, Debug)]
pub struct Timetable {
    entries: Vec<Entry>,
    is_training: bool,
    has_gradients: bool,
    scale: Scale,
    weights: Weights,
    /// What a copy of all inputs and targets costs the CPU.
    copies: f64,
    assumed: Vec<String>,
    /// How much longer the CPU takes within a model than for an operator in a loop of its own, forward and backward.
    factors: [f64; 2],
}

impl Timetable {
    pub(crate) fn new(clock: &Clock, bound: &Bound<'_>) -> Timetable {
        let known: Vec<Known> = bound.model.operators.iter().map(|operator| Known::new(facts(operator.id))).collect();
        let pricer = Pricer::new(bound, clock.scale);
        let module = TABLES.constant("module");
        let sink = TABLES.constant("gradient_sink");
        let sum_cpu = TABLES.constant("gradient_sum");
        let mut entries = Vec::with_capacity(bound.steps.len() / 2);
        let mut uses = vec![0_u16; bound.tensors.len()];
        let mut is_assumed = vec![false; known.len()];
        let trained = bound.model.parameters.len();
        let mut python = 0.0;
        let factors = [TABLES.constant("forward"), TABLES.constant("backward")];
        for (place, step) in bound.steps.iter().enumerate() {
            let call = match step {
                BoundStep::Call(call) => call,
                BoundStep::Enter(..) => {
                    python += module;
                    continue;
                }
                _ => continue,
            };
            let known = &known[call.operator as usize];
            is_assumed[call.operator as usize] |= known.facts.time.work == Work::Assumed;
            let mut cost = pricer.cost(call, known);
            cost.forward.cpu += std::mem::take(&mut python);
            let mut added = Cost::default();
            let is_differentiated = call.results.iter().flatten().any(|&id| bound.tensor(id).requires_grad);
            if is_differentiated {
                each_tensor(&call.arguments, &mut |TensorId(id)| {
                    let (tensor, uses) = (&bound.tensors[id as usize], &mut uses[id as usize]);
                    if !tensor.requires_grad {
                        return;
                    }
                    if *uses > 0 {
                        // Its gradients are summed when the last of them is there.
                        cost.backward += Cost { cpu: sum_cpu, gpu: pricer.sum(tensor) };
                    } else if (id as usize) < trained {
                        cost.backward.cpu += sink;
                        added += Cost { cpu: sum_cpu, gpu: pricer.sum(tensor) };
                    }
                    *uses = uses.saturating_add(1);
                });
            }
            cost.forward.cpu *= factors[0];
            cost.backward.cpu *= factors[1];
            added.cpu *= factors[1];
            let keeps = if is_differentiated { known.facts.keeps } else { Keeps::Nothing };
            entries.push(Entry { place, keeps, waits: known.facts.time.work == Work::Wait, cost, added });
        }
        let given = bound.model.inputs.iter().chain(&bound.model.targets);
        let names = bound.model.operators.iter().zip(is_assumed).filter(|(_, is_assumed)| *is_assumed);
        Timetable {
            entries,
            is_training: bound.variant.mode == Mode::Train,
            has_gradients: bound.variant.has_grad,
            scale: clock.scale,
            weights: Weights::of(bound),
            copies: given.map(|input| TABLES.copy.at(bound.tensor(input.tensor).bytes as f64)).sum(),
            assumed: names.map(|(operator, _)| operator.name.clone()).collect(),
            factors,
        }
    }

    /// The operators that nobody has timed, or anything like them: an addition of as many numbers stands for each.
    pub fn assumed(&self) -> &[String] {
        &self.assumed
    }

    /// What the CPU does in a forward and in a backward pass, in microseconds, were each operator in a loop of its own.
    pub fn cpu(&self) -> [f64; 2] {
        let sum = |of: fn(&Entry) -> f64| self.entries.iter().map(of).sum::<f64>();
        let [forward, backward] = self.factors;
        [
            sum(|entry| entry.cost.forward.cpu) / forward,
            (sum(|entry| entry.cost.backward.cpu) + TABLES.constant("backward_call")) / backward,
        ]
    }

    /// How long a step of this loop takes; `bound` is the graph that the timetable was made of.
    ///
    /// # Errors
    /// The model has no module that is to be checkpointed.
    pub fn step_time(&self, bound: &Bound<'_>, options: &Loop) -> Result<StepTime, UnknownModule> {
        Ok(self.step_time_with(&self.regions(bound, &options.checkpoint)?, options))
    }

    /// The checkpointed regions of `bound` under a choice, which only a training heeds.
    ///
    /// # Errors
    /// The model has no module that is to be checkpointed.
    pub fn regions(&self, bound: &Bound<'_>, choice: &Choice) -> Result<Vec<Region>, UnknownModule> {
        regions(bound, if self.is_training { choice } else { &Choice::Nothing })
    }

    /// The same with the checkpointed regions given, in order, whatever the loop's own choice.
    pub fn step_time_with(&self, regions: &[Region], options: &Loop) -> StepTime {
        let [time] = self.step_times_with(regions, options, [options.optimizer]);
        time
    }

    /// The same for several optimizers, whose passes are played side by side.
    pub fn step_times_with<const COUNT: usize>(
        &self,
        regions: &[Region],
        options: &Loop,
        optimizers: [Recipe; COUNT],
    ) -> [StepTime; COUNT] {
        let spans = self.spans(if self.has_gradients { regions } else { &[] });
        let mut queues = Lanes::<COUNT>::new();
        let mut times = [StepTime::default(); COUNT];
        let mut is_steady = [false; COUNT];
        for _ in 0..=WARM_STEPS {
            let steps;
            (queues, steps) = self.step(queues, &spans, options, &optimizers);
            for ((time, step), is_steady) in times.iter_mut().zip(steps).zip(&mut is_steady) {
                if !*is_steady {
                    let before = std::mem::replace(time, step);
                    // A step that takes as long as the one before has found the queue as that did.
                    *is_steady = (time.seconds - before.seconds).abs() <= STEADY * time.seconds;
                }
            }
            if is_steady == [true; COUNT] {
                break;
            }
        }
        times
    }

    /// Plays one step; marks are microseconds until then.
    fn step<const COUNT: usize>(
        &self,
        mut queues: Lanes<COUNT>,
        spans: &[Span],
        options: &Loop,
        optimizers: &[Recipe; COUNT],
    ) -> (Lanes<COUNT>, [StepTime; COUNT]) {
        let begun = queues.busy();
        let accumulate = if self.is_training { options.accumulate.max(1) } else { 1 };
        let played = accumulate.min(PLAYED);
        let repeated = f64::from(accumulate - played);
        let mut phases = [[0.0; 2]; COUNT];
        let mut busy = [Cost::default(); COUNT];
        for micro in 0..played {
            let times = if micro + 1 == played { 1.0 + repeated } else { 1.0 };
            let (at, done) = (queues.marks(), queues.busy());
            if options.has_fresh_inputs {
                queues.wait();
                queues.hand_over(Cost { cpu: self.copies, gpu: 0.0 });
            }
            queues = self.forward(queues, spans);
            let middle = queues.marks();
            if self.is_training {
                queues = self.backward(queues, spans, micro > 0);
            }
            let (end, now) = (queues.marks(), queues.busy());
            for lane in 0..COUNT {
                phases[lane][0] += times * (middle[lane] - at[lane]);
                phases[lane][1] += times * (end[lane] - middle[lane]);
                busy[lane].cpu += (times - 1.0) * (now[lane].cpu - done[lane].cpu);
                busy[lane].gpu += (times - 1.0) * (now[lane].gpu - done[lane].gpu);
            }
        }
        let at = queues.marks();
        if self.is_training {
            for (lane, optimizer) in optimizers.iter().enumerate() {
                queues.hand_over_apart(lane, |queues| self.weights.step(queues, options, *optimizer, self.scale));
            }
        }
        let (end, now) = (queues.marks(), queues.busy());
        let times = std::array::from_fn(|lane| {
            let step = end[lane] - at[lane];
            let [forward, backward] = phases[lane];
            let seconds = |microseconds: f64| microseconds * 1e-6;
            StepTime {
                seconds: seconds(forward + backward + step),
                forward: seconds(forward),
                backward: seconds(backward),
                step: seconds(step),
                gpu: seconds(busy[lane].gpu + now[lane].gpu - begun[lane].gpu),
                cpu: seconds(busy[lane].cpu + now[lane].cpu - begun[lane].cpu),
            }
        });
        (queues, times)
    }

    /// The queues are handed through, not borrowed: their numbers can then stay in registers.
    fn forward<const COUNT: usize>(&self, mut queues: Lanes<COUNT>, spans: &[Span]) -> Lanes<COUNT> {
        let mut spans = spans.iter().peekable();
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some(span) = spans.next_if(|span| span.first == index) {
                queues.hand_over(Cost { cpu: span.forward, gpu: 0.0 });
            }
            if entry.waits {
                queues.wait();
            }
            queues.hand_over(entry.cost.forward);
        }
        queues
    }

    /// The same.
    fn backward<const COUNT: usize>(&self, mut queues: Lanes<COUNT>, spans: &[Span], is_added: bool) -> Lanes<COUNT> {
        queues.hand_over(Cost { cpu: TABLES.constant("backward_call") * self.factors[1], gpu: 0.0 });
        let mut spans = spans.iter().rev().peekable();
        for (index, entry) in self.entries.iter().enumerate().rev() {
            if let Some(span) = spans.next_if(|span| span.end == index + 1) {
                queues.hand_over(Cost { cpu: span.backward, gpu: 0.0 });
                for entry in &self.entries[span.first..span.again] {
                    queues.hand_over(entry.cost.forward);
                }
            }
            queues.hand_over(entry.cost.backward);
            if is_added {
                queues.hand_over(entry.added);
            }
        }
        queues
    }

    /// The checkpointed regions as places among the entries.
    fn spans(&self, regions: &[Region]) -> Vec<Span> {
        let constant = |name: &str| TABLES.constant(name);
        let (each_forward, each_backward) = (constant("checkpoint_each_forward"), constant("checkpoint_each_backward"));
        let (base_forward, base_backward) = (constant("checkpoint_forward"), constant("checkpoint_backward"));
        let span = |region: &Region| {
            let first = self.entries.partition_point(|entry| entry.place < region.first);
            let end = self.entries.partition_point(|entry| entry.place <= region.last);
            let inside = &self.entries[first..end];
            // The region runs again up to the last call that autograd keeps something of, and before it where that is only
            // what the call is given.
            let last = inside.iter().rposition(|entry| entry.keeps != Keeps::Nothing);
            let again = last.map_or(0, |last| last + usize::from(inside[last].keeps == Keeps::Results));
            let kept = inside.iter().filter(|entry| entry.keeps != Keeps::Nothing).count() as f64;
            Span {
                first,
                end,
                again: first + again,
                forward: base_forward + each_forward * kept,
                backward: base_backward + each_backward * kept,
            }
        };
        let found = regions.iter().filter(|region| region.is_checkpointed).map(span);
        found.filter(|span| span.end > span.first).collect()
    }
}

/// A checkpointed region: the entries from `first` to before `end`, of which those before `again` run again, and what the
/// CPU does besides.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: usize,
    end: usize,
    again: usize,
    forward: f64,
    backward: f64,
}
