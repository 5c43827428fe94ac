//! Sizes: sympy's texts become the model's expressions, each once, and the symbols in them the model's symbols.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::document::{Range, RawSize};
use super::error::ArchiveError;
use super::sympy;
use crate::expression::Expression;
use crate::model::{ExpressionId, Input, Size, Symbol, SymbolRange};
use crate::read::json::context::TextId;
use crate::read::{CheckError, ReadError};

/// A model with more symbols than this is none.
const SYMBOL_LIMIT: usize = 256;

/// The symbols and expressions met so far.
pub(super) struct Sizes<'a> {
    /// What expressions are numbers of.
    texts: &'a [Box<str>],
    /// Sizes by the number of their text.
    known: HashMap<TextId, Size>,
    pub(super) expressions: Vec<Expression>,
    symbols: Vec<(String, Option<i64>)>,
    numbers: HashMap<String, u32>,
}

impl<'a> Sizes<'a> {
    pub(super) fn new(texts: &'a [Box<str>]) -> Sizes<'a> {
        Sizes { texts, known: HashMap::new(), expressions: Vec::new(), symbols: Vec::new(), numbers: HashMap::new() }
    }

    /// The size that `raw` says; `place` is where it stands.
    pub(super) fn size(&mut self, raw: RawSize, place: impl Fn() -> String) -> Result<Size, ReadError> {
        let (text, hint) = match raw {
            RawSize::Known(value) => return Ok(Size::Known(value)),
            RawSize::Expression { text, hint } => (text, hint),
        };
        if let Some(size) = self.known.get(&text) {
            return Ok(*size);
        }
        let id = text;
        let text = self.texts.get(id.0 as usize).map_or("", |text| &**text);
        let bad =
            |message: String| ReadError::from(ArchiveError::BadSize { place: place(), text: text.to_owned(), message });
        let plain = sympy::plain(text).map_err(bad)?;
        self.add_symbols(&plain);
        if self.symbols.len() > SYMBOL_LIMIT {
            return Err(CheckError::TooManySymbols { found: self.symbols.len(), limit: SYMBOL_LIMIT }.into());
        }
        let numbers = &self.numbers;
        let expression =
            Expression::parse(&plain, |name| numbers.get(name).copied()).map_err(|error| bad(error.to_string()))?;
        if let Some(symbol) = expression.as_symbol() {
            let example = &mut self.symbols[symbol as usize].1;
            *example = example.or(hint);
        }
        let is_known = expression.symbols().next().is_none();
        let size = match is_known {
            true => Size::Known(expression.evaluate(&[]).map_err(|error| bad(error.to_string()))?),
            false => self.push(expression),
        };
        self.known.insert(id, size);
        Ok(size)
    }

    fn push(&mut self, expression: Expression) -> Size {
        self.expressions.push(expression);
        Size::Symbolic(ExpressionId(self.expressions.len() as u32 - 1))
    }

    /// Knows the names in an expression from now on.
    fn add_symbols(&mut self, plain: &str) {
        for word in plain.split(|character: char| !(character.is_alphanumeric() || character == '_')) {
            let is_name = word.starts_with(|first: char| first.is_alphabetic() || first == '_');
            if is_name && !matches!(word, "min" | "max") && !self.numbers.contains_key(word) {
                self.numbers.insert(word.to_owned(), self.symbols.len() as u32);
                self.symbols.push((word.to_owned(), None));
            }
        }
    }

    /// How many symbols there are.
    pub(super) fn symbol_count(&self) -> usize {
        self.symbols.len()
    }

    /// The model's symbols; one without an example takes the least it may have.
    pub(super) fn symbols(&self, ranges: &[(Cow<'_, str>, Range)], inputs: &[Input]) -> Result<Vec<Symbol>, ReadError> {
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for (number, (name, example)) in self.symbols.iter().enumerate() {
            let range = ranges.iter().find(|(known, _)| known == name).map(|(_, range)| *range);
            let least = range.and_then(|range| range.least);
            let Some(example) = example.or(least.map(|least| least.max(2))) else {
                return Err(ReadError::from(ArchiveError::BadSize {
                    place: "range_constraints".to_owned(),
                    text: name.clone(),
                    message: "neither an example nor a range is given for this symbol, whose value may depend on data"
                        .to_owned(),
                }));
            };
            if !(1..crate::select::SIZE_LIMIT).contains(&example) {
                let needed = "a size from 1 to 1099511627775";
                return Err(ReadError::OutOfRange {
                    path: format!("symbol `{name}`: hint"),
                    found: example.into(),
                    needed,
                });
            }
            symbols.push(Symbol {
                name: name.clone(),
                example,
                recorded: vec![example],
                dims: self.places_of(number as u32, inputs),
                range: range.map(|range| SymbolRange { least: range.least.unwrap_or(1).max(1), most: range.most }),
            });
        }
        Ok(symbols)
    }

    fn places_of(&self, symbol: u32, inputs: &[Input]) -> Vec<(String, usize)> {
        let mut places = Vec::new();
        for input in inputs {
            for (dim, size) in input.shape.iter().enumerate() {
                if let Size::Symbolic(id) = size
                    && self.expressions[id.0 as usize].as_symbol() == Some(symbol)
                {
                    places.push((input.name.clone(), dim));
                }
            }
        }
        places
    }

    /// The value of a size at the examples; `None` where it has none.
    pub(super) fn at_example(&self, size: Size, symbols: &[Symbol]) -> Option<i64> {
        match size {
            Size::Known(value) => Some(value),
            Size::Symbolic(id) => {
                let examples: Vec<i64> = symbols.iter().map(|symbol| symbol.example).collect();
                self.expressions[id.0 as usize].evaluate(&examples).ok()
            }
        }
    }
}
