//! Probes of norms over channels, pools and resizing.

use crate::Row;
use crate::bench::{Bench, Id};

macro_rules! last {
    ($name:literal $(, $argument:expr)*) => {
        |bench: &mut Bench, x: &[Id]| bench.last($name, with![x[0] $(, $argument)*])
    };
}

/// The rows.
pub const ROWS: &[Row] = &[
    ("batch_norm", |bench, x| batch_norm(bench, x, true)),
    ("batch_norm eval", |bench, x| batch_norm(bench, x, false)),
    ("batch_norm channels-last", |bench, x| batch_norm(bench, x, true)),
    ("batch_norm, parameters fp32", |bench, x| batch_norm(bench, x, true)),
    ("group_norm", |bench, x| {
        let groups = groups(bench, x[0]);
        bench.last("aten.group_norm.default", with![x[0], groups, x[1], x[2], 1e-5, true])
    }),
    ("group_norm plain", |bench, x| {
        let groups = groups(bench, x[0]);
        bench.last("aten.group_norm.default", with![x[0], groups, (), (), 1e-5, true])
    }),
    ("instance_norm", |bench, x| {
        bench.last("aten.instance_norm.default", with![x[0], x[1], x[2], (), (), true, 0.1, 1e-5, true])
    }),
    ("instance_norm plain", last!("aten.instance_norm.default", (), (), (), (), true, 0.1, 1e-5, true)),
    ("max_pool2d", last!("aten.max_pool2d.default", vec![2_i64, 2])),
    ("max_pool2d overlapping", last!("aten.max_pool2d.default", vec![3_i64, 3])),
    ("max_pool2d indices", last!("aten.max_pool2d_with_indices.default", vec![2_i64, 2])),
    ("avg_pool2d", last!("aten.avg_pool2d.default", vec![2_i64, 2])),
    ("adaptive_avg_pool2d 1", last!("aten.adaptive_avg_pool2d.default", vec![1_i64, 1])),
    ("adaptive_avg_pool2d 7", last!("aten.adaptive_avg_pool2d.default", vec![7_i64, 7])),
    ("interpolate area", last!("aten.adaptive_avg_pool2d.default", vec![5_i64, 5])),
    ("interpolate nearest", last!("aten.upsample_nearest2d.vec", (), vec![2.0, 2.0])),
    ("interpolate bilinear", last!("aten.upsample_bilinear2d.vec", (), false, vec![2.0, 2.0])),
    ("interpolate bicubic", last!("aten.upsample_bicubic2d.vec", (), false, vec![2.0, 2.0])),
    ("interpolate linear", last!("aten.upsample_linear1d.vec", (), false, vec![2.0])),
    ("max_pool1d", last!("aten.max_pool1d.default", vec![2_i64])),
    ("avg_pool1d", last!("aten.avg_pool1d.default", vec![2_i64])),
    ("adaptive_avg_pool1d", last!("aten.adaptive_avg_pool1d.default", vec![1_i64])),
    ("max_pool3d", last!("aten.max_pool3d.default", vec![2_i64])),
    ("avg_pool3d", last!("aten.avg_pool3d.default", vec![2_i64])),
    ("adaptive_avg_pool3d", last!("aten.adaptive_avg_pool3d.default", vec![1_i64])),
];

/// The statistics that are kept up to date are made first.
fn batch_norm(bench: &mut Bench, x: &[Id], is_training: bool) -> Vec<Id> {
    let given = (bench.dtype(x[1]), bench.shape(x[1]));
    let mean = bench.call_as("aten.zeros.default", with![vec![given.1[0]]], given.clone());
    let variance = bench.call_as("aten.ones.default", with![vec![given.1[0]]], given);
    let arguments = with![x[0], x[1], x[2], mean, variance, is_training, 0.1, 1e-5, true];
    let result = bench.last("aten.batch_norm.default", arguments);
    bench.free(mean);
    bench.free(variance);
    result
}

fn groups(bench: &Bench, x: Id) -> i64 {
    match bench.shape(x)[1] {
        7 => 7,
        33 => 3,
        _ => 32,
    }
}
