//! Elementwise probes.

use vramfit_graph::dtype::Dtype;

use crate::Row;
use crate::bench::{Bench, Id};

/// Operators of one tensor.
macro_rules! unary {
    ($name:literal) => {
        |bench: &mut Bench, x: &[Id]| vec![bench.call($name, with![x[0]])]
    };
}

/// Operators of two tensors.
macro_rules! binary {
    ($name:literal) => {
        |bench: &mut Bench, x: &[Id]| vec![bench.call($name, with![x[0], x[1]])]
    };
}

/// Operators of a tensor and a number.
macro_rules! number {
    ($name:literal, $number:expr) => {
        |bench: &mut Bench, x: &[Id]| vec![bench.call($name, with![x[0], $number])]
    };
}

/// Comparisons of two tensors.
macro_rules! truth {
    ($name:literal) => {
        |bench: &mut Bench, x: &[Id]| {
            let arguments = x.iter().map(|id| crate::bench::IntoValue::value(*id)).collect();
            let shape = bench.shape(x[0]);
            vec![bench.call_as($name, arguments, (Dtype::Bool, shape))]
        }
    };
}

/// The rows.
pub const ROWS: &[Row] = &[
    ("abs", unary!("aten.abs.default")),
    ("neg", unary!("aten.neg.default")),
    ("exp", unary!("aten.exp.default")),
    ("exp2", unary!("aten.exp2.default")),
    ("expm1", unary!("aten.expm1.default")),
    ("log", unary!("aten.log.default")),
    ("log2", unary!("aten.log2.default")),
    ("log10", unary!("aten.log10.default")),
    ("log1p", unary!("aten.log1p.default")),
    ("sqrt", unary!("aten.sqrt.default")),
    ("rsqrt", unary!("aten.rsqrt.default")),
    ("reciprocal", unary!("aten.reciprocal.default")),
    ("square", unary!("aten.square.default")),
    ("sin", unary!("aten.sin.default")),
    ("cos", unary!("aten.cos.default")),
    ("tan", unary!("aten.tan.default")),
    ("asin", unary!("aten.asin.default")),
    ("acos", unary!("aten.acos.default")),
    ("atan", unary!("aten.atan.default")),
    ("sinh", unary!("aten.sinh.default")),
    ("cosh", unary!("aten.cosh.default")),
    ("tanh", unary!("aten.tanh.default")),
    ("asinh", unary!("aten.asinh.default")),
    ("acosh", unary!("aten.acosh.default")),
    ("atanh", unary!("aten.atanh.default")),
    ("sigmoid", unary!("aten.sigmoid.default")),
    ("erf", unary!("aten.erf.default")),
    ("erfc", unary!("aten.erfc.default")),
    ("erfinv", unary!("aten.erfinv.default")),
    ("floor", unary!("aten.floor.default")),
    ("ceil", unary!("aten.ceil.default")),
    ("round", unary!("aten.round.default")),
    ("trunc", unary!("aten.trunc.default")),
    ("frac", unary!("aten.frac.default")),
    ("sign", unary!("aten.sign.default")),
    ("lgamma", unary!("aten.lgamma.default")),
    ("digamma", unary!("aten.digamma.default")),
    ("logit", unary!("aten.logit.default")),
    ("nan_to_num", unary!("aten.nan_to_num.default")),
    ("relu", unary!("aten.relu.default")),
    ("add", binary!("aten.add.Tensor")),
    ("sub", binary!("aten.sub.Tensor")),
    ("mul", binary!("aten.mul.Tensor")),
    ("div", binary!("aten.div.Tensor")),
    ("pow", binary!("aten.pow.Tensor_Tensor")),
    ("maximum", binary!("aten.maximum.default")),
    ("minimum", binary!("aten.minimum.default")),
    ("fmod", binary!("aten.fmod.Tensor")),
    ("remainder", binary!("aten.remainder.Tensor")),
    ("hypot", binary!("aten.hypot.default")),
    ("add_", binary!("aten.add_.Tensor")),
    ("add_ scalar", number!("aten.add_.Tensor", 2.5)),
    ("add scalar", number!("aten.add.Tensor", 2.5)),
    ("add broadcast", binary!("aten.add.Tensor")),
    ("sub_", binary!("aten.sub_.Tensor")),
    ("sub_ scalar", number!("aten.sub_.Tensor", 2.5)),
    ("sub scalar", number!("aten.sub.Tensor", 2.5)),
    ("sub broadcast", binary!("aten.sub.Tensor")),
    ("mul_", binary!("aten.mul_.Tensor")),
    ("mul_ scalar", number!("aten.mul_.Tensor", 2.5)),
    ("mul scalar", number!("aten.mul.Tensor", 2.5)),
    ("mul broadcast", binary!("aten.mul.Tensor")),
    ("div_", binary!("aten.div_.Tensor")),
    ("div_ scalar", number!("aten.div_.Tensor", 2.5)),
    ("div scalar", number!("aten.div.Tensor", 2.5)),
    ("div broadcast", binary!("aten.div.Tensor")),
    ("mul broadcast parameter", binary!("aten.mul.Tensor")),
    ("mul broadcast constant", binary!("aten.mul.Tensor")),
    ("mul with fp32", binary!("aten.mul.Tensor")),
    ("mul with fp32 row", binary!("aten.mul.Tensor")),
    ("mul with integers", binary!("aten.mul.Tensor")),
    ("mul with booleans", binary!("aten.mul.Tensor")),
    ("add broadcast constant", binary!("aten.add.Tensor")),
    ("add with fp32", binary!("aten.add.Tensor")),
    ("add with fp32 row", binary!("aten.add.Tensor")),
    ("add with integers", binary!("aten.add.Tensor")),
    ("add with booleans", binary!("aten.add.Tensor")),
    ("bf16 + fp16", binary!("aten.add.Tensor")),
    ("pow 2", number!("aten.pow.Tensor_Scalar", 2_i64)),
    ("pow 2.0", number!("aten.pow.Tensor_Scalar", 2.0)),
    ("pow 3", number!("aten.pow.Tensor_Scalar", 3_i64)),
    ("pow 3.0", number!("aten.pow.Tensor_Scalar", 3.0)),
    ("pow 0.5", number!("aten.pow.Tensor_Scalar", 0.5)),
    ("pow -1", number!("aten.pow.Tensor_Scalar", -1_i64)),
    ("pow -0.5", number!("aten.pow.Tensor_Scalar", -0.5)),
    ("pow 1", number!("aten.pow.Tensor_Scalar", 1_i64)),
    ("pow 0", number!("aten.pow.Tensor_Scalar", 0_i64)),
    ("pow 1.7", number!("aten.pow.Tensor_Scalar", 1.7)),
    ("mul_ fp32", binary!("aten.mul_.Tensor")),
    ("add alpha", |bench, x| vec![bench.call("aten.add.Tensor", with![x[0], x[1], 0.5])]),
    ("scalar minus", number!("aten.rsub.Scalar", 1.0)),
    ("scalar over", |bench, x| {
        let one = bench.call("aten.reciprocal.default", with![x[0]]);
        let result = bench.call("aten.mul.Tensor", with![one, 1.0]);
        bench.free(one);
        vec![result]
    }),
    ("x * x", |bench, x| vec![bench.call("aten.mul.Tensor", with![x[0], x[0]])]),
    ("x + x", |bench, x| vec![bench.call("aten.add.Tensor", with![x[0], x[0]])]),
    ("residual", |bench, x| {
        let one = bench.call("aten.tanh.default", with![x[0]]);
        let result = bench.call("aten.add.Tensor", with![x[0], one]);
        bench.free(one);
        vec![result]
    }),
    ("sum of three", |bench, x| {
        let one = bench.call("aten.add.Tensor", with![x[0], x[1]]);
        let result = bench.call("aten.add.Tensor", with![one, x[2]]);
        bench.free(one);
        vec![result]
    }),
    ("lerp", |bench, x| vec![bench.call("aten.lerp.Scalar", with![x[0], x[1], 0.3])]),
    ("addcmul", |bench, x| vec![bench.call("aten.addcmul.default", with![x[0], x[1], x[2]])]),
    ("addcdiv", |bench, x| vec![bench.call("aten.addcdiv.default", with![x[0], x[1], x[2]])]),
    ("clamp", |bench, x| vec![bench.call("aten.clamp.default", with![x[0], 0.2, 0.8])]),
    ("clamp min", |bench, x| vec![bench.call("aten.clamp.default", with![x[0], 0.2, ()])]),
    ("clamp max", |bench, x| vec![bench.call("aten.clamp.default", with![x[0], (), 0.8])]),
    ("clamp_", |bench, x| vec![bench.call("aten.clamp_.default", with![x[0], 0.2, 0.8])]),
    ("clamp tensors", |bench, x| vec![bench.call("aten.clamp.Tensor", with![x[0], x[1], x[2]])]),
    ("eq", truth!("aten.eq.Tensor")),
    ("eq scalar", truth!("aten.eq.Scalar")),
    ("ne", truth!("aten.ne.Tensor")),
    ("ne scalar", truth!("aten.ne.Scalar")),
    ("lt", truth!("aten.lt.Tensor")),
    ("lt scalar", truth!("aten.lt.Scalar")),
    ("le", truth!("aten.le.Tensor")),
    ("le scalar", truth!("aten.le.Scalar")),
    ("gt", truth!("aten.gt.Tensor")),
    ("gt scalar", truth!("aten.gt.Scalar")),
    ("ge", truth!("aten.ge.Tensor")),
    ("ge scalar", truth!("aten.ge.Scalar")),
    ("isnan", truth!("aten.isnan.default")),
    ("isinf", truth!("aten.isinf.default")),
    ("isfinite", truth!("aten.isfinite.default")),
    ("signbit", truth!("aten.signbit.default")),
    ("logical_and", truth!("aten.logical_and.default")),
    ("logical_or", truth!("aten.logical_or.default")),
    ("logical_xor", truth!("aten.logical_xor.default")),
    ("bitwise_and", truth!("aten.bitwise_and.Tensor")),
    ("bitwise_or", truth!("aten.bitwise_or.Tensor")),
    ("logical_not of booleans", truth!("aten.logical_not.default")),
    ("bitwise_not of booleans", truth!("aten.bitwise_not.default")),
    ("where", |bench, x| {
        let given = (bench.dtype(x[1]), bench.shape(x[1]));
        vec![bench.call_as("aten.where.self", with![x[0], x[1], x[2]], given)]
    }),
    ("where broadcast", |bench, x| {
        let given = (bench.dtype(x[1]), bench.shape(x[1]));
        vec![bench.call_as("aten.where.self", with![x[0], x[1], x[2]], given)]
    }),
    ("where scalar", |bench, x| {
        let given = (bench.dtype(x[1]), bench.shape(x[1]));
        vec![bench.call_as("aten.where.ScalarOther", with![x[0], x[1], 0.0], given)]
    }),
    ("masked_fill", number_after_mask),
    ("masked_fill broadcast", number_after_mask),
    ("masked_fill_", |bench, x| vec![bench.call("aten.masked_fill_.Scalar", with![x[0], x[1], 0.0])]),
    ("tril", unary!("aten.tril.default")),
    ("triu", unary!("aten.triu.default")),
    ("tril 1", number!("aten.tril.default", 1_i64)),
    ("triu 1", number!("aten.triu.default", 1_i64)),
];

fn number_after_mask(bench: &mut Bench, x: &[Id]) -> Vec<Id> {
    vec![bench.call("aten.masked_fill.Scalar", with![x[0], x[1], -1e4])]
}
