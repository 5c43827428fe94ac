//! Checks that a model is consistent: indices in range, regions nested, tensors made before they are used.

pub(crate) mod error;
mod function;
mod lifetime;
mod reference;
mod region;
mod table;
mod tensor;
mod variant;

pub use error::CheckError;
use vramfit_graph::expression::{Expression, ParseError};
use vramfit_graph::model::{Model, Size};

/// The model's expressions, parsed or not valid.
pub(super) struct Expressions<'a> {
    pub(super) texts: &'a [Box<str>],
    pub(super) parsed: &'a [Result<Expression, ParseError>],
}

/// A model being checked.
struct Checker<'a> {
    model: &'a Model,
    expressions: &'a Expressions<'a>,
    /// The symbols' values in the example.
    examples: Vec<i64>,
    /// The row of the variant whose sections were read, with those of its other assumptions; `None` if all were.
    only: Option<usize>,
}

/// Checks a model that another reader than the captures' made.
pub(super) fn check_model(model: &Model) -> Result<(), CheckError> {
    let parsed: Vec<_> = model.expressions.iter().cloned().map(Ok).collect();
    check(model, &Expressions { texts: &[], parsed: &parsed }, None)
}

/// Checks everything that the model's types do not guarantee. If `only` is given, only the sections of the variant in that
/// row were read.
pub(super) fn check(model: &Model, expressions: &Expressions<'_>, only: Option<usize>) -> Result<(), CheckError> {
    let examples = model.examples().unwrap_or_default();
    let checker = Checker { model, expressions, examples, only };
    checker.tables()?;
    checker.variants()?;
    for section in checker.read_sections(|variant| variant.types) {
        checker.types(section, &model.types[section])?;
    }
    for section in checker.read_sections(|variant| variant.tensors) {
        checker.tensors(section)?;
    }
    checker.given_shapes()?;
    for section in checker.read_sections(|variant| variant.steps) {
        checker.references(section)?;
        checker.regions(section)?;
    }
    checker.lifetimes()?;
    checker.functions()
}

impl Checker<'_> {
    /// A size that must be an expression, if it is not a number.
    fn size(&self, size: Size, location: impl Fn() -> String) -> Result<(), CheckError> {
        let Size::Symbolic(id) = size else { return Ok(()) };
        match &self.expressions.parsed[id.0 as usize] {
            Ok(_) => Ok(()),
            Err(source) => Err(CheckError::BadExpression {
                location: location(),
                text: self.expressions.texts[id.0 as usize].to_string(),
                source: source.clone(),
            }),
        }
    }

    /// A size, stride or offset: not below zero.
    fn count(&self, size: Size, location: impl Fn() -> String) -> Result<(), CheckError> {
        match size {
            Size::Known(found) if found < 0 => Err(CheckError::NegativeSize { location: location(), found }),
            _ => self.size(size, location),
        }
    }

    /// The value of a size at the example's sizes; `None` where it has none.
    fn at_example(&self, size: Size) -> Option<i64> {
        match size {
            Size::Known(value) => Some(value),
            Size::Symbolic(id) => self.expressions.parsed[id.0 as usize].as_ref().ok()?.evaluate(&self.examples).ok(),
        }
    }
}

/// Checks an index.
fn below(what: &'static str, found: u32, count: usize, location: impl Fn() -> String) -> Result<(), CheckError> {
    if (found as usize) < count {
        return Ok(());
    }
    Err(CheckError::NoSuchNumber { location: location(), what, found, count })
}
