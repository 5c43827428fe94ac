//! The operations of an expression, and how they are evaluated.

use thiserror::Error;

/// The longest text of an expression, in bytes.
pub const TEXT_LIMIT: usize = 4096;
/// The most operations of an expression.
pub const OPERATION_LIMIT: usize = 1024;
/// The deepest nesting of an expression, and the most stack entries its evaluation may need.
pub const DEPTH_LIMIT: usize = 32;

/// One operation on the stack of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// Pushes a number.
    Integer(i64),
    /// Pushes a symbol's value.
    Symbol(u32),
    /// Negates the top.
    Negate,
    /// Replaces the top two by their sum.
    Add,
    /// Replaces the top two by their difference.
    Subtract,
    /// Replaces the top two by their product.
    Multiply,
    /// Replaces the top two by their quotient, rounded down as in Python.
    FloorDivide,
    /// Replaces the top two by the smaller.
    Minimum,
    /// Replaces the top two by the larger.
    Maximum,
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

/// The value of operations in postfix order, given those of the symbols.
pub(super) fn evaluate(operations: &[Operation], symbols: &[i64]) -> Result<i64, EvaluateError> {
    let mut stack = [0_i64; DEPTH_LIMIT];
    let mut top = 0;
    for operation in operations {
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

/// Python's `//`.
pub(super) fn floor_divide(left: i64, right: i64) -> Result<i64, EvaluateError> {
    if right == 0 {
        return Err(EvaluateError::DivisionByZero);
    }
    let quotient = left.checked_div(right).ok_or(EvaluateError::Overflow)?;
    let remainder = left % right;
    let is_rounded_up = remainder != 0 && (remainder < 0) != (right < 0);
    Ok(quotient - i64::from(is_rounded_up))
}
