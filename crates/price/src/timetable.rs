//! The calls of a bound graph, each with its times.

use vramfit_graph::bind::{Bound, BoundCall, BoundStep, BoundTensor, Value};
use vramfit_graph::model::Mode;
use vramfit_step::checkpoint::{Choice, Region, UnknownModule, regions};
use vramfit_step::training::Loop;
use vramfit_step::visits::Visits;

use crate::clock::{Clock, StepTime};
use crate::operator::{Keeps, Operator, Work};
use crate::optimizer::passes;
use crate::roofline::Roofline;

/// A call's times, in seconds.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Its place among the bound steps.
    place: usize,
    keeps: Keeps,
    forward: f64,
    backward: f64,
}

/// The calls of a bound graph, each with its times.
#[derive(Clone, Debug)]
pub struct Timetable {
    entries: Vec<Entry>,
    is_training: bool,
    roofline: Roofline,
    /// Bytes of the weights that are trained.
    weights: f64,
}

impl Timetable {
    pub(crate) fn new(clock: &Clock, bound: &Bound<'_>) -> Timetable {
        let operators: Vec<Operator> =
            bound.model.operators.iter().map(|operator| Operator::named(&operator.name)).collect();
        let flops = vramfit_step::flops::count(bound, &Visits::default());
        let mut entries = Vec::with_capacity(bound.steps.len() / 2);
        for (place, step) in bound.steps.iter().enumerate() {
            let BoundStep::Call(call) = step else { continue };
            let operator = operators[call.operator as usize];
            let sides = Sides::of(bound, call, operator);
            let seconds = |operations, bytes| clock.roofline.seconds(sides.dtype, operations, bytes);
            let forward = seconds(flops[place].forward as f64, sides.read + sides.written);
            let is_differentiated = sides.requires_grad;
            let backward = match (operator.work, is_differentiated) {
                (_, false) => 0.0,
                (Work::Memory | Work::Wait, true) => seconds(0.0, sides.read + 2.0 * sides.written),
                (_, true) => seconds(2.0 * flops[place].forward as f64, 2.0 * (sides.read + sides.written)),
            };
            entries.push(Entry { place, keeps: operator.keeps, forward, backward });
        }
        let trained = bound.model.parameters.iter().filter(|weight| weight.requires_grad);
        Timetable {
            entries,
            is_training: bound.variant.mode == Mode::Train,
            roofline: clock.roofline,
            weights: trained.map(|weight| bound.tensor(weight.tensor).bytes as f64).sum(),
        }
    }

    /// How long a step of this loop takes; `bound` is the graph that the timetable was made of.
    ///
    /// # Errors
    /// The model has no module that is to be checkpointed.
    pub fn step_time(&self, bound: &Bound<'_>, options: &Loop) -> Result<StepTime, UnknownModule> {
        let choice = if self.is_training { &options.checkpoint } else { &Choice::Nothing };
        Ok(self.step_time_with(&regions(bound, choice)?, options))
    }

    /// The same with the checkpointed regions given, in order, whatever the loop's own choice.
    pub fn step_time_with(&self, regions: &[Region], options: &Loop) -> StepTime {
        let forward: f64 = self.entries.iter().map(|entry| entry.forward).sum();
        if !self.is_training {
            return StepTime { seconds: forward, forward, gpu: forward, ..StepTime::default() };
        }
        let backward: f64 = self.entries.iter().map(|entry| entry.backward).sum();
        let again: f64 = regions.iter().filter(|region| region.is_checkpointed).map(|region| self.again(region)).sum();
        let dtype = vramfit_graph::dtype::Dtype::Float32;
        let move_weights = |passes: f64| self.roofline.seconds(dtype, 0.0, passes * self.weights);
        let micro = f64::from(options.accumulate.max(1));
        let forward = micro * forward;
        let backward = micro * (backward + again) + (micro - 1.0) * move_weights(3.0);
        let clip = if options.clips_gradients { 3.0 } else { 0.0 };
        let step = move_weights(passes(options.optimizer) + clip);
        let seconds = forward + backward + step;
        StepTime { seconds, forward, backward, step, gpu: seconds, cpu: 0.0 }
    }

    /// What runs again of a checkpointed region: up to the last call that autograd keeps something of.
    fn again(&self, region: &Region) -> f64 {
        let first = self.entries.partition_point(|entry| entry.place < region.first);
        let end = self.entries.partition_point(|entry| entry.place <= region.last);
        let inside = &self.entries[first..end];
        let Some(last) = inside.iter().rposition(|entry| entry.keeps != Keeps::Nothing) else { return 0.0 };
        let count = if inside[last].keeps == Keeps::Results { last + 1 } else { last };
        inside[..count].iter().map(|entry| entry.forward).sum()
    }
}

/// What a call reads and writes.
struct Sides {
    read: f64,
    written: f64,
    dtype: vramfit_graph::dtype::Dtype,
    requires_grad: bool,
}

impl Sides {
    fn of(bound: &Bound<'_>, call: &BoundCall<'_>, operator: Operator) -> Sides {
        let mut storages = Vec::new();
        let mut read = 0.0;
        let mut dtype = None;
        each_tensor(&call.arguments, &mut |id| {
            let tensor = bound.tensor(id);
            if !tensor.is_on_host {
                read += tensor.bytes as f64;
                dtype = dtype.or(Some(tensor.dtype));
            }
            storages.push(tensor.storage);
        });
        let results = || call.results.iter().flatten().map(|&id| bound.tensor(id));
        let is_new =
            |tensor: &BoundTensor| !tensor.is_on_host && (operator.is_in_place || !storages.contains(&tensor.storage));
        let written: f64 = results().filter(|tensor| is_new(tensor)).map(|tensor| tensor.bytes as f64).sum();
        let is_view = written == 0.0;
        Sides {
            read: if is_view { 0.0 } else { read },
            written,
            dtype: dtype.unwrap_or(vramfit_graph::dtype::Dtype::Float32),
            requires_grad: !is_view && results().any(|tensor| tensor.requires_grad),
        }
    }
}

fn each_tensor(values: &[Value], tell: &mut impl FnMut(vramfit_graph::model::TensorId)) {
    for value in values {
        match value {
            Value::Tensor(id) => tell(*id),
            Value::List(items) => each_tensor(items, tell),
            _ => {}
        }
    }
}
