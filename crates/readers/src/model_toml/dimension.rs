//! Sizes of a sketch: numbers, or expressions of its symbols as text.

use std::fmt;

/// A size.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dimension {
    Known(i64),
    /// A term that is not a sum, and what is added to it.
    Symbolic(String, i64),
}

use Dimension::{Known, Symbolic};

impl Dimension {
    pub(super) fn named(name: &str) -> Dimension {
        Symbolic(name.to_owned(), 0)
    }

    pub(super) fn known(&self) -> Option<i64> {
        match self {
            Known(value) => Some(*value),
            Symbolic(..) => None,
        }
    }

    pub(super) fn plus(&self, more: i64) -> Dimension {
        match self {
            Known(value) => Known(value.saturating_add(more)),
            Symbolic(term, offset) => Symbolic(term.clone(), offset.saturating_add(more)),
        }
    }

    pub(super) fn times(&self, other: &Dimension) -> Dimension {
        match (self, other) {
            (Known(left), Known(right)) => Known(left.saturating_mul(*right)),
            (Known(0), _) | (_, Known(0)) => Known(0),
            (Known(1), other) | (other, Known(1)) => other.clone(),
            (left, right) => Symbolic(format!("{}*{}", left.factor(), right.factor()), 0),
        }
    }

    /// Rounded down, as Python's `//`.
    pub(super) fn over(&self, divisor: i64) -> Dimension {
        match self {
            Known(value) => Known(value.div_euclid(divisor)),
            symbolic if divisor == 1 => symbolic.clone(),
            symbolic => Symbolic(format!("{}//{divisor}", symbolic.factor()), 0),
        }
    }

    fn factor(&self) -> String {
        match self {
            Known(value) => value.to_string(),
            Symbolic(term, 0) if !term.contains(['/', '*']) => term.clone(),
            symbolic => format!("({symbolic})"),
        }
    }
}

impl From<i64> for Dimension {
    fn from(value: i64) -> Dimension {
        Known(value)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Known(value) => write!(formatter, "{value}"),
            Symbolic(term, 0) => formatter.write_str(term),
            Symbolic(term, offset) => write!(formatter, "{term}{offset:+}"),
        }
    }
}

/// The product of all of them.
pub(super) fn product(sizes: &[Dimension]) -> Dimension {
    sizes.iter().fold(Known(1), |product, size| product.times(size))
}

/// `[batch, 3, 224, 224]`.
pub(super) fn shape_text(shape: &[Dimension]) -> String {
    let sizes: Vec<String> = shape.iter().map(Dimension::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Row-major strides of a shape.
pub(super) fn row_major(shape: &[Dimension]) -> Vec<Dimension> {
    (0..shape.len()).map(|at| product(&shape[at + 1..])).collect()
}
