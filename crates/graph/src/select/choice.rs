//! What the flags ask for, symbol by symbol.

use super::axis::{Axis, OpenSize};
use super::error::{SIZE_LIMIT, SizeError};
use super::hint;
use super::present::{present, range_text, shape_text, shapes};
use super::sizes::Sizes;
use crate::model::{Example, Input, Model, Origin, Size, SymbolRange};

/// Sizes being chosen.
pub(super) struct Choice<'a> {
    model: &'a Model,
    /// For each symbol the value that was chosen, and the flag that chose it.
    chosen: Vec<Option<(i64, String)>>,
    /// Whole shapes that were asked for: the flag, the input, its sizes.
    shapes: Vec<(String, &'a Input, Vec<i64>)>,
}

impl<'a> Choice<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        Choice { model, chosen: vec![None; model.symbols.len()], shapes: Vec::new() }
    }

    /// The chosen values, and the example's for the rest.
    pub(super) fn sizes(&self) -> Result<Sizes, SizeError> {
        let mut values = Vec::with_capacity(self.chosen.len());
        for (symbol, chosen) in self.model.symbols.iter().zip(&self.chosen) {
            values.push(match (chosen, &symbol.example) {
                (Some((value, _)), _) | (None, Example::Known(value)) => *value,
                (None, Example::DataDependent { producer }) => {
                    return Err(SizeError::DataDependent {
                        symbol: symbol.name.clone(),
                        producer: producer.clone(),
                        most: symbol.range.and_then(|range| range.most),
                        hint: hint::given(&self.missing()),
                    });
                }
            });
        }
        Ok(Sizes::of(values))
    }

    /// The symbols that have neither an example nor a choice.
    fn missing(&self) -> Vec<&'a str> {
        let symbols = self.model.symbols.iter().zip(&self.chosen);
        let missing = symbols.filter(|(symbol, chosen)| chosen.is_none() && symbol.example.value().is_none());
        missing.map(|(symbol, _)| symbol.name.as_str()).collect()
    }

    /// Whether a symbol has been given a value.
    pub(super) fn is_chosen(&self, symbol: usize) -> bool {
        self.chosen[symbol].is_some()
    }

    /// Gives the size this value by choosing its symbol.
    pub(super) fn set(&mut self, flag: &str, size: OpenSize<'_>, value: i64) -> Result<(), SizeError> {
        check_size(flag, value)?;
        let linear = size.linear;
        let symbol = linear.symbol() as usize;
        let solved = linear.solve(value).ok_or_else(|| self.unsolved(flag, size, value))?;
        self.check_range(flag, size, value, solved)?;
        match &self.chosen[symbol] {
            Some((earlier, other)) if *earlier != solved => Err(SizeError::Conflict {
                flag: flag.to_owned(),
                symbol: self.model.symbols[symbol].name.clone(),
                found: solved,
                other: other.clone(),
                other_found: *earlier,
            }),
            _ => {
                self.chosen[symbol] = Some((solved, flag.to_owned()));
                Ok(())
            }
        }
    }

    /// The error for a size that no value of its symbol makes `found`.
    fn unsolved(&self, flag: &str, size: OpenSize<'_>, found: i64) -> SizeError {
        let linear = size.linear;
        let step = linear.factor().saturating_abs();
        let below = found.saturating_sub(found.wrapping_sub(linear.offset()).rem_euclid(step));
        let near: Vec<String> =
            [below, below.saturating_add(step)].iter().filter(|near| **near >= 1).map(i64::to_string).collect();
        SizeError::NotAMultiple {
            flag: flag.to_owned(),
            location: self.location(size),
            step,
            rest: linear.offset().rem_euclid(step),
            found,
            near: near.join(" or "),
        }
    }

    /// Checks a symbol's range. 1 always passes: torch.export writes 2 as the minimum of every size.
    fn check_range(&self, flag: &str, size: OpenSize<'_>, found: i64, solved: i64) -> Result<(), SizeError> {
        let number = size.linear.symbol() as usize;
        let range = self.model.symbols[number].range.unwrap_or(SymbolRange { least: 1, most: None });
        let is_within = range.contains(solved);
        if is_within || (solved == 1 && range.least <= 2) {
            return Ok(());
        }
        let linear = size.linear;
        Err(SizeError::NotExported {
            flag: flag.to_owned(),
            location: self.location(size),
            range: range_text(linear.at(range.least), range.most.and_then(|most| linear.at(most))),
            found,
            hint: match size.dimension.or_else(|| self.dimension_of(number)) {
                Some((input, dim)) => {
                    let value = self.model.linear(input.shape[dim]).and_then(|linear| linear.at(solved));
                    hint::opened(self.model, input, dim, &Axis::name_of(input, dim), value.unwrap_or(found))
                }
                None => "give a size within that range".to_owned(),
            },
        })
    }

    /// The first dimension of an input that depends on this symbol.
    fn dimension_of(&self, symbol: usize) -> Option<(&'a Input, usize)> {
        let depends = |size: &Size| self.model.linear(*size).is_some_and(|it| it.symbol() as usize == symbol);
        self.model.inputs.iter().find_map(|input| Some((input, input.shape.iter().position(depends)?)))
    }

    fn location(&self, size: OpenSize<'_>) -> String {
        match size.dimension {
            Some((input, dim)) => {
                let text = if size.linear.is_symbol() {
                    String::new()
                } else {
                    format!(", {},", self.model.size_text(input.shape[dim]))
                };
                format!("dimension {dim} of `{}`{text}", input.name)
            }
            None => format!("symbol `{}`", self.model.symbols[size.linear.symbol() as usize].name),
        }
    }

    /// Gives the symbol with this name a value.
    pub(super) fn symbol(&mut self, flag: &str, name: &str, value: i64) -> Result<(), SizeError> {
        match self.model.symbols.iter().position(|symbol| symbol.name == name) {
            Some(symbol) => self.set(flag, OpenSize::symbol(symbol), value),
            None => Err(self.unknown(flag, name, value)),
        }
    }

    /// Gives every size along an axis that can be chosen this value.
    pub(super) fn axis(&mut self, flag: &str, axis: Axis, value: i64) -> Result<(), SizeError> {
        check_size(flag, value)?;
        let open = axis.open_sizes(self.model);
        for size in &open {
            self.set(flag, *size, value)?;
        }
        let inputs = axis.inputs(self.model);
        let examples = || inputs.iter().filter_map(|input| input.example.get(axis.dim()));
        let is_example = examples().next().is_some() && examples().all(|size| *size == value);
        match open.is_empty() {
            false if self.model.origin == Origin::Archive => self.check_fixed(flag, axis, &open, value),
            true if !is_example => Err(self.closed(flag, axis, value)),
            _ => Ok(()),
        }
    }

    /// The error where nothing along an axis can be chosen.
    fn closed(&self, flag: &str, axis: Axis, value: i64) -> SizeError {
        let model = self.model;
        let flag = flag.to_owned();
        let hint = match axis.inputs(model).into_iter().find(|input| input.shape.len() > axis.dim()) {
            Some(input) => hint::opened(model, input, axis.dim(), axis.name(), value),
            None => hint::by_shape(model),
        };
        match model.origin == Origin::Archive && model.symbols.is_empty() {
            true => SizeError::ExportedAtOneSize { flag, present: shapes(model), hint },
            false => SizeError::NoSymbol { flag, location: axis.text(), present: present(model), hint },
        }
    }

    /// Refuses a change that would leave one input at the example's size while others of the same size change:
    /// torch.export fixes a size that the program computes with.
    fn check_fixed(&self, flag: &str, axis: Axis, open: &[OpenSize<'_>], value: i64) -> Result<(), SizeError> {
        let dim = axis.dim();
        let example = open.iter().find_map(|size| size.dimension.and_then(|(input, dim)| input.example.get(dim)));
        for input in axis.inputs(self.model) {
            if let (Some(Size::Known(fixed)), Some(example)) = (input.shape.get(dim).copied(), example)
                && fixed == *example
                && fixed != value
            {
                let (flag, input) = (flag.to_owned(), input.name.clone());
                return Err(SizeError::ExportedFixed { flag, input, dim, fixed });
            }
        }
        Ok(())
    }

    /// Parses one `--size`.
    pub(super) fn text(&mut self, text: &str) -> Result<(), SizeError> {
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
            _ => Err(self.unknown(&flag, name, sizes.first().copied().unwrap_or(1))),
        }
    }

    /// Sets the symbols of an input's shape: plain symbols first, then those of expressions. The other dimensions are checked
    /// once all symbols are known.
    fn shape(&mut self, flag: &str, input: &'a Input, sizes: Vec<i64>) -> Result<(), SizeError> {
        if sizes.len() != input.shape.len() {
            return Err(SizeError::WrongRank {
                flag: flag.to_owned(),
                name: input.name.clone(),
                found: sizes.len(),
                needed: input.shape.len(),
                shape: shape_text(self.model, input),
                hint: hint::reshaped(self.model.origin),
            });
        }
        let dims = input.shape.iter().zip(&sizes).enumerate().filter_map(|(dim, (size, value))| {
            Some((OpenSize { dimension: Some((input, dim)), linear: self.model.linear(*size)? }, *value))
        });
        let (bare, derived): (Vec<_>, Vec<_>) = dims.partition(|(size, _)| size.linear.is_symbol());
        for (size, value) in bare {
            self.set(flag, size, value)?;
        }
        for (size, value) in derived {
            if !self.is_chosen(size.linear.symbol() as usize) {
                self.set(flag, size, value)?;
            }
        }
        self.shapes.push((flag.to_owned(), input, sizes));
        Ok(())
    }

    /// Checks that the requested shapes are the ones that result.
    pub(super) fn check_shapes(&self, sizes: &Sizes) -> Result<(), SizeError> {
        for (flag, input, wanted) in &self.shapes {
            for (dim, (size, found)) in input.shape.iter().zip(wanted).enumerate() {
                let value = match size {
                    Size::Known(value) => Some(*value),
                    Size::Symbolic(id) => self.model.expressions[id.0 as usize].evaluate(sizes.as_slice()).ok(),
                };
                if value == Some(*found) {
                    continue;
                }
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
                    hint: match size {
                        Size::Known(_) => hint::opened(self.model, input, dim, &Axis::name_of(input, dim), *found),
                        Size::Symbolic(_) => "give sizes that go together".to_owned(),
                    },
                });
            }
        }
        Ok(())
    }

    fn unknown(&self, flag: &str, name: &str, value: i64) -> SizeError {
        SizeError::UnknownName {
            flag: flag.to_owned(),
            name: name.to_owned(),
            present: present(self.model),
            hint: hint::other_name(self.model, name, value),
        }
    }
}

fn check_size(flag: &str, found: i64) -> Result<(), SizeError> {
    if (1..SIZE_LIMIT).contains(&found) {
        return Ok(());
    }
    Err(SizeError::OutOfRange { flag: flag.to_owned(), found })
}
