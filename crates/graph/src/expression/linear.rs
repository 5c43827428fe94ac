//! Expressions of one symbol that can be solved for it: `2*h`, `s+1`.

use super::operation::{Operation, floor_divide};

/// `factor * symbol + offset`, with a factor that is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    symbol: u32,
    factor: i64,
    offset: i64,
}

impl Linear {
    /// The symbol itself.
    pub fn of_symbol(symbol: u32) -> Linear {
        Linear { symbol, factor: 1, offset: 0 }
    }

    /// The number of its symbol.
    pub fn symbol(self) -> u32 {
        self.symbol
    }

    /// The factor of the symbol.
    pub fn factor(self) -> i64 {
        self.factor
    }

    /// The constant term.
    pub fn offset(self) -> i64 {
        self.offset
    }

    /// Whether it is a symbol and nothing else.
    pub fn is_symbol(self) -> bool {
        self.factor == 1 && self.offset == 0
    }

    /// Its value for a value of the symbol; `None` where it exceeds 64 bits.
    pub fn at(self, symbol: i64) -> Option<i64> {
        self.factor.checked_mul(symbol)?.checked_add(self.offset)
    }

    /// The value of the symbol for which it is `value`; `None` where no whole number is.
    pub fn solve(self, value: i64) -> Option<i64> {
        let product = value.checked_sub(self.offset)?;
        let is_whole = product.checked_rem(self.factor)? == 0;
        if is_whole { product.checked_div(self.factor) } else { None }
    }
}

/// A part of an expression: `factor * symbol + offset`, or the offset alone.
#[derive(Clone, Copy)]
struct Part {
    symbol: Option<u32>,
    factor: i64,
    offset: i64,
}

impl Part {
    fn times(self, number: i64) -> Option<Part> {
        Some(Part {
            factor: self.factor.checked_mul(number)?,
            offset: self.offset.checked_mul(number)?,
            symbol: self.symbol,
        })
    }

    fn plus(self, other: Part) -> Option<Part> {
        let symbol = match (self.symbol, other.symbol) {
            (Some(one), Some(another)) if one != another => return None,
            (one, another) => one.or(another),
        };
        Some(Part {
            symbol,
            factor: self.factor.checked_add(other.factor)?,
            offset: self.offset.checked_add(other.offset)?,
        })
    }

    /// Its value, if it depends on no symbol.
    fn number(self) -> Option<i64> {
        self.symbol.is_none().then_some(self.offset)
    }

    /// `(factor*symbol + offset) // number`, which is linear where the number divides the factor.
    fn divided(self, number: i64) -> Option<Part> {
        let offset = floor_divide(self.offset, number).ok()?;
        if self.factor.checked_rem(number)? != 0 {
            return None;
        }
        Some(Part { symbol: self.symbol, factor: self.factor.checked_div(number)?, offset })
    }
}

/// The operations as a multiple of one symbol plus a number, if they have that form.
pub(super) fn linear(operations: &[Operation]) -> Option<Linear> {
    let mut stack: Vec<Part> = Vec::new();
    for operation in operations {
        let part = match *operation {
            Operation::Integer(offset) => Part { symbol: None, factor: 0, offset },
            Operation::Symbol(symbol) => Part { symbol: Some(symbol), factor: 1, offset: 0 },
            Operation::Negate => stack.pop()?.times(-1)?,
            binary => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                match binary {
                    Operation::Add => left.plus(right)?,
                    Operation::Subtract => left.plus(right.times(-1)?)?,
                    Operation::Multiply => match (left.number(), right.number()) {
                        (Some(number), _) => right.times(number)?,
                        (_, Some(number)) => left.times(number)?,
                        (None, None) => return None,
                    },
                    Operation::FloorDivide => left.divided(right.number()?)?,
                    _ => return None,
                }
            }
        };
        stack.push(part);
    }
    let Part { symbol, factor, offset } = stack.pop()?;
    symbol.filter(|_| factor != 0).map(|symbol| Linear { symbol, factor, offset })
}
