//! Writes an expression as text, with no more parentheses than it needs.

use std::fmt;

use super::operation::Operation;

/// How tightly a part of an expression holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Sign,
    Atom,
}

impl Operation {
    fn binding(self) -> Binding {
        match self {
            Operation::Integer(_) | Operation::Symbol(_) | Operation::Minimum | Operation::Maximum => Binding::Atom,
            Operation::Negate => Binding::Sign,
            Operation::Multiply | Operation::FloorDivide => Binding::Product,
            Operation::Add | Operation::Subtract => Binding::Sum,
        }
    }
}

/// An expression with names for its symbols, to be written as text; reading that text gives the expression again.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a, Name> {
    operations: &'a [Operation],
    names: &'a [Name],
}

impl<'a, Name: AsRef<str>> Named<'a, Name> {
    pub(super) fn new(operations: &'a [Operation], names: &'a [Name]) -> Self {
        Named { operations, names }
    }

    /// Writes the part that ends just before `end`; returns where it begins.
    fn part(&self, formatter: &mut fmt::Formatter<'_>, end: usize, needed: Binding) -> Result<usize, fmt::Error> {
        let operation = self.operations[end - 1];
        let binding = operation.binding();
        if binding < needed {
            formatter.write_str("(")?;
        }
        let start = match operation {
            Operation::Integer(value) => {
                write!(formatter, "{value}")?;
                end - 1
            }
            Operation::Symbol(symbol) => {
                match self.names.get(symbol as usize) {
                    Some(name) => formatter.write_str(name.as_ref())?,
                    None => write!(formatter, "${symbol}")?,
                }
                end - 1
            }
            Operation::Negate => {
                formatter.write_str("-")?;
                self.part(formatter, end - 1, Binding::Sign)?
            }
            Operation::Add => self.pair(formatter, end, "+", Binding::Sum, Binding::Product)?,
            Operation::Subtract => self.pair(formatter, end, "-", Binding::Sum, Binding::Product)?,
            Operation::Multiply => self.pair(formatter, end, "*", Binding::Product, Binding::Sign)?,
            Operation::FloorDivide => self.pair(formatter, end, "//", Binding::Product, Binding::Sign)?,
            Operation::Minimum => self.choice(formatter, end, "min")?,
            Operation::Maximum => self.choice(formatter, end, "max")?,
        };
        if binding < needed {
            formatter.write_str(")")?;
        }
        Ok(start)
    }

    fn pair(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        end: usize,
        sign: &str,
        left: Binding,
        right: Binding,
    ) -> Result<usize, fmt::Error> {
        let start = self.part(formatter, self.start_of(end - 1), left)?;
        formatter.write_str(sign)?;
        self.part(formatter, end - 1, right)?;
        Ok(start)
    }

    fn choice(&self, formatter: &mut fmt::Formatter<'_>, end: usize, name: &str) -> Result<usize, fmt::Error> {
        write!(formatter, "{name}(")?;
        let start = self.pair(formatter, end, ",", Binding::Sum, Binding::Sum)?;
        formatter.write_str(")")?;
        Ok(start)
    }

    /// Where the part that ends just before `end` begins.
    fn start_of(&self, mut end: usize) -> usize {
        let mut missing = 1;
        while missing > 0 {
            end -= 1;
            match self.operations[end] {
                Operation::Integer(_) | Operation::Symbol(_) => missing -= 1,
                Operation::Negate => {}
                _ => missing += 1,
            }
        }
        end
    }
}

impl<Name: AsRef<str>> fmt::Display for Named<'_, Name> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.part(formatter, self.operations.len(), Binding::Sum).map(|_| ())
    }
}
