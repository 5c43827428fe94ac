//! The operators that a model calls.

use hashbrown::HashMap;

use super::signature::{self, Alias};
use vramfit_eager::operators::{self, Facts};
use vramfit_graph::model::{Argument, Operator};

/// The operators of a model, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Operators {
    pub(super) rows: Vec<Operator>,
    /// What each one's results are.
    pub(super) aliases: Vec<Vec<Alias>>,
    pub(super) defaults: Vec<Vec<Argument>>,
    numbers: HashMap<String, u32>,
}

impl Operators {
    /// The operator with this name, such as `aten.linear.default`; an unknown one has no arguments yet.
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let found = name.strip_prefix("aten.").and_then(signature::find);
        let (arguments, defaults, aliases) = match found {
            Some(found) => (found.names, found.defaults, found.aliases),
            None => (Vec::new(), Vec::new(), Vec::new()),
        };
        self.rows.push(operators::named(name.to_owned(), arguments));
        self.defaults.push(defaults);
        self.aliases.push(aliases);
        let number = self.rows.len() as u32 - 1;
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// What is known of an operator.
    pub(super) fn facts(&self, number: u32) -> &'static Facts {
        operators::facts(self.rows[number as usize].id)
    }

    pub(super) fn name(&self, number: u32) -> &str {
        &self.rows[number as usize].name
    }

    /// The index of an argument in the operator's order.
    pub(super) fn argument(&self, number: u32, name: &str) -> Option<usize> {
        self.rows[number as usize].arguments.iter().position(|known| known == name)
    }

    /// An operator's arguments where none is given.
    pub(super) fn defaults(&self, number: u32) -> Vec<Argument> {
        self.defaults[number as usize].clone()
    }
}
