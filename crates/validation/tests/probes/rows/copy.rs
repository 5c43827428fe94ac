//! Probes of copies, joining, cutting, indexing.

use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;

use crate::Row;
use crate::bench::{Bench, Id, IntoValue};

macro_rules! last {
    ($name:literal $(, $argument:expr)*) => {
        |bench: &mut Bench, x: &[Id]| bench.last($name, with![x[0] $(, $argument)*])
    };
}

/// The rows.
pub const ROWS: &[Row] = &[
    ("to fp32", |bench, x| cast(bench, x, Dtype::Float32, false)),
    ("to bf16", |bench, x| cast(bench, x, Dtype::Bfloat16, false)),
    ("to fp16", |bench, x| cast(bench, x, Dtype::Float16, false)),
    ("to fp32 copy", |bench, x| cast(bench, x, Dtype::Float32, true)),
    ("to bf16 copy", |bench, x| cast(bench, x, Dtype::Bfloat16, true)),
    ("clone", last!("aten.clone.default")),
    ("contiguous of transposed", |bench, x| {
        let turned = turned(bench, x[0]);
        let result = bench.last("aten.contiguous.default", with![turned]);
        bench.free(turned);
        result
    }),
    ("clone of transposed", |bench, x| {
        let turned = turned(bench, x[0]);
        let result = bench.last("aten.clone.default", with![turned]);
        bench.free(turned);
        result
    }),
    ("reshape of transposed", |bench, x| {
        let turned = turned(bench, x[0]);
        let result = bench.last("aten.reshape.default", with![turned, vec![-1_i64]]);
        bench.free(turned);
        result
    }),
    ("view", last!("aten.view.default", vec![-1_i64])),
    ("slice", last!("aten.slice.Tensor", -1_i64, 1_i64, -1_i64, 1_i64)),
    ("select", last!("aten.select.int", 1_i64, 0_i64)),
    ("narrow rows", last!("aten.slice.Tensor", 0_i64, 0_i64, 2_i64, 1_i64)),
    ("step slice", last!("aten.slice.Tensor", -1_i64, 0_i64, i64::MAX, 2_i64)),
    ("repeat", |bench, x| {
        let mut times = vec![1_i64; bench.shape(x[0]).len()];
        times[0] = 2;
        bench.last("aten.repeat.default", with![x[0], times])
    }),
    ("repeat_interleave", last!("aten.repeat_interleave.self_int", 2_i64, 1_i64)),
    ("tile", last!("aten.tile.default", vec![2_i64])),
    ("flip", last!("aten.flip.default", vec![-1_i64])),
    ("roll", last!("aten.roll.default", vec![1_i64], vec![-1_i64])),
    ("roll flat", last!("aten.roll.default", vec![1_i64], Vec::<i64>::new())),
    ("diagonal", last!("aten.diagonal.default", 0_i64, -2_i64, -1_i64)),
    ("unbind", last!("aten.unbind.int", 0_i64)),
    ("unfold", last!("aten.unfold.default", -1_i64, 3_i64, 2_i64)),
    ("cat dim 0", |bench, x| joined(bench, x, "aten.cat.default", 0)),
    ("cat dim 1", |bench, x| joined(bench, x, "aten.cat.default", 1)),
    ("cat dim -1", |bench, x| joined(bench, x, "aten.cat.default", -1)),
    ("cat nine", |bench, x| joined(bench, x, "aten.cat.default", 1)),
    ("stack dim 0", |bench, x| joined(bench, x, "aten.stack.default", 0)),
    ("stack dim 1", |bench, x| joined(bench, x, "aten.stack.default", 1)),
    ("stack dim -1", |bench, x| joined(bench, x, "aten.stack.default", -1)),
    ("split all used", last!("aten.split.Tensor", 1_i64, -1_i64)),
    ("chunk all used", last!("aten.chunk.default", 2_i64, -1_i64)),
    ("split rows", last!("aten.split.Tensor", 2_i64, 0_i64)),
    ("chunk one used", |bench, x| {
        let parts = chunks(bench, x[0]);
        bench.free(parts[0]);
        bench.free(parts[2]);
        vec![parts[1]]
    }),
    ("chunk two of three", |bench, x| {
        let parts = chunks(bench, x[0]);
        bench.free(parts[2]);
        parts[..2].to_vec()
    }),
    ("pad constant", last!("aten.constant_pad_nd.default", vec![1_i64, 2])),
    ("pad negative", last!("aten.constant_pad_nd.default", vec![-1_i64, -1])),
    ("pad two dims", last!("aten.constant_pad_nd.default", vec![1_i64, 1, 2, 2])),
    ("copy_", |bench, x| vec![bench.call("aten.copy_.default", with![x[0], x[1]])]),
    ("zero_", |bench, x| vec![bench.call("aten.zero_.default", with![x[0]])]),
    ("fill_", |bench, x| vec![bench.call("aten.fill_.Scalar", with![x[0], 1.0])]),
    ("zeros_like", like),
    ("rand_like", like),
    ("bernoulli", |bench, x| vec![bench.call("aten.bernoulli.default", with![x[0]])]),
    ("gather", |bench, x| bench.last("aten.gather.default", with![x[0], 1_i64, x[1], false])),
    ("index_select rows", |bench, x| bench.last("aten.index_select.default", with![x[0], 0_i64, x[1]])),
    ("index_select columns", |bench, x| bench.last("aten.index_select.default", with![x[0], 1_i64, x[1]])),
    ("index rows", |bench, x| bench.last("aten.index.Tensor", with![x[0], vec![x[1]]])),
    ("index columns", |bench, x| {
        let list = Value::List(vec![().value(), x[1].value()]);
        bench.last("aten.index.Tensor", with![x[0], list])
    }),
    ("scatter", |bench, x| bench.last("aten.scatter.src", with![x[0], 1_i64, x[1], x[2]])),
    ("scatter value", |bench, x| bench.last("aten.scatter.value", with![x[0], 1_i64, x[1], 0.0])),
    ("scatter_add", |bench, x| bench.last("aten.scatter_add.default", with![x[0], 1_i64, x[1], x[2]])),
    ("index_add", |bench, x| bench.last("aten.index_add.default", with![x[0], 0_i64, x[1], x[2]])),
    ("index_fill", |bench, x| bench.last("aten.index_fill.int_Scalar", with![x[0], 0_i64, x[1], 0.0])),
];

fn cast(bench: &mut Bench, x: &[Id], dtype: Dtype, copies: bool) -> Vec<Id> {
    if bench.dtype(x[0]) == dtype && !copies {
        return vec![x[0]];
    }
    let given = (dtype, bench.shape(x[0]));
    vec![bench.call_as("aten.to.dtype", with![x[0], dtype], given)]
}

fn turned(bench: &mut Bench, x: Id) -> Id {
    let mut shape = bench.shape(x);
    let rank = shape.len();
    shape.swap(rank - 1, rank - 2);
    let given = (bench.dtype(x), shape);
    bench.call_as("aten.transpose.int", with![x, -1_i64, -2_i64], given)
}

fn joined(bench: &mut Bench, x: &[Id], name: &str, dim: i64) -> Vec<Id> {
    bench.last(name, with![x.to_vec(), dim])
}

fn chunks(bench: &mut Bench, x: Id) -> Vec<Id> {
    let mut shape = bench.shape(x);
    *shape.last_mut().expect("a dimension") /= 3;
    let given = (bench.dtype(x), shape);
    bench.call_all("aten.chunk.default", with![x, 3_i64, -1_i64], &[given.clone(), given.clone(), given])
}

fn like(bench: &mut Bench, x: &[Id]) -> Vec<Id> {
    vec![bench.call("aten.zeros_like.default", with![x[0]])]
}
