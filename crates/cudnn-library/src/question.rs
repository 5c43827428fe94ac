//! A convolution as a question to cuDNN's heuristic, described as PyTorch's `Conv_v8.cpp` describes it.

use std::cmp::Reverse;

use vramfit_cudnn::convolution::{ConvolutionPass, ConvolutionProblem};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use crate::backend::{Backend, Descriptor, Kind, Refused};
use crate::protocol::Reply;

/// cuDNN's numbers of attributes, modes and notes, from `cudnn_graph.h`.
mod number {
    pub(super) const FLOAT: i32 = 0;
    pub(super) const HALF: i32 = 2;
    pub(super) const BFLOAT16: i32 = 9;
    pub(super) const CROSS_CORRELATION: i32 = 1;
    pub(super) const HEURISTIC_INSTANT: i32 = 0;
    pub(super) const HEURISTIC_FALLBACK: i32 = 2;
    pub(super) const DOWN_CONVERTS_INPUTS: i32 = 1;

    pub(super) const CONVOLUTION_COMPUTE_TYPE: i32 = 100;
    pub(super) const CONVOLUTION_MODE: i32 = 101;
    pub(super) const CONVOLUTION_DILATIONS: i32 = 102;
    pub(super) const CONVOLUTION_STRIDES: i32 = 103;
    pub(super) const CONVOLUTION_POST_PADDINGS: i32 = 104;
    pub(super) const CONVOLUTION_PRE_PADDINGS: i32 = 105;
    pub(super) const CONVOLUTION_RANK: i32 = 106;
    pub(super) const HEURISTICS_MODE: i32 = 200;
    pub(super) const HEURISTICS_GRAPH: i32 = 201;
    pub(super) const HEURISTICS_RESULTS: i32 = 202;
    pub(super) const HEURISTICS_DEVICE: i32 = 204;
    pub(super) const CONFIG_ENGINE: i32 = 300;
    pub(super) const CONFIG_KNOBS: i32 = 302;
    pub(super) const CONFIG_WORKSPACE: i32 = 303;
    pub(super) const PLAN_CONFIG: i32 = 401;
    pub(super) const PLAN_WORKSPACE: i32 = 402;
    pub(super) const PLAN_DEVICE: i32 = 407;
    pub(super) const KNOB_TYPE: i32 = 600;
    pub(super) const KNOB_VALUE: i32 = 601;
    pub(super) const GRAPH_OPERATIONS: i32 = 801;
    pub(super) const TENSOR_ALIGNMENT: i32 = 900;
    pub(super) const TENSOR_TYPE: i32 = 901;
    pub(super) const TENSOR_SIZES: i32 = 902;
    pub(super) const TENSOR_STRIDES: i32 = 903;
    pub(super) const TENSOR_ID: i32 = 906;
    pub(super) const TENSOR_IS_VIRTUAL: i32 = 907;
    pub(super) const ENGINE_NUMBER: i32 = 1301;
    pub(super) const ENGINE_NOTES: i32 = 1303;
    pub(super) const DEVICE_JSON: i32 = 2702;
}

/// PyTorch declares tensors with this alignment, in bytes, whatever their addresses are.
const ALIGNMENT: i64 = 32;

/// No engine has more settings.
const MOST_KNOBS: usize = 16;

/// The attributes of an operation.
struct Operation {
    kind: Kind,
    alpha: i32,
    beta: i32,
    convolution: i32,
    weight: i32,
    image: i32,
    result: i32,
}

fn operation(pass: ConvolutionPass) -> Operation {
    let numbered = |kind, first| Operation {
        kind,
        alpha: first,
        beta: first + 1,
        convolution: first + 2,
        weight: first + 3,
        image: first + 4,
        result: first + 5,
    };
    match pass {
        ConvolutionPass::Forward => numbered(Kind::Forward, 700),
        ConvolutionPass::InputGradient => numbered(Kind::InputGradient, 706),
        ConvolutionPass::WeightGradient => numbered(Kind::WeightGradient, 712),
    }
}

/// cuDNN's heuristic for one GPU.
pub(crate) struct Heuristic {
    backend: Backend,
    device: Descriptor,
    /// Whether cuDNN takes engines that use cuBLASLt into account.
    has_cublas_engines: bool,
}

impl Heuristic {
    /// For a GPU with these properties, as JSON. It need not be there.
    pub(crate) fn new(backend: Backend, properties: &str, has_cublas_engines: bool) -> Result<Heuristic, Refused> {
        let device = backend.descriptor(Kind::DeviceProperties)?;
        device.set_text(number::DEVICE_JSON, properties)?;
        device.finalize()?;
        Ok(Heuristic { backend, device, has_cublas_engines })
    }

    /// The first plan that PyTorch would run, as a [`Reply`]; an empty one where cuDNN has no plan.
    pub(crate) fn first_plan(&self, problem: &ConvolutionProblem) -> Result<Reply, Refused> {
        let graph = self.graph(problem)?;
        // The first answer nearly always makes a plan, and is found much sooner than all of them.
        for (mode, limit) in [
            (number::HEURISTIC_INSTANT, Some(1)),
            (number::HEURISTIC_INSTANT, None),
            (number::HEURISTIC_FALLBACK, None),
        ] {
            for config in self.configs(&graph, mode, limit)? {
                // Where a plan cannot be made, PyTorch tries the next one.
                if let Ok(Some(bytes)) = self.plan_workspace(&config) {
                    return self.described(bytes, &config);
                }
            }
        }
        Ok(Reply::new())
    }

    /// A plan's workspace, engine and settings. Where engines that use cuBLASLt are left out, the engine may be another on the GPU itself,
    /// and only the workspace is said.
    fn described(&self, workspace: u64, config: &Descriptor) -> Result<Reply, Refused> {
        let mut reply = vec![workspace];
        let engine = config.descriptors(number::CONFIG_ENGINE, Kind::Engine, 1)?.pop();
        if let Some(engine) = engine.filter(|_| self.has_cublas_engines) {
            reply.push(engine.integer(number::ENGINE_NUMBER)?.unsigned_abs());
            for choice in config.descriptors(number::CONFIG_KNOBS, Kind::KnobChoice, MOST_KNOBS)? {
                reply.push(u64::from(choice.knob(number::KNOB_TYPE)?.unsigned_abs()));
                // Some settings are -1.
                reply.push(choice.integer(number::KNOB_VALUE)?.cast_unsigned());
            }
        }
        Ok(reply)
    }

    /// Bytes of the workspaces of all plans that PyTorch tries with `torch.backends.cudnn.benchmark`, each once, the largest first. A
    /// configuration says its plan's workspace before the plan is made, and nearly all plans can be made, so that only the largest are.
    pub(crate) fn workspaces(&self, problem: &ConvolutionProblem) -> Result<Vec<u64>, Refused> {
        let graph = self.graph(problem)?;
        let mut found = Vec::new();
        for mode in [number::HEURISTIC_INSTANT, number::HEURISTIC_FALLBACK] {
            for config in self.configs(&graph, mode, None)? {
                let is_tried = self.engine(&config).is_ok_and(|engine| engine.is_some());
                if is_tried && let Ok(bytes) = config.integer(number::CONFIG_WORKSPACE) {
                    found.push((u64::try_from(bytes).unwrap_or(0), config));
                }
            }
        }
        found.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let largest = found.iter().position(|(_, config)| matches!(self.plan_workspace(config), Ok(Some(_))));
        let mut workspaces: Vec<u64> =
            found.iter().skip(largest.unwrap_or(found.len())).map(|(bytes, _)| *bytes).collect();
        workspaces.dedup();
        Ok(workspaces)
    }

    fn configs(&self, graph: &Descriptor, mode: i32, limit: Option<usize>) -> Result<Vec<Descriptor>, Refused> {
        let heuristics = self.backend.descriptor(Kind::EngineHeuristics)?;
        heuristics.set_descriptor(number::HEURISTICS_GRAPH, graph)?;
        heuristics.set_heuristic_mode(number::HEURISTICS_MODE, mode)?;
        heuristics.set_descriptor(number::HEURISTICS_DEVICE, &self.device)?;
        heuristics.finalize()?;
        let limit = match limit {
            Some(limit) => limit,
            None => heuristics.count(number::HEURISTICS_RESULTS)?,
        };
        heuristics.descriptors(number::HEURISTICS_RESULTS, Kind::EngineConfig, limit)
    }

    /// The engine of a plan; `None` where PyTorch skips it because it converts inputs to a smaller type.
    fn engine(&self, config: &Descriptor) -> Result<Option<Descriptor>, Refused> {
        let engine = config.descriptors(number::CONFIG_ENGINE, Kind::Engine, 1)?.pop();
        let Some(engine) = engine else { return Ok(None) };
        let is_skipped = engine.notes(number::ENGINE_NOTES)?.contains(&number::DOWN_CONVERTS_INPUTS);
        Ok((!is_skipped).then_some(engine))
    }

    /// The workspace of a plan; `None` where PyTorch skips it.
    fn plan_workspace(&self, config: &Descriptor) -> Result<Option<u64>, Refused> {
        if self.engine(config)?.is_none() {
            return Ok(None);
        }
        let plan = self.backend.descriptor(Kind::ExecutionPlan)?;
        plan.set_descriptor(number::PLAN_CONFIG, config)?;
        plan.set_descriptor(number::PLAN_DEVICE, &self.device)?;
        plan.finalize()?;
        Ok(u64::try_from(plan.integer(number::PLAN_WORKSPACE)?).ok())
    }

    fn graph(&self, problem: &ConvolutionProblem) -> Result<Descriptor, Refused> {
        let convolution = self.backend.descriptor(Kind::Convolution)?;
        convolution.set_data_type(number::CONVOLUTION_COMPUTE_TYPE, number::FLOAT)?;
        convolution.set_convolution_mode(number::CONVOLUTION_MODE, number::CROSS_CORRELATION)?;
        convolution.set_integers(number::CONVOLUTION_RANK, &[problem.stride.len() as i64])?;
        convolution.set_integers(number::CONVOLUTION_DILATIONS, &problem.dilation)?;
        convolution.set_integers(number::CONVOLUTION_STRIDES, &problem.stride)?;
        convolution.set_integers(number::CONVOLUTION_POST_PADDINGS, &problem.padding)?;
        convolution.set_integers(number::CONVOLUTION_PRE_PADDINGS, &problem.padding)?;
        convolution.finalize()?;
        let attributes = operation(problem.pass);
        let node = self.backend.descriptor(attributes.kind)?;
        for (attribute, id, sizes) in [
            (attributes.image, b'x', &problem.image),
            (attributes.result, b'y', &problem.result),
            (attributes.weight, b'w', &problem.weight),
        ] {
            node.set_descriptor(attribute, &self.tensor(sizes, problem, i64::from(id))?)?;
        }
        node.set_descriptor(attributes.convolution, &convolution)?;
        node.set_float(attributes.alpha, 1.0)?;
        node.set_float(attributes.beta, 0.0)?;
        node.finalize()?;
        let graph = self.backend.descriptor(Kind::OperationGraph)?;
        graph.set_descriptor(number::GRAPH_OPERATIONS, &node)?;
        graph.finalize()?;
        Ok(graph)
    }

    fn tensor(&self, sizes: &[i64], problem: &ConvolutionProblem, id: i64) -> Result<Descriptor, Refused> {
        let tensor = self.backend.descriptor(Kind::Tensor)?;
        let data_type = match problem.dtype {
            Dtype::Float16 => number::HALF,
            Dtype::Bfloat16 => number::BFLOAT16,
            _ => number::FLOAT,
        };
        tensor.set_data_type(number::TENSOR_TYPE, data_type)?;
        tensor.set_integers(number::TENSOR_SIZES, sizes)?;
        tensor.set_integers(number::TENSOR_STRIDES, &strides(sizes, problem.format))?;
        tensor.set_integers(number::TENSOR_ID, &[id])?;
        tensor.set_integers(number::TENSOR_ALIGNMENT, &[ALIGNMENT])?;
        tensor.set_boolean(number::TENSOR_IS_VIRTUAL, false)?;
        tensor.finalize()?;
        Ok(tensor)
    }
}

/// The strides of a dense tensor. A dimension of size one has the stride that PyTorch passes to cuDNN.
fn strides(sizes: &[i64], format: Format) -> Vec<i64> {
    let sides = (2..sizes.len()).rev();
    let order: Vec<usize> = match format {
        Format::ChannelsLast => std::iter::once(1).chain(sides).chain([0]).collect(),
        Format::Contiguous => sides.chain([1, 0]).collect(),
    };
    let (mut strides, mut elements) = (vec![0; sizes.len()], 1);
    for dim in order {
        strides[dim] = elements;
        elements *= sizes[dim];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_follow_the_memory_format() {
        assert_eq!(strides(&[2, 3, 5, 7], Format::Contiguous), [105, 35, 7, 1]);
        assert_eq!(strides(&[2, 3, 5, 7], Format::ChannelsLast), [105, 1, 21, 3]);
    }
}
