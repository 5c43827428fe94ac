//! The table of operators: the entries of all families, found by name when a model is read and by index afterwards.

use std::sync::LazyLock;

use hashbrown::HashMap;
use vramfit_graph::model::{Operator as ModelOperator, OperatorId};

use super::facts::{Facts, Operator};
use super::unknown::{UNKNOWN, UNKNOWN_IN_PLACE};
use super::{
    activation, aliases, attention, batch_norm, bitsandbytes, complex_numbers, convolution, copy, counting,
    derivatives, dropout, embedding, factory, foreach, group_norm, indexing, joining, linear_algebra, loss,
    normalization, padding, pointwise, pooling, product, rearranging, recurrent, reduction, resize, sampling, script,
    softmax, sparse, spectral, view, vision, weight_norm, windows,
};

/// What is not in the table comes first.
const FAMILIES: &[&[Operator]] = &[
    &[Operator::new(&[], UNKNOWN), Operator::new(&[], UNKNOWN_IN_PLACE)],
    activation::OPERATORS,
    attention::OPERATORS,
    batch_norm::OPERATORS,
    bitsandbytes::OPERATORS,
    complex_numbers::OPERATORS,
    convolution::OPERATORS,
    copy::OPERATORS,
    counting::OPERATORS,
    derivatives::OPERATORS,
    dropout::OPERATORS,
    embedding::OPERATORS,
    factory::OPERATORS,
    foreach::OPERATORS,
    group_norm::OPERATORS,
    indexing::OPERATORS,
    joining::OPERATORS,
    linear_algebra::OPERATORS,
    loss::OPERATORS,
    normalization::OPERATORS,
    padding::OPERATORS,
    pointwise::unary_entries::OPERATORS,
    pointwise::arithmetic_entries::OPERATORS,
    pointwise::comparison_entries::OPERATORS,
    pointwise::in_place_entries::OPERATORS,
    pooling::OPERATORS,
    product::OPERATORS,
    rearranging::OPERATORS,
    recurrent::OPERATORS,
    reduction::OPERATORS,
    resize::OPERATORS,
    sampling::OPERATORS,
    script::OPERATORS,
    softmax::OPERATORS,
    sparse::OPERATORS,
    spectral::OPERATORS,
    view::OPERATORS,
    vision::OPERATORS,
    weight_norm::OPERATORS,
    windows::OPERATORS,
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
    let known = |name: &str| NUMBERS.get(name).copied();
    known(name).or_else(|| known(&aliases::target(name)?)).unwrap_or_else(unknown)
}

/// A row of a model's operators.
pub fn named(name: String, arguments: Vec<String>) -> ModelOperator {
    ModelOperator { id: find(&name), name, arguments }
}

/// What is known of an operator.
pub fn facts(id: OperatorId) -> &'static Facts {
    &TABLE[id.index()].facts
}

/// What is known of every entry.
pub fn all() -> impl Iterator<Item = &'static Facts> {
    TABLE.iter().map(|operator| &operator.facts)
}

fn is_named_in_place(name: &str) -> bool {
    name.split('.').nth(1).is_some_and(|base| base.ends_with('_') && !base.ends_with("__"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::facts::{Effect, MemoryRule};
    use super::*;

    #[test]
    fn an_operator_has_one_entry() {
        let mut seen = BTreeSet::new();
        for name in TABLE.iter().flat_map(|operator| operator.names) {
            assert!(seen.insert(name), "{name} has two entries");
        }
    }

    #[test]
    fn an_operator_is_in_place_where_its_name_ends_in_an_underscore() {
        for operator in &TABLE {
            for name in operator.names {
                assert_eq!(operator.facts.effect.is_in_place(), is_named_in_place(name), "{name}");
            }
        }
    }

    #[test]
    fn an_activation_in_place_has_a_memory_rule() {
        for activation in all().filter_map(|facts| facts.activation) {
            let known = facts(find(activation.in_place));
            assert_eq!(known.effect, Effect::WritesFirst, "{}", activation.in_place);
            assert!(matches!(known.memory, MemoryRule::Modelled(_)), "{}", activation.in_place);
        }
    }

    #[test]
    fn an_operator_that_is_not_in_the_table_is_not_modelled() {
        let (plain, in_place) =
            (facts(find("aten.relu_of_tomorrow.default")), facts(find("aten.of_tomorrow_.default")));
        assert!(matches!(plain.memory, MemoryRule::NotModelled));
        assert!(!plain.effect.is_in_place() && in_place.effect.is_in_place());
        assert!(!facts(find("aten.__of_tomorrow__.Tensor")).effect.is_in_place());
    }
}
