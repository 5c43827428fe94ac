//! The table of operators: the entries of all families, found by name when a model is read and by index afterwards.

use std::sync::LazyLock;

use hashbrown::HashMap;
use vramfit_graph::model::{Operator as ModelOperator, OperatorId};

use super::facts::{Activation, Facts, Operator};
use super::unknown::{UNKNOWN, UNKNOWN_IN_PLACE};
use super::{
    activation, attention, batch_norm, convolution, copy, dropout, embedding, factory, group_norm, indexing, joining,
    loss, normalization, padding, pointwise, pooling, product, recurrent, reduction, resize, softmax, view,
    weight_norm,
};

/// What is not in the table comes first.
const FAMILIES: &[&[Operator]] = &[
    &[Operator::new(&[], UNKNOWN), Operator::new(&[], UNKNOWN_IN_PLACE)],
    activation::OPERATORS,
    attention::OPERATORS,
    batch_norm::OPERATORS,
    convolution::OPERATORS,
    copy::OPERATORS,
    dropout::OPERATORS,
    embedding::OPERATORS,
    factory::OPERATORS,
    group_norm::OPERATORS,
    indexing::OPERATORS,
    joining::OPERATORS,
    loss::OPERATORS,
    normalization::OPERATORS,
    padding::OPERATORS,
    pointwise::OPERATORS,
    pooling::OPERATORS,
    product::OPERATORS,
    recurrent::OPERATORS,
    reduction::OPERATORS,
    resize::OPERATORS,
    softmax::OPERATORS,
    view::OPERATORS,
    weight_norm::OPERATORS,
];

const COUNT: usize = {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

static TABLE: [Operator; COUNT] = {
    let mut table = [FAMILIES[0][0]; COUNT];
    let (mut at, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut entry = 0;
        while entry < FAMILIES[family].len() {
            table[at] = FAMILIES[family][entry];
            at += 1;
            entry += 1;
        }
        family += 1;
    }
    table
};

static NUMBERS: LazyLock<HashMap<&'static str, OperatorId>> = LazyLock::new(|| {
    let names = TABLE.iter().map(|operator| operator.names.len()).sum();
    let mut numbers = HashMap::with_capacity(names);
    for (number, operator) in (0..).zip(&TABLE) {
        numbers.extend(operator.names.iter().map(|name| (*name, OperatorId::new(number))));
    }
    numbers
});

/// The entry of an operator such as `aten.relu.default`. Where there is none, the name still shows whether the operator
/// writes into its first argument: ATen's in-place operators end in an underscore.
pub fn find(name: &str) -> OperatorId {
    let unknown = || OperatorId::new(u16::from(is_named_in_place(name)));
    NUMBERS.get(name).copied().unwrap_or_else(unknown)
}

/// A row of a model's operators.
pub fn named(name: String, arguments: Vec<String>) -> ModelOperator {
    ModelOperator { id: find(&name), name, arguments }
}

/// What is known of an operator.
pub fn facts(id: OperatorId) -> &'static Facts {
    &TABLE[id.index()].facts
}

/// The activations that may run in place.
pub fn activations() -> impl Iterator<Item = Activation> {
    TABLE.iter().filter_map(|operator| operator.facts.activation)
}

fn is_named_in_place(name: &str) -> bool {
    name.split('.').nth(1).is_some_and(|base| base.ends_with('_') && !base.ends_with("__"))
}
