//! Sparse tensors as `nn.Embedding(sparse=True)` gives them for gradients: some rows of a table, and which rows they are.
//!
//! As in PyTorch a row may be there more than once, until `coalesce` adds up what belongs to the same row.

use std::rc::Rc;

use vramfit_cudnn::Scenario;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::{Context, Tensor};
use crate::kernels::cub;

/// The rows of a sparse tensor.
#[derive(Clone, Debug)]
pub struct Rows {
    // Fields drop in order, as those of `SparseTensorImpl` do.
    /// One row each.
    pub values: Tensor,
    /// Which rows they are, 1 × their number.
    pub indices: Tensor,
}

impl Rows {
    /// How many there are, repeated ones too.
    pub fn count(&self) -> i64 {
        self.indices.layout().elements()
    }

    /// New memory for so many rows, the indices first.
    fn empty(&self, context: &Context, count: i64) -> Rows {
        let indices = context.empty_contiguous(self.indices.dtype(), &[1, count]);
        Rows { values: context.empty_contiguous(self.values.dtype(), &self.shape(count)), indices }
    }

    /// The shape of the values of so many rows.
    fn shape(&self, count: i64) -> Dims {
        let mut shape: Dims = self.values.shape().into();
        if let Some(first) = shape.first_mut() {
            *first = count;
        }
        shape
    }

    /// `clone()`: the values first.
    #[must_use]
    pub fn copied(&self, context: &Context) -> Rows {
        let values = context.empty_contiguous(self.values.dtype(), self.values.shape());
        Rows { values, indices: context.empty_contiguous(self.indices.dtype(), self.indices.shape()) }
    }

    /// Rows of the same number, the indices first, as operators make them that write a new tensor.
    #[must_use]
    pub fn like(&self, context: &Context) -> Rows {
        self.empty(context, self.count())
    }

    /// No rows.
    #[must_use]
    pub fn none(&self, context: &Context) -> Rows {
        self.empty(context, 0)
    }
}

/// `add_out_sparse_cuda`: the rows of both, one after the other. They are added up only where there are more than elements.
pub fn added(context: &mut Context, first: &Rows, second: &Rows, layout: &Rc<Layout>) -> Rows {
    let rows = first.empty(context, first.count() + second.count());
    if rows.count() <= layout.elements() {
        return rows;
    }
    coalesced(context, &rows, layout, Distinct::Unknown)
}

/// `first += second`, both of them sparse.
pub fn append(context: &mut Context, first: &Tensor, second: &Tensor) {
    let (Some(first_rows), Some(second_rows)) = (first.rows(), second.rows()) else { return };
    let (before, more) = (first_rows.borrow().clone(), second_rows.borrow().clone());
    if more.count() == 0 {
        return;
    }
    let rows = if before.count() == 0 {
        before.empty(context, more.count())
    } else {
        added(context, &before, &more, &first.shared_layout())
    };
    drop(first_rows.replace(rows));
    drop(before);
}

/// How many different rows a sparse tensor has.
#[derive(Clone, Copy, Debug)]
pub enum Distinct {
    /// So many, in each run.
    Always(i64),
    /// So many in one run; the numbers of rows were drawn at random.
    Once(i64),
    /// The numbers of rows are not known.
    Unknown,
}

impl Distinct {
    /// How many of `count` rows of a table that has `all`.
    fn among(self, context: &mut Context, count: i64, all: i64) -> i64 {
        if let Distinct::Always(distinct) = self {
            return distinct;
        }
        context.note_assumed_rows();
        match (self, context.plans().assumption) {
            (Distinct::Once(distinct), Scenario::Expected) => distinct,
            (_, scenario) => assumed(scenario, count, all),
        }
    }
}

/// `_coalesce_sparse_cuda`: rows sorted by their number, then added up, so that different ones are left.
pub fn coalesced(context: &mut Context, rows: &Rows, layout: &Layout, distinct: Distinct) -> Rows {
    let count = rows.count();
    if count < 2 {
        return rows.clone();
    }
    let integers = |context: &Context| context.empty_contiguous(Dtype::Int64, &[count]);
    let sorted = integers(context);
    let places = integers(context);
    let firsts = integers(context);
    drop(context.scratch(cub::merge_sort_pairs(count)));
    drop(context.scratch(cub::thrust_unique_by_key(count)));
    let all = layout.shape.first().copied().unwrap_or(1);
    let distinct = distinct.among(context, count, all);
    let values = context.empty_contiguous(rows.values.dtype(), &rows.shape(distinct));
    let read = context.contiguous(&rows.values);
    drop(firsts);
    drop(places);
    drop(read);
    // The sorted numbers of rows stay where they are, however few of them are left.
    Rows { values, indices: sorted.unsafe_view(Layout::contiguous(Dtype::Int64, &[1, distinct])) }
}

/// How many different ones there are among `count` rows of `all`, each as likely as any other.
fn assumed(scenario: Scenario, count: i64, all: i64) -> i64 {
    let most = count.min(all);
    match scenario {
        Scenario::Lower => most.min(1),
        Scenario::Upper => most,
        Scenario::Expected => {
            let rows = all as f64;
            let missed = (count as f64 * (-1.0 / rows).ln_1p()).exp();
            ((rows * (1.0 - missed)).round() as i64).clamp(most.min(1), most)
        }
    }
}

#[cfg(test)]
#[path = "sparse_tests.rs"]
mod tests;
