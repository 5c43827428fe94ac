//! Shorter sequences, smaller images: sizes other than the batch.

use vramfit_graph::expression::Linear;
use vramfit_graph::select::Sizes;

use super::Trick;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// See the module.
pub struct SmallerSizes;

/// Sizes below this are none that anyone trains with.
const LEAST: i64 = 16;

/// The symbols that are not the batch, nor decided by data.
fn others(bench: &Workbench<'_>) -> Vec<usize> {
    let is_batch = |symbol: usize| bench.batch.iter().any(|size| size.symbol() as usize == symbol);
    let symbols = bench.model.symbols.iter().enumerate();
    symbols.filter(|(at, it)| !is_batch(*at) && it.example.value().is_some()).map(|(at, _)| at).collect()
}

/// The same sizes with another value for a symbol.
fn replacing(bench: &Workbench<'_>, sizes: &Sizes, symbol: usize, value: i64) -> Option<Sizes> {
    sizes.replacing(bench.model, &[Linear::of_symbol(symbol as u32)], value)
}

impl Trick for SmallerSizes {
    fn name(&self) -> &'static str {
        "shorter sequences or smaller images"
    }

    fn effect(&self) -> Effect {
        Effect::Training
    }

    fn conflicts(&self) -> &'static str {
        "what is cut off is not learned from"
    }

    fn written(&self) -> &'static str {
        "tokenizer(…, truncation=True, max_length=…)  # or Resize in the transforms"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let others = others(bench);
        if others.is_empty() {
            return Err("the model was captured with no size to choose but the batch".to_owned());
        }
        // Sizes that were equal stay equal: an image's sides, an encoder's and a decoder's sequence.
        let sizes = start.sizes.as_slice();
        let mut setups = Vec::new();
        for (numerator, denominator) in [(3, 4), (1, 2), (1, 4)] {
            let mut changed = Some(start.sizes.clone());
            for &symbol in &others {
                let size = sizes[symbol] * numerator / denominator;
                if size >= LEAST {
                    changed = changed.and_then(|sizes| replacing(bench, &sizes, symbol, size));
                }
            }
            if let Some(sizes) = changed.filter(|sizes| *sizes != start.sizes) {
                let setup = Setup { sizes, ..start.clone() };
                if bench.bind(&setup).is_some() {
                    setups.push(setup);
                }
            }
        }
        if setups.is_empty() { Err("the sizes are as small as they may be".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        for symbol in others(bench) {
            let value = from.sizes.as_slice()[symbol];
            if let Some(sizes) = replacing(bench, &setup.sizes, symbol, value) {
                setup.sizes = sizes;
            }
        }
    }

    fn state(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        let text = |symbol: usize| format!("{} {}", bench.model.symbols[symbol].name, setup.sizes.as_slice()[symbol]);
        others(bench).into_iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
