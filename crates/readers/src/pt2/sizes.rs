//! Sizes: sympy's texts become the model's expressions, each once, and their symbols the model's symbols.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::document::Range;
use super::error::ArchiveError;
use super::graph::{RawArgument, RawGraph, RawInt};
use super::node::{argument_tensors, node_location};
use super::sympy;
use super::tensor_meta::RawSize;
use crate::check::error::CheckError;
use crate::error::ReadError;
use crate::json::TextId;
use vramfit_graph::expression::Expression;
use vramfit_graph::model::{Example, ExpressionId, Input, Size, Symbol, SymbolRange};

/// No model has more symbols than this.
const SYMBOL_LIMIT: usize = 256;

/// The symbols and expressions met so far.
pub(super) struct Sizes<'a> {
    /// The texts that expressions are numbers of.
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

    /// The size of `raw`; `location` says where it is, for errors.
    pub(super) fn size(&mut self, raw: RawSize, location: impl Fn() -> String) -> Result<Size, ReadError> {
        let (text, hint) = match raw {
            RawSize::Known(value) => return Ok(Size::Known(value)),
            RawSize::Expression { text, hint } => (text, hint),
        };
        if let Some(size) = self.known.get(&text) {
            return Ok(*size);
        }
        let id = text;
        let text = self.texts.get(id.0 as usize).map_or("", |text| &**text);
        let bad = |source: Box<dyn std::error::Error + Send + Sync>| {
            ReadError::from(ArchiveError::BadSize { location: location(), text: text.to_owned(), source })
        };
        let plain = sympy::plain(text).map_err(|message| bad(message.into()))?;
        self.add_symbols(&plain);
        if self.symbols.len() > SYMBOL_LIMIT {
            return Err(CheckError::TooManySymbols { found: self.symbols.len(), limit: SYMBOL_LIMIT }.into());
        }
        let numbers = &self.numbers;
        let expression =
            Expression::parse(&plain, |name| numbers.get(name).copied()).map_err(|error| bad(error.into()))?;
        if let (Some(linear), Some(hint)) = (expression.linear(), hint) {
            let example = &mut self.symbols[linear.symbol() as usize].1;
            *example = example.or(linear.solve(hint));
        }
        let is_known = expression.symbols().next().is_none();
        let size = match is_known {
            true => Size::Known(expression.evaluate(&[]).map_err(|error| bad(error.into()))?),
            false => self.push(expression),
        };
        self.known.insert(id, size);
        Ok(size)
    }

    fn push(&mut self, expression: Expression) -> Size {
        self.expressions.push(expression);
        Size::Symbolic(ExpressionId(self.expressions.len() as u32 - 1))
    }

    /// Adds the names in an expression to the symbols.
    fn add_symbols(&mut self, plain: &str) {
        for word in words(plain) {
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

    /// The model's symbols; what makes those without an example is looked for in `graph`.
    pub(super) fn symbols(
        &self,
        ranges: &[(Cow<'_, str>, Range)],
        inputs: &[Input],
        graph: &RawGraph<'_>,
    ) -> Result<Vec<Symbol>, ReadError> {
        let mut symbols = Vec::with_capacity(self.symbols.len());
        for (number, (name, example)) in self.symbols.iter().enumerate() {
            let range = ranges.iter().find(|(known, _)| known == name).map(|(_, range)| *range);
            if let Some(found) = example.filter(|example| !(1..vramfit_graph::select::SIZE_LIMIT).contains(example)) {
                return Err(ReadError::OutOfRange {
                    path: format!("symbol `{name}`: hint"),
                    found: found.into(),
                    needed: "a size from 1 to 1099511627775",
                });
            }
            symbols.push(Symbol {
                name: name.clone(),
                example: match example {
                    Some(example) => Example::Known(*example),
                    None => Example::DataDependent { producer: producer(graph, &|text| self.names(text, name)) },
                },
                recorded: example.iter().copied().collect(),
                dims: self.dims_of(number as u32, inputs),
                range: range.map(|range| SymbolRange { least: range.least.unwrap_or(1).max(1), most: range.most }),
            });
        }
        Ok(symbols)
    }

    fn dims_of(&self, symbol: u32, inputs: &[Input]) -> Vec<(String, usize)> {
        let mut dims = Vec::new();
        for input in inputs {
            for (dim, size) in input.shape.iter().enumerate() {
                if let Size::Symbolic(id) = size
                    && self.expressions[id.0 as usize].as_symbol() == Some(symbol)
                {
                    dims.push((input.name.clone(), dim));
                }
            }
        }
        dims
    }

    /// The value of a size at the examples; `None` where it has none.
    pub(super) fn at_example(&self, size: Size, symbols: &[Symbol]) -> Option<i64> {
        match size {
            Size::Known(value) => Some(value),
            Size::Symbolic(id) => {
                let expression = &self.expressions[id.0 as usize];
                let examples: Vec<Option<i64>> = symbols.iter().map(|symbol| symbol.example.value()).collect();
                let is_known = expression.symbols().all(|symbol| examples[symbol as usize].is_some());
                let examples: Vec<i64> = examples.into_iter().map(Option::unwrap_or_default).collect();
                is_known.then(|| expression.evaluate(&examples).ok()).flatten()
            }
        }
    }

    /// A size as text, with the symbols' names.
    pub(super) fn text(&self, size: Size) -> String {
        match size {
            Size::Known(value) => value.to_string(),
            Size::Symbolic(id) => {
                let names: Vec<&str> = self.symbols.iter().map(|(name, _)| name.as_str()).collect();
                self.expressions[id.0 as usize].named(&names).to_string()
            }
        }
    }

    /// Whether a size is an expression of the symbol with this name.
    fn names(&self, size: RawSize, name: &str) -> bool {
        let RawSize::Expression { text, .. } = size else { return false };
        let plain = self.texts.get(text.0 as usize).and_then(|text| sympy::plain(text).ok());
        plain.is_some_and(|plain| words(&plain).any(|word| word == name))
    }
}

/// The names and numbers in an expression.
fn words(plain: &str) -> impl Iterator<Item = &str> {
    plain.split(|character: char| !(character.is_alphanumeric() || character == '_'))
}

/// The first node with a result whose size `depends` on a symbol, for messages.
fn producer(graph: &RawGraph<'_>, depends: &dyn Fn(RawSize) -> bool) -> String {
    produced_in(graph, depends).unwrap_or_else(|| "an input of the model".to_owned())
}

fn produced_in(graph: &RawGraph<'_>, depends: &dyn Fn(RawSize) -> bool) -> Option<String> {
    let has_it = |name: &str| {
        let tensor = graph.tensors.iter().find(|(known, _)| known == name).map(|(_, meta)| meta);
        let number = graph.integers.iter().find(|(known, _)| known == name).map(|(_, size)| *size);
        tensor.is_some_and(|meta| meta.shape.iter().any(|size| depends(*size))) || number.is_some_and(depends)
    };
    graph.nodes.iter().enumerate().find_map(|(at, node)| {
        let mut is_producer = false;
        for output in &node.outputs {
            match output {
                RawArgument::SymbolicInt(RawInt::Name(name)) => is_producer |= has_it(name),
                output => argument_tensors(output, &mut |name| is_producer |= has_it(name)),
            }
        }
        let inner = || {
            node.inputs.iter().find_map(|input| match &input.argument {
                RawArgument::Graph(graph) => produced_in(graph, depends),
                _ => None,
            })
        };
        let target = node.target.strip_prefix("torch.ops.").unwrap_or(&node.target);
        inner().or_else(|| is_producer.then(|| format!("{} ({target})", node_location(node, at))))
    })
}
