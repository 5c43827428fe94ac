//! A value for each of a model's symbols, from flags or from the example.

use super::error::SizeError;
use crate::dtype::Dtype;
use crate::model::{Input, Model, Origin, Size};

/// Sizes must be below this.
pub const SIZE_LIMIT: i64 = 1 << 40;

/// A value for each of a model's symbols, in the model's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    values: Vec<i64>,
}

/// What the command line says about sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeFlags {
    /// `--batch N`.
    pub batch: Option<i64>,
    /// `--seq N`.
    pub sequence: Option<i64>,
    /// Each `--size`: `SYMBOL=N` or `INPUT=AxBxC`.
    pub sizes: Vec<String>,
}

impl Sizes {
    /// The example's sizes.
    pub fn example(model: &Model) -> Sizes {
        Sizes { values: model.symbols.iter().map(|symbol| symbol.example).collect() }
    }

    /// The example's sizes, but for these symbols.
    pub fn with(model: &Model, symbols: &[(&str, i64)]) -> Result<Sizes, SizeError> {
        let mut choice = Choice::new(model);
        for (name, value) in symbols {
            choice.symbol(&format!("{name}={value}"), name, *value)?;
        }
        Ok(choice.sizes())
    }

    /// The sizes that the flags ask for; the example's where they say nothing.
    pub fn select(model: &Model, flags: &SizeFlags) -> Result<Sizes, SizeError> {
        let mut choice = Choice::new(model);
        if let Some(batch) = flags.batch {
            let inputs: Vec<&Input> = model.inputs.iter().chain(&model.targets).collect();
            let place = Place { dim: 0, symbol: "batch", text: "dimension 0 of an input or target" };
            choice.dimension(&format!("--batch {batch}"), place, &inputs, batch)?;
        }
        if let Some(sequence) = flags.sequence {
            let inputs: Vec<&Input> = model.inputs.iter().filter(|input| is_integer(input.dtype)).collect();
            let place = Place { dim: 1, symbol: "seq", text: "dimension 1 of an integer input" };
            choice.dimension(&format!("--seq {sequence}"), place, &inputs, sequence)?;
        }
        for text in &flags.sizes {
            choice.text(text)?;
        }
        choice.check_shapes()?;
        Ok(choice.sizes())
    }

    /// The symbols that `--batch` gives a value: those that stand in the first dimension of an input or target.
    pub fn batch_symbols(model: &Model) -> Vec<usize> {
        let inputs: Vec<&Input> = model.inputs.iter().chain(&model.targets).collect();
        symbols_in(model, &inputs, 0, "batch")
    }

    /// The symbols that `--seq` gives a value: those that stand in the second dimension of an integer input.
    pub fn sequence_symbols(model: &Model) -> Vec<usize> {
        let inputs: Vec<&Input> = model.inputs.iter().filter(|input| is_integer(input.dtype)).collect();
        symbols_in(model, &inputs, 1, "seq")
    }

    /// The same sizes with another value for these symbols; `None` where the model was not made for it.
    pub fn replacing(&self, model: &Model, symbols: &[usize], value: i64) -> Option<Sizes> {
        let mut choice = Choice::new(model);
        for (symbol, &size) in self.values.iter().enumerate() {
            choice.set("", symbol, if symbols.contains(&symbol) { value } else { size }).ok()?;
        }
        Some(choice.sizes())
    }

    /// The values, in the order of the model's symbols.
    pub fn as_slice(&self) -> &[i64] {
        &self.values
    }

    /// The value of the symbol with this name.
    pub fn get(&self, model: &Model, name: &str) -> Option<i64> {
        let at = model.symbols.iter().position(|symbol| symbol.name == name)?;
        self.values.get(at).copied()
    }
}

/// Where a flag looks for the symbols that it binds.
#[derive(Clone, Copy)]
struct Place {
    /// The dimension.
    dim: usize,
    /// The name of the symbol that is meant where none stands in that dimension.
    symbol: &'static str,
    /// The place, for people.
    text: &'static str,
}

/// Sizes on the way.
struct Choice<'a> {
    model: &'a Model,
    /// For each symbol what was chosen, and by which flag.
    chosen: Vec<Option<(i64, String)>>,
    /// Whole shapes that were asked for: the flag, the input, its sizes.
    shapes: Vec<(String, &'a Input, Vec<i64>)>,
}

impl<'a> Choice<'a> {
    fn new(model: &'a Model) -> Self {
        Choice { model, chosen: vec![None; model.symbols.len()], shapes: Vec::new() }
    }

    fn sizes(&self) -> Sizes {
        let value = |(symbol, chosen): (&crate::model::Symbol, &Option<(i64, String)>)| match chosen {
            Some((value, _)) => *value,
            None => symbol.example,
        };
        Sizes { values: self.model.symbols.iter().zip(&self.chosen).map(value).collect() }
    }

    /// Gives the symbol with this number a value.
    fn set(&mut self, flag: &str, symbol: usize, value: i64) -> Result<(), SizeError> {
        if !(1..SIZE_LIMIT).contains(&value) {
            return Err(SizeError::OutOfRange { flag: flag.to_owned(), found: value });
        }
        self.check_range(flag, symbol, value)?;
        match &self.chosen[symbol] {
            Some((earlier, other)) if *earlier != value => Err(SizeError::Conflict {
                flag: flag.to_owned(),
                symbol: self.model.symbols[symbol].name.clone(),
                found: value,
                other: other.clone(),
                other_found: *earlier,
            }),
            _ => {
                self.chosen[symbol] = Some((value, flag.to_owned()));
                Ok(())
            }
        }
    }

    /// Whether a symbol may have a value. A size of 1 is let through: torch.export writes 2 as the least of every size.
    fn check_range(&self, flag: &str, symbol: usize, value: i64) -> Result<(), SizeError> {
        let symbol = &self.model.symbols[symbol];
        let Some(range) = symbol.range else { return Ok(()) };
        let is_within = value >= range.least && range.most.is_none_or(|most| value <= most);
        if is_within || (value == 1 && range.least <= 2) {
            return Ok(());
        }
        Err(SizeError::NotExported {
            flag: flag.to_owned(),
            symbol: symbol.name.clone(),
            range: match range.most {
                Some(most) => format!("{} to {most}", range.least),
                None => format!("{} and more", range.least),
            },
            found: value,
        })
    }

    /// Gives the symbol with this name a value.
    fn symbol(&mut self, flag: &str, name: &str, value: i64) -> Result<(), SizeError> {
        match self.model.symbols.iter().position(|symbol| symbol.name == name) {
            Some(symbol) => self.set(flag, symbol, value),
            None => Err(self.unknown(flag, name)),
        }
    }

    /// Gives every symbol that stands in this place of one of `inputs` a value.
    fn dimension(&mut self, flag: &str, place: Place, inputs: &[&Input], value: i64) -> Result<(), SizeError> {
        if !(1..SIZE_LIMIT).contains(&value) {
            return Err(SizeError::OutOfRange { flag: flag.to_owned(), found: value });
        }
        let mut is_found = false;
        for input in inputs {
            if let Some(symbol) = input.shape.get(place.dim).and_then(|size| bare_symbol(self.model, *size)) {
                self.set(flag, symbol, value)?;
                is_found = true;
            }
        }
        let symbol = self.model.symbols.iter().position(|symbol| symbol.name == place.symbol);
        if let (false, Some(symbol)) = (is_found, symbol) {
            return self.set(flag, symbol, value);
        }
        if is_found && self.model.origin == Origin::Archive {
            self.check_fixed(flag, place, inputs, value)?;
        }
        let examples = || inputs.iter().filter_map(|input| input.example.get(place.dim));
        let is_example = examples().next().is_some() && examples().all(|size| *size == value);
        if is_found || is_example {
            return Ok(());
        }
        if self.model.origin == Origin::Archive && self.model.symbols.is_empty() {
            return Err(SizeError::ExportedAtOneSize { flag: flag.to_owned(), present: shapes(self.model) });
        }
        Err(SizeError::NoSymbol { flag: flag.to_owned(), place: place.text, present: present(self.model) })
    }

    /// Whether an input stays at the example's size where others, as long in the example, change: an exporter fixes a size
    /// that the program counts with.
    fn check_fixed(&self, flag: &str, place: Place, inputs: &[&Input], value: i64) -> Result<(), SizeError> {
        let at = |input: &Input| (input.shape.get(place.dim).copied(), input.example.get(place.dim).copied());
        let is_open = |input: &Input| at(input).0.is_some_and(|size| bare_symbol(self.model, size).is_some());
        let example = inputs.iter().find(|input| is_open(input)).and_then(|input| at(input).1);
        for input in inputs.iter().filter(|input| !is_open(input)) {
            if let (Some(Size::Known(fixed)), Some(example)) = (at(input).0, example)
                && fixed == example
                && fixed != value
            {
                let (flag, input) = (flag.to_owned(), input.name.clone());
                return Err(SizeError::ExportedFixed { flag, input, dim: place.dim, fixed });
            }
        }
        Ok(())
    }

    /// Reads one `--size`.
    fn text(&mut self, text: &str) -> Result<(), SizeError> {
        let malformed = || SizeError::Malformed { found: text.to_owned() };
        let (name, sizes) = text.split_once('=').ok_or_else(malformed)?;
        let (name, sizes) = (name.trim(), sizes.trim());
        let sizes: Vec<i64> =
            sizes.split('x').map(|size| size.trim().parse()).collect::<Result<_, _>>().map_err(|_| malformed())?;
        let flag = format!("--size {text}");
        let is_symbol = self.model.symbols.iter().any(|symbol| symbol.name == name);
        let input = self.model.inputs.iter().chain(&self.model.targets).find(|input| input.name == name);
        match (&sizes[..], is_symbol, input) {
            ([size], true, _) => self.symbol(&flag, name, *size),
            (_, _, Some(input)) => self.shape(&flag, input, sizes),
            (_, true, None) => Err(SizeError::NotAnInput { flag, name: name.to_owned(), found: sizes.len() }),
            _ => Err(self.unknown(&flag, name)),
        }
    }

    /// Gives the symbols of an input's shape their values; the rest of the shape is checked when all are known.
    fn shape(&mut self, flag: &str, input: &'a Input, sizes: Vec<i64>) -> Result<(), SizeError> {
        if sizes.len() != input.shape.len() {
            return Err(SizeError::WrongRank {
                flag: flag.to_owned(),
                name: input.name.clone(),
                found: sizes.len(),
                needed: input.shape.len(),
                shape: shape_text(self.model, input),
            });
        }
        for (size, value) in input.shape.iter().zip(&sizes) {
            if let Some(symbol) = bare_symbol(self.model, *size) {
                self.set(flag, symbol, *value)?;
            }
        }
        self.shapes.push((flag.to_owned(), input, sizes));
        Ok(())
    }

    /// Whether the shapes that were asked for come out as such.
    fn check_shapes(&self) -> Result<(), SizeError> {
        let sizes = self.sizes();
        for (flag, input, wanted) in &self.shapes {
            for (dim, (size, found)) in input.shape.iter().zip(wanted).enumerate() {
                let value = match size {
                    Size::Known(value) => Some(*value),
                    Size::Symbolic(id) => self.model.expressions[id.0 as usize].evaluate(sizes.as_slice()).ok(),
                };
                if value != Some(*found) {
                    let text = self.model.size_text(*size);
                    return Err(SizeError::WrongSize {
                        flag: flag.clone(),
                        name: input.name.clone(),
                        dim,
                        found: *found,
                        needed: match (size, value) {
                            (Size::Symbolic(_), Some(value)) => format!("{text} = {value}"),
                            _ => text,
                        },
                    });
                }
            }
        }
        Ok(())
    }

    fn unknown(&self, flag: &str, name: &str) -> SizeError {
        SizeError::UnknownName { flag: flag.to_owned(), name: name.to_owned(), present: present(self.model) }
    }
}

/// The symbols that stand in this dimension of one of `inputs`; where none does, the one of this name.
fn symbols_in(model: &Model, inputs: &[&Input], dim: usize, name: &str) -> Vec<usize> {
    let standing = inputs.iter().filter_map(|input| bare_symbol(model, *input.shape.get(dim)?));
    let mut found: Vec<usize> = standing.collect();
    if found.is_empty() {
        found.extend(model.symbols.iter().position(|symbol| symbol.name == name));
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The symbol that the size is, where it is one and nothing else.
fn bare_symbol(model: &Model, size: Size) -> Option<usize> {
    match size {
        Size::Known(_) => None,
        Size::Symbolic(id) => model.expressions[id.0 as usize].as_symbol().map(|symbol| symbol as usize),
    }
}

/// Whether the capture takes dimension 1 of an input of this type for a sequence; masks are often boolean.
fn is_integer(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bool | Dtype::Uint8 | Dtype::Int8 | Dtype::Int16 | Dtype::Int32 | Dtype::Int64)
}

/// What sizes there are to choose.
fn present(model: &Model) -> String {
    let inputs = || model.inputs.iter().chain(&model.targets);
    if model.symbols.is_empty() {
        return format!("it was captured at one size only: {}", shapes(model));
    }
    let symbols: Vec<&str> = model.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    let shapes: Vec<String> = inputs().map(|input| format!("{} {}", input.name, shape_text(model, input))).collect();
    format!("it has {} in {}", symbols.join(", "), shapes.join(", "))
}

/// The shapes of the example.
fn shapes(model: &Model) -> String {
    let inputs = model.inputs.iter().chain(&model.targets);
    inputs.map(|input| format!("{} {}", input.name, times(&input.example))).collect::<Vec<_>>().join(", ")
}

fn times(sizes: &[i64]) -> String {
    if sizes.is_empty() {
        return "scalar".to_owned();
    }
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

fn shape_text(model: &Model, input: &Input) -> String {
    let sizes: Vec<String> = input.shape.iter().map(|size| model.size_text(*size)).collect();
    format!("[{}]", sizes.join(", "))
}
