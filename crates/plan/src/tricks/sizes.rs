//! Shorter sequences, smaller images: sizes other than the batch.

use vramfit_graph::expression::Linear;
use vramfit_graph::select::Sizes;

use super::role::Role;
use super::round_numbers::{round_numbers_below, rounded};
use super::trick::Trick;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct SmallerSizes;

/// Smaller sizes are not tried.
const MIN_SIZE: i64 = 16;

/// The symbols other than the batch that do not depend on data.
fn other_symbols(bench: &Workbench<'_>) -> Vec<usize> {
    let is_batch = |symbol: usize| bench.batch.iter().any(|size| size.symbol() as usize == symbol);
    let symbols = bench.model.symbols.iter().enumerate();
    symbols
        .filter(|(index, symbol)| !is_batch(*index) && symbol.example.value().is_some())
        .map(|(index, _)| index)
        .collect()
}

/// The sizes with another value for a symbol.
fn replacing(bench: &Workbench<'_>, sizes: &Sizes, symbol: usize, value: i64) -> Option<Sizes> {
    sizes.replacing(bench.model, &[Linear::of_symbol(symbol as u32)], value)
}

/// The setup with every size shrunk, so that equal ones stay equal: an image's sides, encoder and decoder sequence. `None` if
/// that changes nothing.
fn scaled(bench: &Workbench<'_>, start: &Setup, shrink: impl Fn(i64) -> i64) -> Option<Setup> {
    let mut changed = start.sizes.clone();
    for symbol in other_symbols(bench) {
        let size = shrink(start.sizes.as_slice()[symbol]);
        if size >= MIN_SIZE {
            changed = replacing(bench, &changed, symbol, size)?;
        }
    }
    (changed != start.sizes).then(|| Setup { sizes: changed, ..start.clone() })
}

impl Trick for SmallerSizes {
    fn name(&self) -> &'static str {
        "shorter sequences or smaller images"
    }

    fn setting(&self) -> &'static str {
        "seq"
    }

    fn role(&self) -> Role {
        Role::SampleSize
    }

    fn conflicts(&self) -> &'static str {
        "the model does not learn from what is cut off"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "tokenizer(…, truncation=True, max_length=…)  # or Resize in the transforms"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let symbols = other_symbols(bench);
        if symbols.is_empty() {
            return Err("the model was captured with no size to choose but the batch".to_owned());
        }
        let shares = [(3, 4), (1, 2), (1, 4)].into_iter();
        let setups: Vec<Setup> = shares
            .filter_map(|(numerator, denominator)| scaled(bench, start, |size| size * numerator / denominator))
            .filter(|setup| bench.bind(setup).is_some())
            .collect();
        if setups.is_empty() { Err("the model does not support smaller sizes".to_owned()) } else { Ok(setups) }
    }

    fn round_steps(&self, bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
        let sizes = start.sizes.as_slice();
        let Some(largest) = other_symbols(bench).into_iter().map(|symbol| sizes[symbol]).max() else {
            return Vec::new();
        };
        let scaled = round_numbers_below(largest)
            .take_while(|&next| next >= MIN_SIZE)
            .filter_map(|next| scaled(bench, start, |size| rounded(size * next / largest)));
        let mut setups: Vec<Setup> = scaled.collect();
        setups.dedup();
        setups
    }

    fn adopt(&self, bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        for symbol in other_symbols(bench) {
            let value = from.sizes.as_slice()[symbol];
            if let Some(sizes) = replacing(bench, &setup.sizes, symbol, value) {
                setup.sizes = sizes;
            }
        }
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        let text = |symbol: usize| format!("{} {}", bench.model.symbols[symbol].name, setup.sizes.as_slice()[symbol]);
        other_symbols(bench).into_iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
