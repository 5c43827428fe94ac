//! Reads captures, the files that `vramfit.capture` writes; `docs/capture-format.md` describes them.
//!
//! `document` and the modules beside it turn the JSON text into a [`Model`], without a tree of JSON values in between;
//! [`check`](super::check) then checks its references.

mod argument;
mod document;
mod function;
mod quantization;
mod script;
mod step;
mod table;
mod variant;

use hashbrown::HashMap;

use super::check::{self, Expressions};
use super::error::ReadError;
use super::json::{ParseState, decode};
use document::Document;
use vramfit_graph::expression::{Expression, ParseError};
use vramfit_graph::model::{Model, Symbol};
use vramfit_graph::select::VariantFlags;

/// Reads the capture whose JSON is `text`: the variant that `wanted` asks for, or all of them.
pub(super) fn read(text: &str, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let state = ParseState::wanting(wanted);
    let document = match decode::<Document>(text, &state) {
        Ok(document) => document,
        Err(error) => {
            // Another version may differ anywhere, which explains any other error.
            let head = ParseState::new();
            decode::<document::Head>(text, &head).err().filter(ReadError::is_about_version).map_or(Err(error), Err)?
        }
    };
    let Document { mut model, only } = document;
    let texts = state.take_texts();
    let expressions = parse(&texts, &model.symbols);
    check::check(&model, &Expressions { texts: &texts, parsed: &expressions }, only)?;
    if let Some(only) = only {
        let chosen = model.variants[only].clone();
        model.variants.retain(|variant| variant.is_of_same_training(&chosen));
    }
    // The check has parsed every expression.
    model.expressions = expressions.into_iter().flatten().collect();
    debug_assert_eq!(model.expressions.len(), texts.len());
    Ok(model)
}

fn parse(texts: &[Box<str>], symbols: &[Symbol]) -> Vec<Result<Expression, ParseError>> {
    let numbers: HashMap<&str, u32> =
        (0..).zip(symbols).map(|(number, symbol)| (symbol.name.as_str(), number)).collect();
    texts.iter().map(|text| Expression::parse(text, |name| numbers.get(name).copied())).collect()
}
