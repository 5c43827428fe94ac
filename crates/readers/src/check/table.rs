//! Symbols, names, and the numbers of what is there before the step.

use std::collections::{HashMap, HashSet};

use super::error::CheckError;
use super::{Checker, below};
use vramfit_graph::model::{Input, Size, Symbol, TensorId, Weight};
use vramfit_graph::select::SIZE_LIMIT;

/// No model has more symbols than this.
const SYMBOL_LIMIT: usize = 256;

impl Checker<'_> {
    /// The callers of a recorded script's lines: each comes before the lines that it calls.
    fn callers(&self) -> Result<(), CheckError> {
        let callers = self.model.script.iter().flat_map(|script| &script.callers).enumerate();
        for (row, caller) in callers {
            if let Some(source) = caller.source {
                below("source", source, row.min(self.model.sources.len()), || format!("script.callers[{row}]"))?;
            }
        }
        Ok(())
    }

    pub(super) fn tables(&self) -> Result<(), CheckError> {
        let model = self.model;
        self.symbols()?;
        unique("modules", "module", model.modules.iter().filter_map(|module| module.path.as_deref()))?;
        unique("operators", "operator", model.operators.iter().map(|operator| operator.name.as_str()))?;
        unique("inputs", "input", model.inputs.iter().map(|input| input.name.as_str()))?;
        unique("targets", "target", model.targets.iter().map(|input| input.name.as_str()))?;
        let weights = || model.parameters.iter().chain(&model.buffers);
        unique("parameters and buffers", "name", weights().flat_map(|weight| &weight.names).map(String::as_str))?;
        self.numbers()?;
        self.callers()?;
        for (table, weights) in [("parameters", &model.parameters), ("buffers", &model.buffers)] {
            for (row, weight) in weights.iter().enumerate() {
                check_weight(weight, &format!("{table}[{row}]"))?;
            }
        }
        self.move_order()?;
        for (table, inputs) in [("inputs", &model.inputs), ("targets", &model.targets)] {
            for (row, input) in inputs.iter().enumerate() {
                self.input(input, &format!("{table}[{row}]"))?;
            }
        }
        self.symbol_places()
    }

    fn symbols(&self) -> Result<(), CheckError> {
        let symbols = &self.model.symbols;
        if symbols.len() > SYMBOL_LIMIT {
            return Err(CheckError::TooManySymbols { found: symbols.len(), limit: SYMBOL_LIMIT });
        }
        for (row, symbol) in symbols.iter().enumerate() {
            check_symbol(symbol, &format!("symbols[{row}]"))?;
        }
        unique("symbols", "symbol", symbols.iter().map(|symbol| symbol.name.as_str()))
    }

    /// Parameters, buffers, inputs and targets have the numbers from 0 on, in this order.
    fn numbers(&self) -> Result<(), CheckError> {
        let model = self.model;
        let weights = |weights: &[Weight]| weights.iter().map(|weight| weight.tensor).collect::<Vec<_>>();
        let inputs = |inputs: &[Input]| inputs.iter().map(|input| input.tensor).collect::<Vec<_>>();
        let tables = [
            ("parameters", weights(&model.parameters)),
            ("buffers", weights(&model.buffers)),
            ("inputs", inputs(&model.inputs)),
            ("targets", inputs(&model.targets)),
        ];
        let mut needed = 0;
        for (table, numbers) in tables {
            for (row, TensorId(found)) in numbers.into_iter().enumerate() {
                if found != needed {
                    return Err(CheckError::WrongTensorNumber { location: format!("{table}[{row}]"), found, needed });
                }
                needed += 1;
            }
        }
        Ok(())
    }

    /// Every parameter and buffer is moved once.
    fn move_order(&self) -> Result<(), CheckError> {
        let count = self.model.parameters.len() + self.model.buffers.len();
        let mut is_moved = vec![false; count];
        for (at, TensorId(tensor)) in self.model.move_order.iter().enumerate() {
            let location = || format!("move_order[{at}]");
            below("tensor", *tensor, count, location)?;
            if std::mem::replace(&mut is_moved[*tensor as usize], true) {
                return Err(CheckError::MovedTwice { location: location(), tensor: *tensor });
            }
        }
        match is_moved.iter().position(|is_moved| !is_moved) {
            Some(tensor) => Err(CheckError::NeverMoved { tensor }),
            None => Ok(()),
        }
    }

    fn input(&self, input: &Input, location: &str) -> Result<(), CheckError> {
        if input.example.len() != input.shape.len() {
            return Err(CheckError::WrongDimensionCount {
                location: format!("{location}.shape"),
                found: input.shape.len(),
                needed: input.example.len(),
                of: "example",
            });
        }
        for (dim, (size, example)) in input.shape.iter().zip(&input.example).enumerate() {
            self.count(*size, || format!("{location}.shape[{dim}]"))?;
            self.count(Size::Known(*example), || format!("{location}.example[{dim}]"))?;
            let found = self.at_example(*size);
            if found != Some(*example) {
                return Err(CheckError::ExampleMismatch {
                    location: format!("{location}.shape[{dim}]"),
                    found,
                    needed: *example,
                });
            }
        }
        Ok(())
    }

    /// Each symbol is the dimension it says it is.
    fn symbol_places(&self) -> Result<(), CheckError> {
        let mut inputs: HashMap<&str, Vec<&Input>> = HashMap::new();
        for input in self.model.inputs.iter().chain(&self.model.targets) {
            inputs.entry(&input.name).or_default().push(input);
        }
        for (row, symbol) in self.model.symbols.iter().enumerate() {
            for (at, (name, dim)) in symbol.dims.iter().enumerate() {
                let is_there = |input: &&Input| self.is_symbol(input.shape.get(*dim), row);
                // An input and a target may have the same name, so there may be two to look at.
                if !inputs.get(name.as_str()).is_some_and(|found| found.iter().any(is_there)) {
                    return Err(CheckError::SymbolNotThere {
                        location: format!("symbols[{row}].dims[{at}]"),
                        symbol: symbol.name.clone(),
                        input: name.clone(),
                        dim: *dim,
                    });
                }
            }
        }
        Ok(())
    }

    fn is_symbol(&self, size: Option<&Size>, symbol: usize) -> bool {
        let Some(Size::Symbolic(id)) = size else { return false };
        let expression = self.expressions.parsed[id.0 as usize].as_ref();
        expression.is_ok_and(|expression| expression.as_symbol() == Some(symbol as u32))
    }
}

fn check_symbol(symbol: &Symbol, location: &str) -> Result<(), CheckError> {
    let mut characters = symbol.name.chars();
    let is_name = characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|character| character.is_alphanumeric() || character == '_');
    if !is_name {
        return Err(CheckError::BadSymbolName { location: format!("{location}.name"), found: symbol.name.clone() });
    }
    let recorded = symbol.recorded.iter().enumerate().map(|(at, size)| (format!("{location}.recorded[{at}]"), *size));
    let example = symbol.example.value().map(|size| (format!("{location}.example"), size));
    for (path, size) in example.into_iter().chain(recorded) {
        if !(1..SIZE_LIMIT).contains(&size) {
            let needed = "a size from 1 to 1099511627775";
            return Err(CheckError::OutOfRange { path, found: size, needed });
        }
    }
    Ok(())
}

fn check_weight(weight: &Weight, location: &str) -> Result<(), CheckError> {
    match weight.shape.iter().position(|size| *size < 0) {
        Some(dim) => {
            Err(CheckError::NegativeSize { location: format!("{location}.shape[{dim}]"), found: weight.shape[dim] })
        }
        None => Ok(()),
    }
}

fn unique<'n>(table: &'static str, what: &'static str, names: impl Iterator<Item = &'n str>) -> Result<(), CheckError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(CheckError::DuplicateName { table, what, name: name.to_owned() });
        }
    }
    Ok(())
}
