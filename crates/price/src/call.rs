//! What a captured call costs, forward and backward.

use vramfit_eager::operators::{Extent, Facts, Work};
use vramfit_graph::bind::{Bound, BoundCall, BoundTensor, Value};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Cast, Precision, TensorId};

use crate::compute;
use crate::queues::Cost;
use crate::scale::Scale;
use crate::tables::{Both, Kernel, TABLES, Tables};

/// What a call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallCost {
    pub forward: Cost,
    /// Nothing where no gradient comes back.
    pub backward: Cost,
}

/// An operator of the model with its measurements.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub facts: &'static Facts,
    /// The kernel that stands for it, and those that a call may ask for instead.
    kernels: [Option<&'static Kernel>; 3],
    /// What the CPU does, without a bias and with one.
    dispatch: [Both<f64>; 2],
    /// What the CPU does where nothing is launched.
    view: Both<f64>,
}

impl Known {
    pub fn new(facts: &'static Facts) -> Known {
        let tables: &'static Tables = &TABLES;
        let kernel = kernel_of(facts.time.work).0;
        let others: [&str; 2] = match kernel {
            "add" => ["add_row", "mul_scalar"],
            "mul" | "div" => ["mul_row", "mul_scalar"],
            "to_half" => ["to_single", "contiguous"],
            "gelu" => ["gelu_tanh", ""],
            "cross_entropy" => ["cross_entropy_wide", ""],
            "batch_norm" => ["batch_norm_last", ""],
            "max_pool" => ["max_pool_last", ""],
            _ => ["", ""],
        };
        Known {
            facts,
            kernels: [kernel, others[0], others[1]].map(|name| tables.kernel(name)),
            dispatch: match facts.time.dispatch {
                "linear" => ["linear_no_bias", "linear"],
                "conv2d" => ["conv2d", "conv2d_bias"],
                other => [other; 2],
            }
            .map(|name| tables.dispatch(name).unwrap_or_default()),
            view: tables.dispatch(facts.view_dispatch).unwrap_or_default(),
        }
    }

    fn kernel(&self, which: usize) -> Option<&'static Kernel> {
        self.kernels[which].or(self.kernels[0])
    }
}

/// The measured kernel that stands for an operator, and for how many elements. Where nobody measured one it is an addition;
/// what computes rather than moves memory has measurements of its own, and never gets to this one.
fn kernel_of(work: Work) -> (&'static str, Extent) {
    match work {
        Work::Moves(kernel, extent) => (kernel, extent),
        _ => ("add", Extent::Larger),
    }
}

/// Whether an operator moves memory, or is taken to.
fn moves_memory(work: Work) -> bool {
    matches!(work, Work::Moves(..) | Work::Assumed)
}

/// Prices the calls of one bound graph.
pub(crate) struct Pricer<'a> {
    pub bound: &'a Bound<'a>,
    pub scale: Scale,
    is_autocast: bool,
    cast: Both<f64>,
    autocast: f64,
}

/// A call with its tensors.
pub(crate) struct Parts<'a> {
    pub bound: &'a Bound<'a>,
    pub call: &'a BoundCall<'a>,
    pub result: Option<&'a BoundTensor>,
}

impl<'a> Parts<'a> {
    pub fn tensor(&self, index: usize) -> Option<&'a BoundTensor> {
        match self.call.arguments.get(index)? {
            Value::Tensor(id) => Some(self.bound.tensor(*id)),
            Value::List(items) => match items.first()? {
                Value::Tensor(id) => Some(self.bound.tensor(*id)),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn wants(&self, index: usize) -> bool {
        self.tensor(index).is_some_and(|tensor| tensor.requires_grad)
    }
}

/// Whether numbers are of half precision.
pub(crate) fn is_half(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float16 | Dtype::Bfloat16)
}

/// Tells of every tensor among the arguments.
pub(crate) fn each_tensor(values: &[Value], tell: &mut impl FnMut(TensorId)) {
    for value in values {
        match value {
            Value::Tensor(id) => tell(*id),
            Value::List(items) => each_tensor(items, tell),
            _ => {}
        }
    }
}

impl<'a> Pricer<'a> {
    pub fn new(bound: &'a Bound<'a>, scale: Scale) -> Pricer<'a> {
        Pricer {
            bound,
            scale,
            is_autocast: matches!(bound.variant.precision, Precision::Autocast(_)),
            cast: [TABLES.constant("cast"), TABLES.constant("cast_backward")],
            autocast: TABLES.constant("autocast"),
        }
    }

    pub fn cost(&self, call: &BoundCall<'_>, known: &Known) -> CallCost {
        let result = call.results.iter().flatten().next().map(|&id| self.bound.tensor(id));
        let parts = Parts { bound: self.bound, call, result };
        let work = known.facts.time.work;
        let requires_grad = call.results.iter().flatten().any(|&id| self.bound.tensor(id).requires_grad);
        let cpu = |[forward, backward]: Both<f64>, gpu: Both<f64>| CallCost {
            forward: Cost { cpu: forward, gpu: gpu[0] },
            backward: if requires_grad { Cost { cpu: backward, gpu: gpu[1] } } else { Cost::default() },
        };
        if work == Work::Wait {
            return cpu([TABLES.constant("read_number"), 0.0], [0.0; 2]);
        }
        if result.is_none_or(|result| result.is_on_host) || self.launches_nothing(&parts, known.facts) {
            return cpu(known.view, [0.0; 2]);
        }
        let mut dispatch = known.dispatch[usize::from(parts.tensor(2).is_some())];
        if call.cast != Cast::No {
            dispatch = self.cast;
        } else if self.is_autocast && !moves_memory(work) {
            dispatch[0] += self.autocast;
        }
        let gpu = match work {
            Work::Moves(..) | Work::Assumed | Work::Wait => self.memory(&parts, known),
            Work::Product { factors, bias, is_transposed } => {
                compute::product(&parts, factors, bias, is_transposed, self.scale)
            }
            Work::Attention => compute::attention(&parts, self.scale),
            Work::Convolution { is_transposed } => compute::convolution(&parts, is_transposed, self.scale),
            Work::Recurrent(family) => compute::recurrent(&parts, family, self.scale),
        };
        cpu(dispatch, gpu)
    }

    /// Whether all results are views of what the call was given, or are those tensors themselves.
    fn launches_nothing(&self, parts: &Parts<'_>, facts: &Facts) -> bool {
        if facts.effect.is_in_place() || !moves_memory(facts.time.work) {
            return false;
        }
        let mut results = parts.call.results.iter().flatten().map(|&id| self.bound.tensor(id));
        results.all(|result| {
            let mut is_shared = false;
            each_tensor(&parts.call.arguments, &mut |id| is_shared |= self.bound.tensor(id).storage == result.storage);
            is_shared
        })
    }

    fn memory(&self, parts: &Parts<'_>, known: &Known) -> Both<f64> {
        let Some(result) = parts.result else { return [0.0; 2] };
        let first = parts.tensor(0).unwrap_or(result);
        let (name, extent) = kernel_of(known.facts.time.work);
        let elements = match extent {
            Extent::Larger => first.elements.max(result.elements) as f64,
            Extent::Input => first.elements as f64,
            Extent::Result => result.elements as f64,
            Extent::HalfResult => result.elements as f64 / 2.0,
        };
        let (which, share) = choose(parts, name, first, result);
        let Some(kernel) = known.kernel(which) else { return [0.0; 2] };
        let [forward, backward] = &kernel.0[usize::from(is_half(first.dtype))];
        // What was measured in one precision only stands for both.
        let [forward, backward] = match forward.least() > 0.0 {
            true => [forward, backward],
            false => {
                let [forward, backward] = &kernel.0[usize::from(!is_half(first.dtype))];
                [forward, backward]
            }
        };
        let mut costs = [self.scale.moving(forward, elements), 0.0];
        if result.requires_grad && share > 0.0 {
            costs[1] = share * self.scale.moving(backward, elements);
        }
        if name == "embedding" && result.requires_grad {
            costs[1] += self.zeros(first.elements as f64, is_half(first.dtype));
        }
        costs
    }

    /// The time of so many zeros.
    fn zeros(&self, elements: f64, is_half: bool) -> f64 {
        self.curve("zeros", elements, is_half)
    }

    /// The time of one gradient added to another.
    pub fn sum(&self, tensor: &BoundTensor) -> f64 {
        self.curve("add", tensor.elements as f64, is_half(tensor.dtype))
    }

    fn curve(&self, name: &str, elements: f64, is_half: bool) -> f64 {
        TABLES.kernel(name).map_or(0.0, |kernel| {
            let curve = &kernel.0[usize::from(is_half)][0];
            self.scale.moving(curve, elements)
        })
    }
}

/// Which of an operator's kernels a call runs, and what share of the measured backward pass it needs.
fn choose(parts: &Parts<'_>, kernel: &str, first: &BoundTensor, result: &BoundTensor) -> (usize, f64) {
    match kernel {
        "add" | "mul" | "div" => {
            let other = parts.tensor(1);
            let wanted = f64::from(u8::from(parts.wants(0)) + u8::from(parts.wants(1)));
            match other {
                Some(other) if other.elements.min(first.elements) == result.elements => (0, wanted / 2.0),
                Some(other) if other.elements.min(first.elements) > 1 => (1, wanted / 2.0),
                _ => (2, if kernel == "add" { 0.0 } else { 1.0 }),
            }
        }
        "to_half" => match (is_half(first.dtype), is_half(result.dtype)) {
            (false, true) => (0, 1.0),
            (true, false) => (1, 1.0),
            _ => (2, 1.0),
        },
        "gelu" => (usize::from(parts.call.arguments.get(1) == Some(&Value::Text("tanh".to_owned()))), 1.0),
        "cross_entropy" => (usize::from(first.shape.get(1).is_some_and(|&classes| classes >= 8192)), 1.0),
        "batch_norm" | "max_pool" => (usize::from(is_channels_last(first)), 1.0),
        _ => (0, 1.0),
    }
}

/// Whether an image's channels lie beside each other.
pub(crate) fn is_channels_last(tensor: &BoundTensor) -> bool {
    tensor.shape.len() >= 4 && tensor.shape[1] > 1 && tensor.strides[1] == 1
}

#[cfg(test)]
mod tests {
    use vramfit_eager::operators;

    use super::*;

    #[test]
    fn every_measurement_that_an_operator_names_was_made() {
        for facts in operators::all() {
            let time = facts.time;
            let is_there = match time.work {
                // Plain RNN layers were not measured: their kernels are priced at nothing.
                Work::Recurrent("recurrent_RNN") => true,
                Work::Recurrent(family) => TABLES.points(family, true).is_some(),
                work => TABLES.kernel(kernel_of(work).0).is_some(),
            };
            assert!(is_there, "{time:?}");
            assert!(TABLES.dispatch(time.dispatch).is_some(), "{time:?}");
            assert!(TABLES.dispatch(facts.view_dispatch).is_some(), "{}", facts.view_dispatch);
        }
    }

    #[test]
    fn an_operator_nobody_measured_is_taken_for_an_addition() {
        assert_eq!(kernel_of(Work::Assumed), ("add", Extent::Larger));
        assert!(moves_memory(Work::Assumed));
    }
}
