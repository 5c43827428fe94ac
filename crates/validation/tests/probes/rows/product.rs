//! Probes of matrix products.

use crate::Row;
use crate::bench::{Bench, Id};

macro_rules! product {
    ($name:literal) => {
        |bench: &mut Bench, x: &[Id]| {
            let arguments = x.iter().map(|id| crate::bench::IntoValue::value(*id)).collect();
            bench.last($name, arguments)
        }
    };
}

/// The rows.
pub const ROWS: &[Row] = &[
    ("linear bias", product!("aten.linear.default")),
    ("linear", product!("aten.linear.default")),
    ("linear bias, input without grad", product!("aten.linear.default")),
    ("linear bias, frozen", product!("aten.linear.default")),
    ("linear bias, input transposed", product!("aten.linear.default")),
    ("matmul 3d 2d", product!("aten.matmul.default")),
    ("matmul 3d 1d", product!("aten.matmul.default")),
    ("matmul 2d 3d", product!("aten.matmul.default")),
    ("mm", product!("aten.mm.default")),
    ("mv", product!("aten.mv.default")),
    ("dot", product!("aten.dot.default")),
    ("bmm", product!("aten.bmm.default")),
    ("matmul 3d 3d", product!("aten.matmul.default")),
    ("matmul 4d 4d", product!("aten.matmul.default")),
    ("matmul broadcast batch", product!("aten.matmul.default")),
    ("matmul broadcast rank", product!("aten.matmul.default")),
    ("matmul 4d 2d", product!("aten.matmul.default")),
    ("addmm", product!("aten.addmm.default")),
    ("addmm full", product!("aten.addmm.default")),
    ("addmm scaled", |bench, x| bench.last("aten.addmm.default", with![x[0], x[1], x[2], 0.5, 2.0])),
    ("baddbmm", product!("aten.baddbmm.default")),
    ("baddbmm broadcast", product!("aten.baddbmm.default")),
    ("mm transposed", |bench, x| {
        let turned = turned(bench, x[1], 0, 1);
        let result = bench.last("aten.matmul.default", with![x[0], turned]);
        bench.free(turned);
        result
    }),
    ("mm transposed left", |bench, x| {
        let turned = turned(bench, x[0], 0, 1);
        let result = bench.last("aten.matmul.default", with![turned, x[1]]);
        bench.free(turned);
        result
    }),
    ("bmm transposed", |bench, x| {
        let turned = turned(bench, x[1], 1, 2);
        let result = bench.last("aten.bmm.default", with![x[0], turned]);
        bench.free(turned);
        result
    }),
    ("attention scores", |bench, x| {
        let query = turned(bench, x[0], 1, 2);
        let key = turned(bench, x[1], 1, 2);
        let again = turned(bench, key, 2, 3);
        bench.free(key);
        let result = bench.last("aten.matmul.default", with![query, again]);
        bench.free(query);
        bench.free(again);
        result
    }),
    ("attention values", |bench, x| {
        let value = turned(bench, x[1], 1, 2);
        let (weights, values) = (bench.shape(x[0]), bench.shape(value));
        let given = (bench.dtype(x[0]), vec![weights[0], weights[1], weights[2], values[3]]);
        let product = bench.call_as("aten.matmul.default", with![x[0], value], given);
        bench.free(value);
        let back = turned(bench, product, 1, 2);
        bench.free(product);
        let result = bench.last("aten.contiguous.default", with![back]);
        bench.free(back);
        result
    }),
];

fn turned(bench: &mut Bench, x: Id, first: i64, second: i64) -> Id {
    let mut shape = bench.shape(x);
    shape.swap(first as usize, second as usize);
    let given = (bench.dtype(x), shape);
    bench.call_as("aten.transpose.int", with![x, first, second], given)
}
