//! Simulates the launches of a training step and derives its time.

use vramfit_eager::autograd::KeptResults;
use vramfit_eager::forward::{Choice, LossHead, Region, UnknownModule, regions, regions_keeping};
use vramfit_eager::operators::{Keeps, find_head};
use vramfit_graph::bind::Bound;
use vramfit_training::Loop;
use vramfit_training::optimizer::Recipe;

use crate::priced_graph::PricedGraph;
use crate::queues::{Cost, Lanes};
use crate::step_time::StepTime;
use crate::tables::TABLES;

/// Steps simulated before the last, to fill the launch queue.
const WARM_STEPS: u32 = 2;
/// Relative difference below which two step times are equal.
const STEADY: f64 = 1e-6;
/// Micro-batches that are simulated; the others take as long as the last of these.
const SIMULATED_MICRO_BATCHES: u32 = 3;

/// A checkpointed region as a range of calls, and the CPU time that checkpointing adds.
#[derive(Clone, Copy, Debug)]
struct CheckpointedCalls {
    first: usize,
    end: usize,
    /// Calls before this index run again in the backward pass.
    recomputed_end: usize,
    forward: f64,
    backward: f64,
    /// Results that are not computed again.
    keeps: KeptResults,
}

impl PricedGraph {
    /// The time of one step of the loop. `bound` must be the graph that was priced.
    ///
    /// # Errors
    /// The model has no module of a name in the loop's checkpoint setting.
    pub fn step_time(&self, bound: &Bound<'_>, options: &Loop) -> Result<StepTime, UnknownModule> {
        Ok(self.step_time_with(&self.regions(bound, options)?, options))
    }

    /// The checkpointed regions of `bound`, a loss in chunks among them; none outside training.
    ///
    /// # Errors
    /// The model has no module of a name in the loop's checkpoint setting.
    pub fn regions(&self, bound: &Bound<'_>, options: &Loop) -> Result<Vec<Region>, UnknownModule> {
        if !self.is_training {
            return regions(bound, &Choice::Nothing);
        }
        let mut found = regions_keeping(bound, &options.checkpoint, options.kept_results)?;
        if let (LossHead::Chunked(times), Ok(head)) = (options.loss_head, find_head(bound)) {
            found.push(Region {
                first: head.enter,
                last: head.last,
                is_checkpointed: true,
                turns_cache_off: false,
                keeps: KeptResults::NONE,
                times,
            });
        }
        Ok(found)
    }

    /// The time of one step with these checkpointed regions, in order, instead of the loop's own setting.
    pub fn step_time_with(&self, regions: &[Region], options: &Loop) -> StepTime {
        let [time] = self.step_times_with(regions, options, [options.optimizer]);
        time
    }

    /// The times of one step with different optimizers, simulated side by side.
    pub fn step_times_with<const COUNT: usize>(
        &self,
        regions: &[Region],
        options: &Loop,
        optimizers: [Recipe; COUNT],
    ) -> [StepTime; COUNT] {
        let checkpointed = self.checkpointed_calls(if self.has_gradients { regions } else { &[] });
        let mut queues = Lanes::<COUNT>::new();
        let mut times = [StepTime::default(); COUNT];
        let mut is_steady = [false; COUNT];
        for _ in 0..=WARM_STEPS {
            let steps;
            (queues, steps) = self.step(queues, &checkpointed, options, &optimizers);
            for ((time, step), is_steady) in times.iter_mut().zip(steps).zip(&mut is_steady) {
                if !*is_steady {
                    let before = std::mem::replace(time, step);
                    // Equal times mean that the queue was equally full at the start of both steps.
                    *is_steady = (time.seconds - before.seconds).abs() <= STEADY * time.seconds;
                }
            }
            if is_steady == [true; COUNT] {
                break;
            }
        }
        times
    }

    /// Simulates one step.
    fn step<const COUNT: usize>(
        &self,
        mut queues: Lanes<COUNT>,
        checkpointed: &[CheckpointedCalls],
        options: &Loop,
        optimizers: &[Recipe; COUNT],
    ) -> (Lanes<COUNT>, [StepTime; COUNT]) {
        let busy_before = queues.busy();
        let accumulate = if self.is_training { options.accumulate.max(1) } else { 1 };
        let simulated = accumulate.min(SIMULATED_MICRO_BATCHES);
        let repeated = f64::from(accumulate - simulated);
        let mut phases = [[0.0; 2]; COUNT];
        let mut busy = [Cost::default(); COUNT];
        for micro_batch in 0..simulated {
            let times = if micro_batch + 1 == simulated { 1.0 + repeated } else { 1.0 };
            let (start, busy_at_start) = (queues.finish_times(), queues.busy());
            if options.has_fresh_inputs {
                queues.synchronize();
                queues.launch(Cost { cpu: self.copies, gpu: 0.0 });
            }
            queues = self.forward(queues, checkpointed);
            let middle = queues.finish_times();
            if self.is_training {
                queues = self.backward(queues, checkpointed, micro_batch > 0);
            }
            let (end, busy_at_end) = (queues.finish_times(), queues.busy());
            for lane in 0..COUNT {
                phases[lane][0] += times * (middle[lane] - start[lane]);
                phases[lane][1] += times * (end[lane] - middle[lane]);
                busy[lane].cpu += (times - 1.0) * (busy_at_end[lane].cpu - busy_at_start[lane].cpu);
                busy[lane].gpu += (times - 1.0) * (busy_at_end[lane].gpu - busy_at_start[lane].gpu);
            }
        }
        let start = queues.finish_times();
        if self.is_training {
            for (lane, optimizer) in optimizers.iter().enumerate() {
                queues.launch_in(lane, |queue| self.weights.step(queue, options, *optimizer, self.scale));
            }
        }
        let (end, busy_after) = (queues.finish_times(), queues.busy());
        let times = std::array::from_fn(|lane| {
            let step = end[lane] - start[lane];
            let [forward, backward] = phases[lane];
            let seconds = |microseconds: f64| microseconds * 1e-6;
            StepTime {
                seconds: seconds(forward + backward + step),
                forward: seconds(forward),
                backward: seconds(backward),
                step: seconds(step),
                gpu: seconds(busy[lane].gpu + busy_after[lane].gpu - busy_before[lane].gpu),
                cpu: seconds(busy[lane].cpu + busy_after[lane].cpu - busy_before[lane].cpu),
            }
        });
        (queues, times)
    }

    /// Takes the queues by value, so that their numbers can stay in registers.
    fn forward<const COUNT: usize>(
        &self,
        mut queues: Lanes<COUNT>,
        checkpointed: &[CheckpointedCalls],
    ) -> Lanes<COUNT> {
        let mut checkpointed = checkpointed.iter().peekable();
        for (index, call) in self.calls.iter().enumerate() {
            if let Some(region) = checkpointed.next_if(|region| region.first == index) {
                queues.launch(Cost { cpu: region.forward, gpu: 0.0 });
            }
            if call.synchronizes {
                queues.synchronize();
            }
            queues.launch(call.cost.forward);
            if call.host_copies.are_any() {
                queues.synchronize();
                queues.launch(Cost { cpu: call.host_copies.to_host, gpu: 0.0 });
            }
        }
        queues
    }

    /// Takes the queues by value, as `forward` does.
    fn backward<const COUNT: usize>(
        &self,
        mut queues: Lanes<COUNT>,
        checkpointed: &[CheckpointedCalls],
        accumulates: bool,
    ) -> Lanes<COUNT> {
        queues.launch(Cost { cpu: TABLES.constant("backward_call") * self.cpu_factors[1], gpu: 0.0 });
        let mut checkpointed = checkpointed.iter().rev().peekable();
        for (index, call) in self.calls.iter().enumerate().rev() {
            if let Some(region) = checkpointed.next_if(|region| region.end == index + 1) {
                queues.launch(Cost { cpu: region.backward, gpu: 0.0 });
                for recomputed in &self.calls[region.first..region.recomputed_end] {
                    let is_kept = recomputed.kept_as.is_some_and(|kind| region.keeps.contains(kind));
                    let Cost { cpu, gpu } = recomputed.cost.forward;
                    queues.launch(Cost { cpu, gpu: if is_kept { 0.0 } else { gpu } });
                }
            }
            if call.host_copies.are_any() {
                if call.host_copies.waits {
                    queues.synchronize();
                }
                queues.launch(call.host_copies.to_gpu);
            }
            queues.launch(call.cost.backward);
            if accumulates {
                queues.launch(call.accumulation);
            }
        }
        queues
    }

    fn checkpointed_calls(&self, regions: &[Region]) -> Vec<CheckpointedCalls> {
        let constant = |name: &str| TABLES.constant(name);
        let (each_forward, each_backward) = (constant("checkpoint_each_forward"), constant("checkpoint_each_backward"));
        let (base_forward, base_backward) = (constant("checkpoint_forward"), constant("checkpoint_backward"));
        // Where results are kept, every operator is dispatched through Python.
        let dispatched = |region: &Region, calls: usize, pass: &str| match region.keeps {
            KeptResults::NONE => 0.0,
            _ => constant(&format!("selective_{pass}")) + constant(&format!("selective_each_{pass}")) * calls as f64,
        };
        let calls = |region: &Region| {
            let first = self.calls.partition_point(|call| call.step < region.first);
            let end = self.calls.partition_point(|call| call.step <= region.last);
            let inside = &self.calls[first..end];
            // Recomputation stops at the last tensor that autograd saved: after the call that returns it, or before the
            // call that takes it as an argument.
            let last = inside.iter().rposition(|call| call.keeps != Keeps::Nothing);
            let recomputed = last.map_or(0, |last| last + usize::from(inside[last].keeps == Keeps::Results));
            let kept = inside.iter().filter(|call| call.keeps != Keeps::Nothing).count() as f64;
            // Each part launches its own kernels, which take their part of the time.
            let times = f64::from(region.times.max(1));
            let forward: f64 = inside.iter().map(|call| call.cost.forward.cpu).sum();
            let again: f64 = inside[..recomputed].iter().map(|call| call.cost.forward.cpu).sum();
            let backward: f64 = inside.iter().map(|call| call.cost.backward.cpu).sum();
            CheckpointedCalls {
                first,
                end,
                recomputed_end: first + recomputed,
                forward: times * (base_forward + each_forward * kept)
                    + (times - 1.0) * forward
                    + dispatched(region, inside.len(), "forward"),
                backward: times * (base_backward + each_backward * kept)
                    + (times - 1.0) * (again + backward)
                    + dispatched(region, recomputed, "backward"),
                keeps: region.keeps,
            }
        };
        let found = regions.iter().filter(|region| region.is_checkpointed).map(calls);
        found.filter(|region| region.end > region.first).collect()
    }
}
