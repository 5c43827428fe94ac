//! The captures that are tested with, as they are and changed by hand.

use std::path::Path;

use vramfit_graph::expression::Expression;
use vramfit_graph::model::{ExpressionId, Model, Size};
use vramfit_readers::read_file;

fn read(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name);
    read_file(path).expect("the capture is good")
}

/// Three linear layers; symbol `batch`.
pub fn mlp() -> Model {
    read("mlp.vramfit")
}

/// BERT-base; symbols `batch` and `seq`.
pub fn bert_base() -> Model {
    read("bert-base.vramfit")
}

/// The MLP without its symbol, as if only one size could be captured.
pub fn mlp_of_one_size() -> Model {
    let mut model = mlp();
    let known = |size: &mut Size| {
        if let Size::Symbolic(_) = size {
            *size = Size::Known(64);
        }
    };
    model.symbols.clear();
    model.inputs.iter_mut().chain(&mut model.targets).flat_map(|input| &mut input.shape).for_each(known);
    model.types.iter_mut().flatten().flat_map(|it| &mut it.shape).for_each(known);
    model.expressions.clear();
    model
}

/// Adds an expression to a model.
pub fn add(model: &mut Model, text: &str) -> Size {
    let find = |name: &str| model.symbols.iter().position(|symbol| symbol.name == name).map(|at| at as u32);
    let expression = Expression::parse(text, find).expect("it is an expression");
    model.expressions.push(expression);
    Size::Symbolic(ExpressionId(model.expressions.len() as u32 - 1))
}
