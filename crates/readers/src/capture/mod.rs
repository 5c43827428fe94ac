//! Reads captures, the files that `vramfit.capture` writes; `docs/capture-format.md` describes them.
//!
//! The text goes through two stations: `document` and the modules beside it turn JSON into a [`Model`], straight from
//! the text and without a tree of JSON values between; `check` then makes sure that whatever names something names
//! something that is there.

mod argument;
mod check;

mod document;

mod step;
mod table;
mod variant;

use hashbrown::HashMap;

use super::error::ReadError;
use super::json::{ParseState, decode};
pub use check::CheckError;
use document::Document;
use vramfit_graph::expression::{Expression, ParseError};
use vramfit_graph::model::{Model, Symbol};
use vramfit_graph::select::VariantFlags;

/// The version of the format that is read.
const VERSION: i64 = 1;

/// Reads the capture whose JSON is `text`: the variant that `wanted` asks for, or all of them.
pub(super) fn read(text: &str, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let state = ParseState::wanting(wanted);
    let document = match decode::<Document>(text, &state) {
        Ok(document) => document,
        Err(error) => {
            // Another version may differ anywhere: that it is another one explains the rest.
            let head = ParseState::new();
            decode::<document::Head>(text, &head).err().filter(ReadError::is_about_version).map_or(Err(error), Err)?
        }
    };
    let Document { mut model, only } = document;
    let texts = state.take_texts();
    let expressions = parse(&texts, &model.symbols);
    check::check(&model, &check::Expressions { texts: &texts, parsed: &expressions }, only)?;
    if let Some(only) = only {
        model.variants = vec![model.variants.swap_remove(only)];
    }
    // The check has parsed every expression.
    model.expressions = expressions.into_iter().flatten().collect();
    debug_assert_eq!(model.expressions.len(), texts.len());
    Ok(model)
}

/// Checks the references of a model that another reader made.
pub(crate) fn check_model(model: &Model) -> Result<(), ReadError> {
    let parsed: Vec<_> = model.expressions.iter().cloned().map(Ok).collect();
    Ok(check::check(model, &check::Expressions { texts: &[], parsed: &parsed }, None)?)
}

fn parse(texts: &[Box<str>], symbols: &[Symbol]) -> Vec<Result<Expression, ParseError>> {
    let numbers: HashMap<&str, u32> =
        (0..).zip(symbols).map(|(number, symbol)| (symbol.name.as_str(), number)).collect();
    texts.iter().map(|text| Expression::parse(text, |name| numbers.get(name).copied())).collect()
}
