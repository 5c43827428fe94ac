//! What all variants of a model share: operators, symbols, expressions, each written down once.

use std::collections::HashMap;

use super::dimension::Dimension;
use crate::pt2::signature;
use vramfit_eager::operators;
use vramfit_graph::expression::Expression;
use vramfit_graph::model::{Argument, ExpressionId, Operator, Size};

/// The arguments of `aten._fused_rms_norm`, which no export has and the table of signatures lacks.
const UNLISTED: [&str; 4] = ["input", "normalized_shape", "weight", "eps"];

/// The tables.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) operators: Vec<Operator>,
    pub(super) defaults: Vec<Vec<Argument>>,
    numbers: HashMap<String, u32>,
    pub(super) symbols: Vec<String>,
    pub(super) expressions: Vec<Expression>,
    texts: HashMap<String, u32>,
}

impl Tables {
    pub(super) fn operator(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let signature = name.strip_prefix("aten.").and_then(signature::find);
        let unlisted = || (UNLISTED.map(str::to_owned).to_vec(), vec![Argument::None; UNLISTED.len()]);
        let (names, defaults) = signature.map_or_else(unlisted, |found| (found.names, found.defaults));
        let number = self.operators.len() as u32;
        self.operators.push(operators::named(name.to_owned(), names));
        self.defaults.push(defaults);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(super) fn size(&mut self, dimension: &Dimension) -> Size {
        let text = match dimension {
            Dimension::Known(value) => return Size::Known(*value),
            symbolic => symbolic.to_string(),
        };
        if let Some(number) = self.texts.get(&text) {
            return Size::Symbolic(ExpressionId(*number));
        }
        let find = |name: &str| self.symbols.iter().position(|symbol| symbol == name).map(|at| at as u32);
        match Expression::parse(&text, find) {
            Ok(expression) => {
                let number = self.expressions.len() as u32;
                self.expressions.push(expression);
                self.texts.insert(text, number);
                Size::Symbolic(ExpressionId(number))
            }
            // Only what nests or grows beyond reason: no memory can hold that much either.
            Err(_) => Size::Known(i64::MAX),
        }
    }
}
