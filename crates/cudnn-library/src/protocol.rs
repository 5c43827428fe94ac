//! What the program and its child process say to each other: one JSON object per line.

use serde::{Deserialize, Serialize};
use vramfit_cudnn::convolution::{ConvolutionPass, ConvolutionProblem};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

/// The first line of the child process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Greeting {
    /// The library is loaded; its version, such as 91900.
    Ready(usize),
    /// It cannot be used.
    Failed(String),
}

/// A convolution, as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Question {
    pass: u8,
    dtype: u8,
    is_channels_last: bool,
    image: Vec<i64>,
    result: Vec<i64>,
    weight: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
    /// Whether all plans are asked for, as `torch.backends.cudnn.benchmark` tries them, or the first.
    wants_all: bool,
}

/// The answer to a question, empty where cuDNN has no plan. About all plans: bytes of the workspaces, each once, the largest first. About the
/// first plan: what [`LivePlan::from_numbers`](vramfit_cudnn::convolution::LivePlan::from_numbers) reads.
pub(crate) type Reply = Vec<u64>;

const PASSES: [ConvolutionPass; 3] =
    [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
const DTYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Float16, Dtype::Bfloat16];

impl Question {
    /// About the first plan; `None` for an element type that PyTorch's cuDNN path is not asked about.
    pub(crate) fn first(problem: &ConvolutionProblem) -> Option<Question> {
        Question::new(problem, false)
    }

    /// About all plans.
    pub(crate) fn all(problem: &ConvolutionProblem) -> Option<Question> {
        Question::new(problem, true)
    }

    fn new(problem: &ConvolutionProblem, wants_all: bool) -> Option<Question> {
        let index = |position: Option<usize>| position.and_then(|index| u8::try_from(index).ok());
        Some(Question {
            pass: index(PASSES.iter().position(|pass| *pass == problem.pass))?,
            dtype: index(DTYPES.iter().position(|dtype| *dtype == problem.dtype))?,
            is_channels_last: problem.format == Format::ChannelsLast,
            image: problem.image.to_vec(),
            result: problem.result.to_vec(),
            weight: problem.weight.to_vec(),
            stride: problem.stride.to_vec(),
            padding: problem.padding.to_vec(),
            dilation: problem.dilation.to_vec(),
            groups: problem.groups,
            wants_all,
        })
    }

    /// A text that no other question has.
    pub(crate) fn key(&self) -> String {
        let Question { pass, dtype, is_channels_last, groups, .. } = self;
        let mut key = format!("{pass} {dtype} {} {groups}", u8::from(*is_channels_last));
        for sizes in [&self.image, &self.result, &self.weight, &self.stride, &self.padding, &self.dilation] {
            let mut separator = ' ';
            for size in sizes {
                key.push(separator);
                key += &size.to_string();
                separator = ',';
            }
        }
        if self.wants_all {
            key += " all";
        }
        key
    }

    /// Whether all plans are asked for.
    pub(crate) fn wants_all(&self) -> bool {
        self.wants_all
    }

    /// `None` where the text is not a convolution.
    pub(crate) fn problem(&self) -> Option<ConvolutionProblem> {
        let sides = self.stride.len();
        let ranks = [&self.image, &self.result, &self.weight];
        let is_sound = (2..=3).contains(&sides)
            && ranks.iter().all(|shape| shape.len() == sides + 2)
            && self.padding.len() == sides
            && self.dilation.len() == sides;
        is_sound.then_some(())?;
        let dims = |sizes: &[i64]| Dims::from(sizes.to_vec());
        Some(ConvolutionProblem {
            pass: *PASSES.get(usize::from(self.pass))?,
            dtype: *DTYPES.get(usize::from(self.dtype))?,
            format: if self.is_channels_last { Format::ChannelsLast } else { Format::Contiguous },
            image: dims(&self.image),
            result: dims(&self.result),
            weight: dims(&self.weight),
            stride: dims(&self.stride),
            padding: dims(&self.padding),
            dilation: dims(&self.dilation),
            groups: self.groups,
        })
    }
}
