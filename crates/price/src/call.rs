//! The cost of one captured call, forward and backward.

use vramfit_eager::operators::{Extent, Facts, Work};
use vramfit_graph::bind::{Bound, BoundCall, BoundTensor, Value};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Cast, Precision};

use crate::call_tensors::{CallTensors, is_channels_last, is_half};
use crate::compute;
use crate::operator::{PricedOperator, measured_kernel, moves_memory};
use crate::queues::Cost;
use crate::scale::{Movement, Scale};
use crate::tables::{PerPass, TABLES};
use crate::traffic::{MEASURED_CHANNELS, accesses};

/// The cost of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CallCost {
    pub forward: Cost,
    /// Zero if no result requires a gradient.
    pub backward: Cost,
}

/// Prices the calls of one bound graph.
pub(crate) struct CallPricer<'a> {
    bound: &'a Bound<'a>,
    scale: Scale,
    is_autocast: bool,
    /// CPU time of a cast that autocast inserted.
    cast: PerPass<f64>,
    /// CPU time that autocast adds to a call.
    autocast: f64,
}

impl<'a> CallPricer<'a> {
    pub fn new(bound: &'a Bound<'a>, scale: Scale) -> CallPricer<'a> {
        CallPricer {
            bound,
            scale,
            is_autocast: matches!(bound.variant.precision, Precision::Autocast(_)),
            cast: [TABLES.constant("cast"), TABLES.constant("cast_backward")],
            autocast: TABLES.constant("autocast"),
        }
    }

    pub fn cost(&self, call: &BoundCall<'_>, operator: &PricedOperator) -> CallCost {
        let result = call.results.iter().flatten().next().map(|&id| self.bound.tensor(id));
        let tensors = CallTensors { bound: self.bound, call, result };
        let work = operator.facts.time.work;
        let requires_grad = call.results.iter().flatten().any(|&id| self.bound.tensor(id).requires_grad);
        let cost = |[forward, backward]: PerPass<f64>, gpu: PerPass<f64>| CallCost {
            forward: Cost { cpu: forward, gpu: gpu[0] },
            backward: if requires_grad { Cost { cpu: backward, gpu: gpu[1] } } else { Cost::default() },
        };
        if work == Work::Wait {
            return cost([TABLES.constant("read_number"), 0.0], [0.0; 2]);
        }
        if result.is_none_or(|result| result.is_on_host) || self.launches_nothing(&tensors, operator.facts) {
            return cost(operator.view_dispatch, [0.0; 2]);
        }
        let mut dispatch = operator.dispatch[usize::from(tensors.tensor(2).is_some())];
        if call.cast != Cast::No {
            dispatch = self.cast;
        } else if self.is_autocast && !moves_memory(work) {
            dispatch[0] += self.autocast;
        }
        let gpu = match work {
            Work::Moves(..) | Work::Assumed | Work::Wait => self.memory_bound(&tensors, operator),
            Work::Product { factors, bias, is_transposed } => {
                compute::product(&tensors, factors, bias, is_transposed, self.scale)
            }
            Work::UnpackedProduct => compute::unpacked_product(&tensors, self.scale),
            Work::Attention => compute::attention(&tensors, self.scale),
            Work::Convolution { is_transposed } => compute::convolution(&tensors, is_transposed, self.scale),
            Work::Recurrent(family) => compute::recurrent(&tensors, family, self.scale),
        };
        cost(dispatch, gpu)
    }

    /// Whether every result shares its storage with an argument, although the call does not write in place.
    fn launches_nothing(&self, tensors: &CallTensors<'_>, facts: &Facts) -> bool {
        if facts.effect.is_in_place() || !moves_memory(facts.time.work) {
            return false;
        }
        let mut results = tensors.call.results.iter().flatten().map(|&id| self.bound.tensor(id));
        results.all(|result| {
            let mut is_shared = false;
            tensors.call.each_tensor(&mut |id| is_shared |= self.bound.tensor(id).storage == result.storage);
            is_shared
        })
    }

    fn memory_bound(&self, tensors: &CallTensors<'_>, operator: &PricedOperator) -> PerPass<f64> {
        let Some(result) = tensors.result else { return [0.0; 2] };
        let first = tensors.tensor(0).unwrap_or(result);
        let (name, extent) = measured_kernel(operator.facts.time.work);
        let elements = match extent {
            Extent::Larger => first.elements.max(result.elements) as f64,
            Extent::Input => first.elements as f64,
            Extent::Result => result.elements as f64,
            Extent::HalfResult => result.elements as f64 / 2.0,
        };
        let (variant, backward_share) = kernel_variant(tensors, name, first, result);
        let Some(kernel) = operator.kernel(variant) else { return [0.0; 2] };
        let kernel_name = operator.kernel_name(variant);
        // In fp16, as in fp32, batch norm is cuDNN's; only in bf16, which was measured, it is PyTorch's own. The H200's
        // price does not make this difference.
        let is_cudnn = name == "batch_norm" && first.dtype == Dtype::Float16 && !self.scale.is_measured();
        let (is_half, elements) = if is_cudnn { (false, elements / 2.0) } else { (is_half(first.dtype), elements) };
        let [forward, backward] = &kernel.0[usize::from(is_half)];
        // A kernel measured in one precision only has the same time in the other.
        let [forward, backward] = match forward.min() > 0.0 {
            true => [forward, backward],
            false => {
                let [forward, backward] = &kernel.0[usize::from(!is_half)];
                [forward, backward]
            }
        };
        let bytes_per_access = elements * if is_half { 2.0 } else { 4.0 };
        let channels = || first.shape.get(1).map_or(1.0, |&channels| channels as f64);
        let work = |curve, pass: usize| Movement {
            curve,
            elements,
            bytes: accesses(kernel_name).map(|passes| passes[pass] * bytes_per_access),
            // A batch norm has one block per channel if channels are first.
            blocks: (kernel_name == "batch_norm").then(|| [channels(), MEASURED_CHANNELS]),
        };
        let mut costs = [self.scale.memory_bound(work(forward, 0)), 0.0];
        if result.requires_grad && backward_share > 0.0 {
            costs[1] = backward_share * self.scale.memory_bound(work(backward, 1));
        }
        if name == "embedding" && result.requires_grad {
            costs[1] += self.kernel_time("zeros", first);
        }
        costs
    }

    /// GPU time to add one gradient to another.
    pub fn gradient_sum(&self, tensor: &BoundTensor) -> f64 {
        self.kernel_time("add", tensor)
    }

    /// GPU time of a kernel's forward pass over a tensor.
    fn kernel_time(&self, name: &str, tensor: &BoundTensor) -> f64 {
        TABLES.kernel(name).map_or(0.0, |kernel| {
            let curve = &kernel.0[usize::from(is_half(tensor.dtype))][0];
            self.scale.memory_bound(Movement::of(curve, tensor.elements as f64))
        })
    }
}

/// The index of the kernel variant that a call runs, and the share of the measured backward pass that it needs.
fn kernel_variant(tensors: &CallTensors<'_>, kernel: &str, first: &BoundTensor, result: &BoundTensor) -> (usize, f64) {
    match kernel {
        "add" | "mul" | "div" => {
            let other = tensors.tensor(1);
            let gradients = f64::from(u8::from(tensors.requires_grad(0)) + u8::from(tensors.requires_grad(1)));
            match other {
                Some(other) if other.elements.min(first.elements) == result.elements => (0, gradients / 2.0),
                Some(other) if other.elements.min(first.elements) > 1 => (1, gradients / 2.0),
                _ => (2, if kernel == "add" { 0.0 } else { 1.0 }),
            }
        }
        "to_half" => match (is_half(first.dtype), is_half(result.dtype)) {
            (false, true) => (0, 1.0),
            (true, false) => (1, 1.0),
            _ => (2, 1.0),
        },
        "gelu" => (usize::from(tensors.call.arguments.get(1) == Some(&Value::Text("tanh".to_owned()))), 1.0),
        "cross_entropy" => (usize::from(first.shape.get(1).is_some_and(|&classes| classes >= 8192)), 1.0),
        "batch_norm" | "max_pool" => (usize::from(is_channels_last(first)), 1.0),
        _ => (0, 1.0),
    }
}
