//! The types of a bound model.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::dims::Dims;
use crate::dtype::Dtype;
use crate::model::{Argument, Call, Model, OperatorId, Step, TensorId, Variant};
use crate::select::Sizes;

/// A tensor with numbers for sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTensor {
    /// The type of its elements.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Dims,
    /// The strides.
    pub strides: Dims,
    /// Its storage: tensors with the same number share memory.
    pub storage: u32,
    /// Where it begins in the storage, in elements.
    pub offset: i64,
    /// How many elements it has.
    pub elements: i64,
    /// `elements` times the size of one. An expanded tensor counts an element for every position that shows it.
    pub bytes: u64,
    /// The bytes its storage must have: up to the end of its last element, `offset` included.
    pub extent: u64,
    /// Whether it required grad when it was made.
    pub requires_grad: bool,
    /// Whether it is a leaf.
    pub is_leaf: bool,
    /// Whether it is in host memory.
    pub is_on_host: bool,
    /// Whether it was made as a view.
    pub is_view: bool,
}

/// An argument with numbers for sizes.
pub type Value = Argument<i64>;

/// A call of an operator, with numbers for sizes; its results are the model's.
pub type BoundCall<'model> = Call<i64, &'model [Option<TensorId>]>;

/// One event of a step, with numbers for sizes; its lists are the model's.
pub type BoundStep<'model> = Step<BoundCall<'model>, &'model [TensorId], &'model str>;

/// The recorded backward of a custom autograd function, with numbers for sizes. It owns what it needs: a node of the graph
/// holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundBackward {
    /// The index of the step at which the function's forward ends.
    pub end: usize,
    /// As in [`RecordedBackward::arguments`](crate::model::RecordedBackward::arguments).
    pub arguments: Option<Vec<TensorId>>,
    /// Tensors that live as long as the graph.
    pub kept: Vec<TensorId>,
    /// The incoming gradient of each result.
    pub gradients: Vec<Option<TensorId>>,
    /// The returned gradient of each argument.
    pub results: Vec<Option<TensorId>>,
    /// The steps.
    pub steps: Vec<Step<Call<i64>>>,
    /// The results of its calls, as captured.
    pub tensors: BTreeMap<TensorId, BoundTensor>,
}

/// One variant of a model with numbers in place of its symbols.
#[derive(Clone, Debug)]
pub struct Bound<'model> {
    /// The model.
    pub model: &'model Model,
    /// The index of the variant in [`Model::variants`].
    pub variant_index: usize,
    /// The variant.
    pub variant: &'model Variant,
    /// The value of each of the model's symbols.
    pub sizes: Sizes,
    /// The tensors; a [`TensorId`] is an index into them.
    pub tensors: Vec<BoundTensor>,
    /// The events, in order.
    pub steps: Vec<BoundStep<'model>>,
    /// The recorded backwards of custom autograd functions.
    pub functions: Vec<Arc<BoundBackward>>,
    /// The same step under other assumptions, as far as these can have the sizes.
    pub alternatives: Vec<Bound<'model>>,
}

impl Bound<'_> {
    /// The tensor with this number, which must be one of the variant's.
    pub fn tensor(&self, tensor: TensorId) -> &BoundTensor {
        &self.tensors[tensor.0 as usize]
    }

    /// The operator of a call.
    pub fn operator(&self, call: &BoundCall<'_>) -> OperatorId {
        self.model.operators[call.operator as usize].id
    }

    /// The line of the model's code that makes a call, for people.
    pub fn place(&self, call: &BoundCall<'_>) -> String {
        call.source.and_then(|source| self.model.sources.get(source as usize)).map_or_else(
            || "the model".to_owned(),
            |source| format!("{}:{} in {}", source.file, source.line, source.function),
        )
    }

    /// The name of a call's operator, for people.
    pub fn operator_name(&self, call: &BoundCall<'_>) -> &str {
        &self.model.operators[call.operator as usize].name
    }
}
