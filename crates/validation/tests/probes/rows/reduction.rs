//! Reduction probes.

use vramfit_graph::dtype::Dtype;

use crate::Row;
use crate::bench::{Bench, Id};

/// A reduction over one dimension.
macro_rules! over {
    ($name:literal, $dim:expr, $keep:expr) => {
        |bench: &mut Bench, x: &[Id]| bench.last($name, with![x[0], vec![$dim as i64], $keep])
    };
}

/// A reduction over one dimension, from the shape alone.
macro_rules! grid {
    ($name:literal, $dim:expr) => {
        |bench: &mut Bench, x: &[Id]| {
            let mut shape = bench.shape(x[0]);
            shape.remove($dim);
            let given = (bench.dtype(x[0]), shape);
            vec![bench.call_as($name, with![x[0], vec![$dim as i64], false], given)]
        }
    };
}

/// A reduction over everything.
macro_rules! whole {
    ($name:literal) => {
        |bench: &mut Bench, x: &[Id]| {
            let given = (bench.dtype(x[0]), vec![]);
            vec![bench.call_as($name, with![x[0]], given)]
        }
    };
}

/// The rows.
pub const ROWS: &[Row] = &[
    ("sum dim -1", over!("aten.sum.dim_IntList", -1, false)),
    ("sum dim -1 keepdim", over!("aten.sum.dim_IntList", -1, true)),
    ("sum dim 0", over!("aten.sum.dim_IntList", 0, false)),
    ("sum dim 0 keepdim", over!("aten.sum.dim_IntList", 0, true)),
    ("sum dim 1", over!("aten.sum.dim_IntList", 1, false)),
    ("sum dim 1 keepdim", over!("aten.sum.dim_IntList", 1, true)),
    ("mean dim -1", over!("aten.mean.dim", -1, false)),
    ("mean dim -1 keepdim", over!("aten.mean.dim", -1, true)),
    ("mean dim 0", over!("aten.mean.dim", 0, false)),
    ("mean dim 0 keepdim", over!("aten.mean.dim", 0, true)),
    ("mean dim 1", over!("aten.mean.dim", 1, false)),
    ("mean dim 1 keepdim", over!("aten.mean.dim", 1, true)),
    ("amax dim -1", over!("aten.amax.default", -1, false)),
    ("amax dim -1 keepdim", over!("aten.amax.default", -1, true)),
    ("amax dim 0", over!("aten.amax.default", 0, false)),
    ("amax dim 0 keepdim", over!("aten.amax.default", 0, true)),
    ("amax dim 1", over!("aten.amax.default", 1, false)),
    ("amax dim 1 keepdim", over!("aten.amax.default", 1, true)),
    ("amin dim -1", over!("aten.amin.default", -1, false)),
    ("amin dim -1 keepdim", over!("aten.amin.default", -1, true)),
    ("amin dim 0", over!("aten.amin.default", 0, false)),
    ("amin dim 0 keepdim", over!("aten.amin.default", 0, true)),
    ("amin dim 1", over!("aten.amin.default", 1, false)),
    ("amin dim 1 keepdim", over!("aten.amin.default", 1, true)),
    ("logsumexp dim -1", over!("aten.logsumexp.default", -1, false)),
    ("logsumexp dim -1 keepdim", over!("aten.logsumexp.default", -1, true)),
    ("logsumexp dim 0", over!("aten.logsumexp.default", 0, false)),
    ("logsumexp dim 0 keepdim", over!("aten.logsumexp.default", 0, true)),
    ("logsumexp dim 1", over!("aten.logsumexp.default", 1, false)),
    ("logsumexp dim 1 keepdim", over!("aten.logsumexp.default", 1, true)),
    ("var dim -1", |bench, x| bench.last("aten.var.correction", with![x[0], vec![-1_i64], (), false])),
    ("var dim -1 keepdim", |bench, x| bench.last("aten.var.correction", with![x[0], vec![-1_i64], (), true])),
    ("var dim 0", |bench, x| bench.last("aten.var.correction", with![x[0], vec![0_i64], (), false])),
    ("var dim 0 keepdim", |bench, x| bench.last("aten.var.correction", with![x[0], vec![0_i64], (), true])),
    ("var dim 1", |bench, x| bench.last("aten.var.correction", with![x[0], vec![1_i64], (), false])),
    ("var dim 1 keepdim", |bench, x| bench.last("aten.var.correction", with![x[0], vec![1_i64], (), true])),
    ("var all", |bench, x| bench.last("aten.var.correction", with![x[0], (), (), false])),
    ("std dim -1", |bench, x| bench.last("aten.std.correction", with![x[0], vec![-1_i64], (), false])),
    ("std dim -1 keepdim", |bench, x| bench.last("aten.std.correction", with![x[0], vec![-1_i64], (), true])),
    ("std dim 0", |bench, x| bench.last("aten.std.correction", with![x[0], vec![0_i64], (), false])),
    ("std dim 0 keepdim", |bench, x| bench.last("aten.std.correction", with![x[0], vec![0_i64], (), true])),
    ("std dim 1", |bench, x| bench.last("aten.std.correction", with![x[0], vec![1_i64], (), false])),
    ("std dim 1 keepdim", |bench, x| bench.last("aten.std.correction", with![x[0], vec![1_i64], (), true])),
    ("std all", |bench, x| bench.last("aten.std.correction", with![x[0], (), (), false])),
    ("sum all", whole!("aten.sum.default")),
    ("mean all", whole!("aten.mean.default")),
    ("max all", whole!("aten.max.default")),
    ("min all", whole!("aten.min.default")),
    ("max dim -1", |bench, x| bench.last("aten.max.dim", with![x[0], -1_i64, false])),
    ("max dim 0", |bench, x| bench.last("aten.max.dim", with![x[0], 0_i64, false])),
    ("min dim -1", |bench, x| bench.last("aten.min.dim", with![x[0], -1_i64, false])),
    ("min dim 0", |bench, x| bench.last("aten.min.dim", with![x[0], 0_i64, false])),
    ("median dim -1", |bench, x| bench.last("aten.median.dim", with![x[0], -1_i64, false])),
    ("mode dim -1", |bench, x| bench.last("aten.mode.default", with![x[0], -1_i64, false])),
    ("norm 1", |bench, x| bench.last("aten.linalg_vector_norm.default", with![x[0], 1_i64, (), false])),
    ("norm 1 dim", |bench, x| bench.last("aten.linalg_vector_norm.default", with![x[0], 1_i64, vec![-1_i64], false])),
    ("norm 2", |bench, x| bench.last("aten.linalg_vector_norm.default", with![x[0], 2_i64, (), false])),
    ("norm 2 dim", |bench, x| bench.last("aten.linalg_vector_norm.default", with![x[0], 2_i64, vec![-1_i64], false])),
    ("sum to float32", |bench, x| bench.last("aten.sum.default", with![x[0], Dtype::Float32])),
    ("sum dim to float32", |bench, x| {
        bench.last("aten.sum.dim_IntList", with![x[0], vec![-1_i64], false, Dtype::Float32])
    }),
    ("cumsum", |bench, x| bench.last("aten.cumsum.default", with![x[0], -1_i64])),
    ("cumsum dim 0", |bench, x| bench.last("aten.cumsum.default", with![x[0], 0_i64])),
    ("sum two dims", |bench, x| bench.last("aten.sum.dim_IntList", with![x[0], vec![0_i64, 1], false])),
    ("mean two dims", |bench, x| bench.last("aten.mean.dim", with![x[0], vec![2_i64, 3], false])),
    ("any dim", truth_rows),
    ("all dim", truth_rows),
    ("grid sum dim 0", grid!("aten.sum.dim_IntList", 0)),
    ("grid sum dim 1", grid!("aten.sum.dim_IntList", 1)),
    ("grid mean dim 1", grid!("aten.mean.dim", 1)),
    ("grid argmax dim 1", |bench, x| {
        let given = (Dtype::Int64, bench.shape(x[0])[..1].to_vec());
        vec![bench.call_as("aten.argmax.default", with![x[0], 1_i64, false], given)]
    }),
    ("grid amax dim 0", grid!("aten.amax.default", 0)),
    ("grid sum", whole!("aten.sum.default")),
    ("grid mean", whole!("aten.mean.default")),
    ("grid max", whole!("aten.max.default")),
    ("grid argmax", |bench, x| vec![bench.call_as("aten.argmax.default", with![x[0], ()], (Dtype::Int64, vec![]))]),
    ("argmax all", |bench, x| vec![bench.call_as("aten.argmax.default", with![x[0], ()], (Dtype::Int64, vec![]))]),
    ("grid norm", whole!("aten.linalg_vector_norm.default")),
    ("grid var", |bench, x| {
        let given = (bench.dtype(x[0]), vec![]);
        vec![bench.call_as("aten.var.correction", with![x[0], (), (), false], given)]
    }),
    ("grid prod", whole!("aten.prod.default")),
    ("grid cumsum", |bench, x| vec![bench.call("aten.cumsum.default", with![x[0], 0_i64])]),
    ("cumsum integers", |bench, x| vec![bench.call("aten.cumsum.default", with![x[0], 0_i64])]),
    ("cumsum rows integers", |bench, x| vec![bench.call("aten.cumsum.default", with![x[0], 1_i64])]),
    ("grid any", whole!("aten.any.default")),
    ("grid all", whole!("aten.all.default")),
    ("any of booleans", whole!("aten.any.default")),
    ("all of booleans", whole!("aten.all.default")),
    ("sum of booleans", |bench, x| vec![bench.call_as("aten.sum.default", with![x[0]], (Dtype::Int64, vec![]))]),
    ("grid sum leading", |bench, x| leading(bench, x, false)),
    ("grid sum leading keepdim", |bench, x| leading(bench, x, true)),
    ("grid sum batch", |bench, x| some(bench, x, &[0])),
    ("grid sum batch and query", |bench, x| some(bench, x, &[0, 2])),
];

fn truth_rows(bench: &mut Bench, x: &[Id]) -> Vec<Id> {
    let mut shape = bench.shape(x[0]);
    shape.pop();
    vec![bench.call_as("aten.any.dim", with![x[0], -1_i64, false], (Dtype::Bool, shape))]
}

fn leading(bench: &mut Bench, x: &[Id], keeps: bool) -> Vec<Id> {
    let shape = bench.shape(x[0]);
    let dims: Vec<i64> = (0..shape.len() as i64 - 1).collect();
    let given = (bench.dtype(x[0]), shape);
    vec![bench.call_as("aten.sum.dim_IntList", with![x[0], dims, keeps], given)]
}

fn some(bench: &mut Bench, x: &[Id], dims: &[i64]) -> Vec<Id> {
    let given = (bench.dtype(x[0]), bench.shape(x[0]));
    vec![bench.call_as("aten.sum.dim_IntList", with![x[0], dims.to_vec(), true], given)]
}
