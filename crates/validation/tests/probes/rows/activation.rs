//! Activation probes.

use crate::Row;
use crate::bench::{Bench, Id};

macro_rules! unary {
    ($name:literal) => {
        |bench: &mut Bench, x: &[Id]| vec![bench.call($name, with![x[0]])]
    };
}

/// The rows.
pub const ROWS: &[Row] = &[
    ("ELU", unary!("aten.elu.default")),
    ("Hardshrink", unary!("aten.hardshrink.default")),
    ("Hardsigmoid", unary!("aten.hardsigmoid.default")),
    ("Hardtanh", unary!("aten.hardtanh.default")),
    ("Hardswish", unary!("aten.hardswish.default")),
    ("LeakyReLU", unary!("aten.leaky_relu.default")),
    ("LogSigmoid", unary!("aten.log_sigmoid.default")),
    ("ReLU", unary!("aten.relu.default")),
    ("ReLU6", unary!("aten.hardtanh.default")),
    ("SELU", unary!("aten.selu.default")),
    ("CELU", unary!("aten.celu.default")),
    ("GELU", unary!("aten.gelu.default")),
    ("Sigmoid", unary!("aten.sigmoid.default")),
    ("SiLU", unary!("aten.silu.default")),
    ("Mish", unary!("aten.mish.default")),
    ("Softplus", unary!("aten.softplus.default")),
    ("Softshrink", unary!("aten.softshrink.default")),
    ("Tanh", unary!("aten.tanh.default")),
    ("Threshold", unary!("aten.threshold.default")),
    ("ELU in place", unary!("aten.elu_.default")),
    ("Hardsigmoid in place", unary!("aten.hardsigmoid_.default")),
    ("Hardtanh in place", unary!("aten.hardtanh_.default")),
    ("Hardswish in place", unary!("aten.hardswish_.default")),
    ("LeakyReLU in place", unary!("aten.leaky_relu_.default")),
    ("ReLU in place", unary!("aten.relu_.default")),
    ("ReLU6 in place", unary!("aten.hardtanh_.default")),
    ("SELU in place", unary!("aten.selu_.default")),
    ("CELU in place", unary!("aten.celu_.default")),
    ("SiLU in place", unary!("aten.silu_.default")),
    ("Mish in place", unary!("aten.mish_.default")),
    ("Threshold in place", unary!("aten.threshold_.default")),
    ("tanh_", unary!("aten.tanh_.default")),
    ("sigmoid_", unary!("aten.sigmoid_.default")),
    ("relu_", unary!("aten.relu_.default")),
    ("exp_", unary!("aten.exp_.default")),
    ("sqrt_", unary!("aten.sqrt_.default")),
    ("abs_", unary!("aten.abs_.default")),
    ("neg_", unary!("aten.neg_.default")),
    ("GELU tanh", unary!("aten.gelu.default")),
    ("GLU", |bench, x| bench.last("aten.glu.default", with![x[0], -1_i64])),
    ("PReLU one", |bench, x| bench.last("aten.prelu.default", with![x[0], x[1]])),
    ("PReLU many", |bench, x| bench.last("aten.prelu.default", with![x[0], x[1]])),
    ("RReLU", |bench, x| vec![bench.call("aten.rrelu.default", with![x[0], 0.125, 0.333, true])]),
    ("quick gelu", |bench, x| {
        let scaled = bench.call("aten.mul.Tensor", with![x[0], 1.702]);
        let gate = bench.call("aten.sigmoid.default", with![scaled]);
        bench.free(scaled);
        let result = bench.call("aten.mul.Tensor", with![x[0], gate]);
        bench.free(gate);
        vec![result]
    }),
    ("swiglu", |bench, x| {
        let gate = bench.call("aten.silu.default", with![x[0]]);
        let result = bench.call("aten.mul.Tensor", with![gate, x[1]]);
        bench.free(gate);
        vec![result]
    }),
    ("Softsign", |bench, x| {
        let absolute = bench.call("aten.abs.default", with![x[0]]);
        let sum = bench.call("aten.add.Tensor", with![absolute, 1_i64]);
        bench.free(absolute);
        let result = bench.call("aten.div.Tensor", with![x[0], sum]);
        bench.free(sum);
        vec![result]
    }),
    ("Tanhshrink", |bench, x| {
        let tanh = bench.call("aten.tanh.default", with![x[0]]);
        let result = bench.call("aten.sub.Tensor", with![x[0], tanh]);
        bench.free(tanh);
        vec![result]
    }),
];
