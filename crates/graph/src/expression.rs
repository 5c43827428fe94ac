//! Whole-number expressions of a model's symbols: `batch*seq`, `(h-1)//4+1`, `max(1,h//2)`.
//!
//! An expression is a flat list of operations in postfix order, evaluated in a short loop over a small stack. Arithmetic is
//! checked: what does not fit 64 bits is an error.

mod display;
mod linear;
mod operation;
mod parse;

use std::fmt;

use operation::Operation;

pub use display::Named;
pub use linear::Linear;
pub use operation::{DEPTH_LIMIT, EvaluateError, OPERATION_LIMIT, TEXT_LIMIT};
pub use parse::ParseError;

/// A whole-number expression of symbols, which are numbered.
///
/// It has at most [`OPERATION_LIMIT`] operations and needs at most [`DEPTH_LIMIT`] stack entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    operations: Box<[Operation]>,
}

impl Expression {
    /// Reads an expression; `symbol` gives the number of a name.
    ///
    /// ```
    /// use vramfit_graph::expression::Expression;
    ///
    /// let names = ["batch", "seq"];
    /// let find = |name: &str| names.iter().position(|known| *known == name).map(|at| at as u32);
    /// let expression = Expression::parse("batch*(seq-1)//2", find)?;
    /// assert_eq!(expression.evaluate(&[8, 128])?, 508);
    /// assert_eq!(expression.named(&names).to_string(), "batch*(seq-1)//2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str, symbol: impl Fn(&str) -> Option<u32>) -> Result<Expression, ParseError> {
        parse::parse(text, &symbol).map(|operations| Expression { operations: operations.into_boxed_slice() })
    }

    /// Its value, given those of the symbols.
    pub fn evaluate(&self, symbols: &[i64]) -> Result<i64, EvaluateError> {
        operation::evaluate(&self.operations, symbols)
    }

    /// The numbers of the symbols it uses, in order, with repetitions.
    pub fn symbols(&self) -> impl Iterator<Item = u32> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::Symbol(symbol) => Some(*symbol),
            _ => None,
        })
    }

    /// The symbol, if it is one and nothing else.
    pub fn as_symbol(&self) -> Option<u32> {
        match self.operations[..] {
            [Operation::Symbol(symbol)] => Some(symbol),
            _ => None,
        }
    }

    /// Itself as a multiple of one symbol plus a number, which can be solved for the symbol; `None` where it has another form.
    ///
    /// ```
    /// use vramfit_graph::expression::Expression;
    ///
    /// let derived = Expression::parse("2*h+1", |_| Some(0))?.linear();
    /// assert_eq!(derived.and_then(|it| it.solve(513)), Some(256));
    /// assert_eq!(derived.and_then(|it| it.solve(512)), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn linear(&self) -> Option<Linear> {
        linear::linear(&self.operations)
    }

    /// The expression as text, with these names for its symbols.
    pub fn named<'a, Name: AsRef<str>>(&'a self, names: &'a [Name]) -> Named<'a, Name> {
        Named::new(&self.operations, names)
    }

    /// The expression with each symbol replaced: `Ok` is a value, `Err` the number of another symbol.
    pub fn with(&self, symbols: &[Result<i64, u32>]) -> Expression {
        let put = |operation: &Operation| match *operation {
            Operation::Symbol(symbol) => match symbols.get(symbol as usize) {
                Some(Ok(value)) => Operation::Integer(*value),
                Some(Err(number)) => Operation::Symbol(*number),
                None => Operation::Symbol(symbol),
            },
            other => other,
        };
        Expression { operations: self.operations.iter().map(put).collect() }
    }

    /// The product of some expressions and a number; `None` where it is too long.
    pub fn product(factors: &[&Expression], number: i64) -> Option<Expression> {
        let mut operations = vec![Operation::Integer(number)];
        for factor in factors {
            operations.extend(&factor.operations);
            operations.push(Operation::Multiply);
        }
        let mut depth = 0_usize;
        let fits = operations.iter().all(|operation| {
            match operation {
                Operation::Integer(_) | Operation::Symbol(_) => depth += 1,
                Operation::Negate => {}
                _ => depth -= 1,
            }
            depth <= DEPTH_LIMIT
        });
        let fits = fits && operations.len() <= OPERATION_LIMIT;
        fits.then(|| Expression { operations: operations.into_boxed_slice() })
    }
}

/// Without names, symbols show as `$0`, `$1` and so on.
impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named::<&str>(&[]).fmt(formatter)
    }
}
