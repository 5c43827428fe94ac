//! A call as a rule sees it: arguments with their tensors put in.

use smallvec::SmallVec;
use vramfit_graph::bind::{BoundTensor, Value};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Edge, Tensor};

/// The results of a call, or why there is no rule for it.
pub type Outcome = Result<SmallVec<[Tensor; 1]>, Unmodelled>;

/// A call that no rule covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmodelled;

/// A call with its arguments.
pub struct Call<'a> {
    /// The arguments, in the operator's order.
    pub arguments: &'a [Value],
    /// The tensors, by number.
    pub tensors: &'a [Option<Tensor>],
    /// The results as they were captured, strides as on the meta device.
    pub captured: SmallVec<[Option<&'a BoundTensor>; 2]>,
}

impl Call<'_> {
    /// Whether all results are views.
    pub(crate) fn makes_only_views(&self) -> bool {
        let mut results = self.captured.iter().flatten().peekable();
        results.peek().is_some() && results.all(|result| result.is_view)
    }

    /// Whether it reads tensors, and all of them are in host memory: a copy from there launches no kernel.
    pub(crate) fn reads_only_host(&self) -> bool {
        let (mut reads, mut is_on_gpu) = (false, false);
        for argument in self.arguments {
            argument.each_tensor(&mut |id| {
                let tensor = self.tensors[id.0 as usize].as_ref();
                reads = true;
                is_on_gpu |= tensor.is_none_or(|tensor| !tensor.is_on_host());
            });
        }
        reads && !is_on_gpu
    }

    /// Whether a tensor among the arguments is sparse.
    pub(crate) fn has_sparse(&self) -> bool {
        let mut is_sparse = false;
        for argument in self.arguments {
            argument.each_tensor(&mut |id| {
                is_sparse |= self.tensors[id.0 as usize].as_ref().is_some_and(Tensor::is_sparse);
            });
        }
        is_sparse
    }

    /// The tensor that is argument `index`.
    pub fn tensor(&self, index: usize) -> Result<&Tensor, Unmodelled> {
        self.optional_tensor(index).ok_or(Unmodelled)
    }

    /// The tensor that is argument `index`, if it is one.
    pub fn optional_tensor(&self, index: usize) -> Option<&Tensor> {
        match self.arguments.get(index)? {
            Value::Tensor(id) => self.tensors.get(id.0 as usize)?.as_ref(),
            _ => None,
        }
    }

    /// The tensors of a list, in order.
    pub fn tensor_list(&self, index: usize) -> Result<Vec<&Tensor>, Unmodelled> {
        let Some(Value::List(values)) = self.arguments.get(index) else { return Err(Unmodelled) };
        values
            .iter()
            .map(|value| match value {
                Value::Tensor(id) => self.tensors.get(id.0 as usize).and_then(Option::as_ref).ok_or(Unmodelled),
                _ => Err(Unmodelled),
            })
            .collect()
    }

    /// The whole number that is argument `index`.
    pub fn int(&self, index: usize) -> Result<i64, Unmodelled> {
        match self.arguments.get(index) {
            Some(&Value::Int(number)) => Ok(number),
            _ => Err(Unmodelled),
        }
    }

    /// The dimension that is argument `index`, counted from the front of `rank` dimensions.
    pub fn dim(&self, index: usize, rank: usize) -> Result<usize, Unmodelled> {
        wrap(self.int(index)?, rank)
    }

    /// The whole numbers of a list; a single number counts as a list of one.
    pub fn ints(&self, index: usize) -> Result<Dims, Unmodelled> {
        match self.arguments.get(index) {
            Some(&Value::Int(number)) => Ok(Dims::from([number])),
            Some(Value::List(values)) => {
                let mut numbers = Dims::default();
                for value in values {
                    match value {
                        Value::Int(number) => numbers.push(*number),
                        _ => return Err(Unmodelled),
                    }
                }
                Ok(numbers)
            }
            _ => Err(Unmodelled),
        }
    }

    /// The truth value that is argument `index`.
    pub fn bool(&self, index: usize) -> Result<bool, Unmodelled> {
        match self.arguments.get(index) {
            Some(&Value::Bool(value)) => Ok(value),
            _ => Err(Unmodelled),
        }
    }

    /// Which of three results argument `index` asks for.
    pub fn mask(&self, index: usize) -> Result<[bool; 3], Unmodelled> {
        let Some(Value::List(values)) = self.arguments.get(index) else { return Err(Unmodelled) };
        match values.as_slice() {
            [Value::Bool(first), Value::Bool(second), Value::Bool(third)] => Ok([*first, *second, *third]),
            _ => Err(Unmodelled),
        }
    }

    /// The number that is argument `index`, whole or real.
    pub fn float(&self, index: usize) -> Result<f64, Unmodelled> {
        match self.arguments.get(index) {
            Some(&Value::Float(value)) => Ok(value),
            Some(&Value::Int(value)) => Ok(value as f64),
            _ => Err(Unmodelled),
        }
    }

    /// The element type that is argument `index`.
    pub fn dtype(&self, index: usize) -> Option<Dtype> {
        match self.arguments.get(index)? {
            Value::Dtype(dtype) => Some(*dtype),
            _ => None,
        }
    }

    /// Whether argument `index` is `None` or left out.
    pub fn is_none(&self, index: usize) -> bool {
        matches!(self.arguments.get(index), None | Some(Value::None))
    }

    /// The layout of result `index` as captured.
    pub fn result(&self, index: usize) -> Result<Layout, Unmodelled> {
        let captured = self.captured.get(index).copied().flatten().ok_or(Unmodelled)?;
        Ok(layout_of(captured))
    }
}

/// The layout of a captured tensor.
pub fn layout_of(captured: &BoundTensor) -> Layout {
    Layout { dtype: captured.dtype, shape: captured.shape.clone(), strides: captured.strides.clone() }
}

/// A dimension counted from the front.
pub fn wrap(dim: i64, rank: usize) -> Result<usize, Unmodelled> {
    let rank = rank as i64;
    let wrapped = if dim < 0 { dim + rank.max(1) } else { dim };
    if (0..rank.max(1)).contains(&wrapped) { Ok(wrapped as usize) } else { Err(Unmodelled) }
}

/// The results of a gradient's operator, each an output of `edge`. One that is not wanted is not defined: a tensor on the host with the
/// layout of `like` takes its place.
pub(crate) fn wanted_results(
    results: impl IntoIterator<Item = Option<Tensor>>,
    edge: Option<&Edge>,
    like: &Tensor,
) -> SmallVec<[Tensor; 1]> {
    let outputs = results.into_iter().enumerate().map(|(output, result)| match result {
        Some(result) => result.with_edge(edge.map(|edge| Edge { output, ..edge.clone() })),
        None => Tensor::on_host(like.shared_layout()),
    });
    outputs.collect()
}

/// The one result of a rule.
pub fn only(outcome: Outcome) -> Result<Tensor, Unmodelled> {
    outcome?.pop().ok_or(Unmodelled)
}
