//! The largest sizes at which a model does not run out of a table, such as its position embeddings.

use indexmap::IndexMap;
use vramfit_eager::reach::check_reach;
use vramfit_graph::bind::bind;
use vramfit_graph::model::Model;
use vramfit_graph::select::{Sizes, VariantFlags, select_variant};

/// Nobody asks for larger ones.
const LARGEST: i64 = 131_072;

/// For each size of the model that has a limit below [`LARGEST`] the largest at which PyTorch does not stop with an error.
pub fn limits(model: &Model) -> IndexMap<String, i64> {
    let limited = model.symbols.iter().filter_map(|symbol| {
        let example = symbol.example.value()?;
        let most = symbol.range.and_then(|range| range.most).unwrap_or(LARGEST).min(LARGEST);
        let within = largest_within(model, &symbol.name, example, most);
        (within < LARGEST).then(|| (symbol.name.clone(), within))
    });
    limited.collect()
}

/// The largest value of a symbol from `least`, which is within reach, to `most`.
fn largest_within(model: &Model, symbol: &str, mut least: i64, mut most: i64) -> i64 {
    if least >= most || is_within(model, symbol, most) {
        return most.max(least);
    }
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        match is_within(model, symbol, middle) {
            true => least = middle,
            false => most = middle,
        }
    }
    least
}

/// Whether a step of this size reads beyond no table. What is refused for other reasons has no such limit.
fn is_within(model: &Model, symbol: &str, value: i64) -> bool {
    let Ok(sizes) = Sizes::with(model, &[(symbol, value)]) else { return true };
    let Ok(variant) = select_variant(model, VariantFlags::default()) else { return true };
    bind(model, variant, &sizes).map_or(true, |bound| check_reach(&bound).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::built_in;

    #[test]
    fn the_rows_of_built_in_models_have_their_limits() {
        for built_in in built_in().unwrap() {
            assert_eq!(built_in.row.limits, limits(&built_in.model().unwrap()), "{}", built_in.row.name);
        }
    }

    #[test]
    fn a_model_with_a_table_of_positions_takes_no_more_of_them() {
        let rows = built_in().unwrap();
        let row = |name: &str| rows.iter().find(|model| model.row.name == name).map(|model| &model.row.limits);
        for (name, positions) in [("gpt2", 1024), ("bert-base", 512), ("roberta-base", 512), ("whisper-tiny", 448)] {
            assert_eq!(row(name).unwrap().get("seq"), Some(&positions), "{name}");
        }
        assert!(row("llama-8b").unwrap().is_empty() && row("t5-small").unwrap().is_empty());
    }
}
