//! Whole-number expressions of a model's symbols: `batch*seq`, `(h-1)//4+1`, `max(1,h//2)`.
//!
//! An expression is kept as a flat list of operations in postfix order, so that evaluating one is a short loop over a
//! small stack. Arithmetic is checked: what does not fit 64 bits is an error, never a wrong number.

mod display;
mod linear;
mod parse;

use std::fmt;

use thiserror::Error;

pub use display::Named;
pub use linear::Linear;
pub use parse::ParseError;

/// The longest text of an expression, in bytes.
pub const TEXT_LIMIT: usize = 4096;
/// The most operations of an expression.
pub const OPERATION_LIMIT: usize = 1024;
/// The deepest nesting of an expression, and the most values it may need at once.
pub const DEPTH_LIMIT: usize = 32;

/// One operation on the stack of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// Puts a number on the stack.
    Integer(i64),
    /// Puts a symbol's value on the stack.
    Symbol(u32),
    /// Changes the sign of the topmost.
    Negate,
    /// Takes two, puts their sum.
    Add,
    /// Takes two, puts their difference.
    Subtract,
    /// Takes two, puts their product.
    Multiply,
    /// Takes two, puts their quotient, rounded down as Python does.
    FloorDivide,
    /// Takes two, puts the smaller.
    Minimum,
    /// Takes two, puts the larger.
    Maximum,
}

/// A whole-number expression of symbols, which it knows by number.
///
/// It holds at most [`OPERATION_LIMIT`] operations and needs at most [`DEPTH_LIMIT`] values at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expression {
    operations: Box<[Operation]>,
}

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// A result does not fit 64 bits.
    #[error("passes the largest 64-bit number")]
    Overflow,
    /// A division by zero.
    #[error("divides by zero")]
    DivisionByZero,
    /// There is no value for a symbol.
    #[error("needs symbol {symbol}; {count} are given")]
    MissingSymbol {
        /// The symbol's number.
        symbol: u32,
        /// How many values were given.
        count: usize,
    },
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
        let mut stack = [0_i64; DEPTH_LIMIT];
        let mut top = 0;
        for operation in &self.operations {
            match *operation {
                Operation::Integer(value) => {
                    stack[top] = value;
                    top += 1;
                }
                Operation::Symbol(symbol) => {
                    let missing = EvaluateError::MissingSymbol { symbol, count: symbols.len() };
                    stack[top] = *symbols.get(symbol as usize).ok_or(missing)?;
                    top += 1;
                }
                Operation::Negate => {
                    stack[top - 1] = stack[top - 1].checked_neg().ok_or(EvaluateError::Overflow)?;
                }
                Operation::Add
                | Operation::Subtract
                | Operation::Multiply
                | Operation::FloorDivide
                | Operation::Minimum
                | Operation::Maximum => {
                    top -= 1;
                    let (left, right) = (stack[top - 1], stack[top]);
                    stack[top - 1] = match operation {
                        Operation::Add => left.checked_add(right).ok_or(EvaluateError::Overflow)?,
                        Operation::Subtract => left.checked_sub(right).ok_or(EvaluateError::Overflow)?,
                        Operation::Multiply => left.checked_mul(right).ok_or(EvaluateError::Overflow)?,
                        Operation::Minimum => left.min(right),
                        Operation::Maximum => left.max(right),
                        _ => floor_divide(left, right)?,
                    };
                }
            }
        }
        Ok(stack[0])
    }

    /// The numbers of the symbols it uses, in the order they stand in, each as often as it stands there.
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

    /// Itself as a multiple of one symbol plus a number, which can be solved for the symbol; `None` where it is not that.
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
        linear::linear(self)
    }

    /// The expression as text, with these names for its symbols.
    pub fn named<'a, Name: AsRef<str>>(&'a self, names: &'a [Name]) -> Named<'a, Name> {
        Named::new(self, names)
    }

    /// The expression with numbers for some symbols and other numbers for the rest: `Ok` is a value, `Err` a symbol.
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

    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }
}

/// Python's `//`.
fn floor_divide(left: i64, right: i64) -> Result<i64, EvaluateError> {
    if right == 0 {
        return Err(EvaluateError::DivisionByZero);
    }
    let quotient = left.checked_div(right).ok_or(EvaluateError::Overflow)?;
    let remainder = left % right;
    let is_rounded_up = remainder != 0 && (remainder < 0) != (right < 0);
    Ok(quotient - i64::from(is_rounded_up))
}

/// Without names, symbols show as `$0`, `$1` and so on.
impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named::<&str>(&[]).fmt(formatter)
    }
}
