//! Parses an expression, by recursive descent.

use thiserror::Error;

use super::operation::{DEPTH_LIMIT, OPERATION_LIMIT, Operation, TEXT_LIMIT};

/// Why a text is not an expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text is empty or blank.
    #[error("the expression is empty")]
    Empty,
    /// The text is too long.
    #[error("the expression has {length} bytes; at most {TEXT_LIMIT} are read")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// There are too many operations.
    #[error("the expression has more than {OPERATION_LIMIT} operations")]
    TooManyOperations,
    /// It nests too deeply.
    #[error("the expression nests more than {DEPTH_LIMIT} levels deep")]
    TooDeep,
    /// A character that is not allowed here.
    #[error("found `{found}` at character {position}, needed {needed}")]
    UnexpectedCharacter {
        /// The character.
        found: char,
        /// Its index, from 0.
        position: usize,
        /// What is allowed there.
        needed: &'static str,
    },
    /// The text ends too early.
    #[error("the expression ends where {needed} was needed")]
    UnexpectedEnd {
        /// What was needed.
        needed: &'static str,
    },
    /// A number that does not fit 64 bits.
    #[error("the number {digits} does not fit 64 bits")]
    NumberTooLarge {
        /// Its digits.
        digits: String,
    },
    /// A name that is not a symbol of the model.
    #[error("names symbol `{name}`, which is not one of the model's")]
    UnknownSymbol {
        /// The name.
        name: String,
    },
}

const OPERAND: &str = "a number, a symbol, `-` or `(`";
const OPERATOR: &str = "`+`, `-`, `*` or `//`";

/// The operations of `text`, in postfix order.
pub(super) fn parse(text: &str, symbol: &dyn Fn(&str) -> Option<u32>) -> Result<Vec<Operation>, ParseError> {
    if text.len() > TEXT_LIMIT {
        return Err(ParseError::TooLong { length: text.len() });
    }
    if text.trim().is_empty() {
        return Err(ParseError::Empty);
    }
    let mut parser = Parser { text, position: 0, depth: 0, stacked: 0, operations: Vec::new(), symbol };
    parser.sum()?;
    match parser.peek() {
        None => Ok(parser.operations),
        Some(_) => Err(parser.unexpected(OPERATOR)),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The next byte to read.
    position: usize,
    /// How many parentheses and signs are open.
    depth: usize,
    /// How many values the operations so far leave on the stack.
    stacked: usize,
    operations: Vec<Operation>,
    symbol: &'a dyn Fn(&str) -> Option<u32>,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<(), ParseError> {
        self.product()?;
        loop {
            let operation = match self.peek() {
                Some('+') => Operation::Add,
                Some('-') => Operation::Subtract,
                _ => return Ok(()),
            };
            self.position += 1;
            self.product()?;
            self.push(operation)?;
        }
    }

    fn product(&mut self) -> Result<(), ParseError> {
        self.operand()?;
        loop {
            let operation = match self.peek() {
                Some('*') => Operation::Multiply,
                Some('/') => {
                    self.position += 1;
                    if !self.text[self.position..].starts_with('/') {
                        return Err(self.unexpected("a second `/`"));
                    }
                    Operation::FloorDivide
                }
                _ => return Ok(()),
            };
            self.position += 1;
            self.operand()?;
            self.push(operation)?;
        }
    }

    fn operand(&mut self) -> Result<(), ParseError> {
        match self.peek() {
            Some('-') => {
                self.position += 1;
                self.enter()?;
                self.operand()?;
                self.depth -= 1;
                self.push(Operation::Negate)
            }
            Some('(') => {
                self.position += 1;
                self.enter()?;
                self.sum()?;
                self.depth -= 1;
                if self.peek() != Some(')') {
                    return Err(self.unexpected("an operator or `)`"));
                }
                self.position += 1;
                Ok(())
            }
            Some(first) if first.is_ascii_digit() => {
                let digits = self.take(|character| character.is_ascii_digit());
                let value = digits.parse().map_err(|_| ParseError::NumberTooLarge { digits: digits.to_owned() })?;
                self.push(Operation::Integer(value))
            }
            Some(first) if first.is_alphabetic() || first == '_' => {
                let name = self.take(|character| character.is_alphanumeric() || character == '_');
                let choice = match name {
                    "min" => Some(Operation::Minimum),
                    "max" => Some(Operation::Maximum),
                    _ => None,
                };
                if let (Some(choice), Some('(')) = (choice, self.peek()) {
                    return self.choice(choice);
                }
                let unknown = || ParseError::UnknownSymbol { name: name.to_owned() };
                let symbol = (self.symbol)(name).ok_or_else(unknown)?;
                self.push(Operation::Symbol(symbol))
            }
            _ => Err(self.unexpected(OPERAND)),
        }
    }

    /// The arguments of `min` or `max`: `(first, second, …)`.
    fn choice(&mut self, operation: Operation) -> Result<(), ParseError> {
        self.position += 1;
        self.enter()?;
        self.sum()?;
        while self.peek() == Some(',') {
            self.position += 1;
            self.sum()?;
            self.push(operation)?;
        }
        self.depth -= 1;
        if self.peek() != Some(')') {
            return Err(self.unexpected("an operator, `,` or `)`"));
        }
        self.position += 1;
        Ok(())
    }

    fn enter(&mut self) -> Result<(), ParseError> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT { Err(ParseError::TooDeep) } else { Ok(()) }
    }

    /// Adds an operation within the limits that evaluation relies on.
    fn push(&mut self, operation: Operation) -> Result<(), ParseError> {
        match operation {
            Operation::Integer(_) | Operation::Symbol(_) => self.stacked += 1,
            Operation::Negate => {}
            _ => self.stacked -= 1,
        }
        if self.stacked > DEPTH_LIMIT {
            return Err(ParseError::TooDeep);
        }
        if self.operations.len() == OPERATION_LIMIT {
            return Err(ParseError::TooManyOperations);
        }
        self.operations.push(operation);
        Ok(())
    }

    /// The next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.position..];
        let trimmed = rest.trim_start_matches(' ');
        self.position += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    /// Takes the characters that `belongs` accepts.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.position..];
        let length = rest.find(|character| !belongs(character)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn unexpected(&self, needed: &'static str) -> ParseError {
        match self.text[self.position..].chars().next() {
            Some(found) => {
                ParseError::UnexpectedCharacter { found, position: self.text[..self.position].chars().count(), needed }
            }
            None => ParseError::UnexpectedEnd { needed },
        }
    }
}
