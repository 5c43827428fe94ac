//! A layer as text, as Python has it: `hidden = Linear(784, 512, bias=False)`.

use std::fmt;

use super::error::{SketchError, near};

/// A value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(text) => write!(f, "\"{text}\""),
            Value::Tuple(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "({})", items.join(", "))
            }
        }
    }
}

/// A layer with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LayerCall {
    pub(super) name: Option<String>,
    pub(super) class: String,
    positional: Vec<Value>,
    named: Vec<(String, Value)>,
}

impl LayerCall {
    /// Parses `text`; `location` is where it is in the file.
    pub(super) fn parse(text: &str, location: &str) -> Result<LayerCall, SketchError> {
        let mut parser = Parser { rest: text.trim() };
        parser.layer().map_err(|needed| SketchError::Unfit {
            location: location.to_owned(),
            found: format!("`{text}`"),
            needed: format!("a layer such as `Linear(784, 512)` or `name = ReLU()`: {needed}"),
        })
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn layer(&mut self) -> Result<LayerCall, String> {
        let mut class = self.word()?;
        let name = if self.accept('=') { Some(std::mem::replace(&mut class, self.word()?)) } else { None };
        let mut call = LayerCall { name, class, positional: Vec::new(), named: Vec::new() };
        self.expect('(')?;
        while !self.accept(')') {
            let before = self.rest;
            match self.word().ok().filter(|_| self.accept('=')) {
                Some(name) => {
                    let value = self.value(0)?;
                    call.named.push((name, value));
                }
                None if call.named.is_empty() => {
                    self.rest = before;
                    let value = self.value(0)?;
                    call.positional.push(value);
                }
                None => return Err("positional arguments come before named ones".to_owned()),
            }
            if !self.accept(',') && !self.rest.starts_with(')') {
                return Err(format!("`,` or `)` before `{}`", self.rest));
            }
        }
        if self.rest.is_empty() { Ok(call) } else { Err(format!("nothing after the `)`, not `{}`", self.rest)) }
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest[count..].trim_start();
    }

    fn accept(&mut self, sign: char) -> bool {
        let is_there = self.rest.starts_with(sign);
        if is_there {
            self.skip(sign.len_utf8());
        }
        is_there
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.accept(sign) { Ok(()) } else { Err(format!("`{sign}` before `{}`", self.rest)) }
    }

    fn word(&mut self) -> Result<String, String> {
        let is_end = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
        let length = self.rest.find(is_end).unwrap_or(self.rest.len());
        let word = self.rest[..length].to_owned();
        if word.starts_with(|letter: char| letter.is_ascii_digit() || letter == '-') || word.is_empty() {
            return Err(format!("a name, not `{}`", self.rest));
        }
        self.skip(length);
        Ok(word)
    }

    fn value(&mut self, depth: u8) -> Result<Value, String> {
        let first = self.rest.chars().next().ok_or("a value before the end")?;
        if (first == '(' || first == '[') && depth < 4 {
            let end = if first == '(' { ')' } else { ']' };
            self.skip(1);
            let mut items = Vec::new();
            while !self.accept(end) {
                items.push(self.value(depth + 1)?);
                if !self.accept(',') && !self.rest.starts_with(end) {
                    return Err(format!("`,` or `{end}` before `{}`", self.rest));
                }
            }
            return Ok(Value::Tuple(items));
        }
        if first == '"' || first == '\'' {
            let length = self.rest[1..].find(first).ok_or_else(|| format!("a second {first}"))?;
            let text = self.rest[1..=length].to_owned();
            self.skip(length + 2);
            return Ok(Value::Text(text));
        }
        let length = self.rest.find([',', ')', ']', ' ']).unwrap_or(self.rest.len());
        let word = &self.rest[..length];
        let value = match word {
            "None" => Value::None,
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            _ => match (word.replace('_', "").parse::<i64>(), word.parse::<f64>()) {
                (Ok(number), _) => Value::Int(number),
                (_, Ok(number)) if number.is_finite() => Value::Float(number),
                _ => return Err(format!("a number, a text, True, False or None, not `{word}`")),
            },
        };
        self.skip(length);
        Ok(value)
    }
}

/// The arguments of a layer, by name.
pub(super) struct Arguments<'a> {
    pub(super) class: &'a str,
    pub(super) location: &'a str,
    given: Vec<(&'static str, Value)>,
}

impl<'a> Arguments<'a> {
    /// `names` are those that are modelled, in torch's order.
    pub(super) fn new(call: &'a LayerCall, location: &'a str, names: &[&'static str]) -> Result<Self, SketchError> {
        let unknown = |name: &str| SketchError::UnknownArgument {
            location: location.to_owned(),
            class: call.class.clone(),
            name: name.to_owned(),
            near: near(name, names),
        };
        if call.positional.len() > names.len() {
            return Err(SketchError::Unfit {
                location: location.to_owned(),
                found: format!("{} arguments without a name", call.positional.len()),
                needed: format!("at most {}: {}", names.len(), names.join(", ")),
            });
        }
        let mut given: Vec<(&str, Value)> = names.iter().copied().zip(call.positional.iter().cloned()).collect();
        for (name, value) in &call.named {
            let known = names.iter().find(|known| *known == name).ok_or_else(|| unknown(name))?;
            if given.iter().any(|(before, _)| before == known) {
                return Err(SketchError::Unfit {
                    location: location.to_owned(),
                    found: format!("argument `{name}` twice"),
                    needed: "it once".to_owned(),
                });
            }
            given.push((known, value.clone()));
        }
        Ok(Arguments { class: &call.class, location, given })
    }

    pub(super) fn find(&self, name: &str) -> Option<&Value> {
        self.given
            .iter()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| value)
            .filter(|value| **value != Value::None)
    }

    pub(super) fn unfit(&self, name: &str, needed: &str) -> SketchError {
        let found = match self.given.iter().find(|(given, _)| *given == name) {
            Some((_, value)) => format!("`{value}`"),
            None => "nothing".to_owned(),
        };
        SketchError::Unfit {
            location: format!("{}: {}({name})", self.location, self.class),
            found,
            needed: needed.to_owned(),
        }
    }

    /// A number of something, 1 at least.
    pub(super) fn count(&self, name: &str) -> Result<i64, SketchError> {
        match self.find(name) {
            Some(Value::Int(value)) if (1..1 << 40).contains(value) => Ok(*value),
            Some(Value::Int(value)) if *value > 0 => Err(self.unfit(name, &format!("at most {}", (1_i64 << 40) - 1))),
            _ => Err(self.unfit(name, "a whole number from 1 on")),
        }
    }

    pub(super) fn count_or(&self, name: &str, default: i64) -> Result<i64, SketchError> {
        if self.find(name).is_none() { Ok(default) } else { self.count(name) }
    }

    pub(super) fn int_or(&self, name: &str, default: i64) -> Result<i64, SketchError> {
        match self.find(name) {
            None => Ok(default),
            Some(Value::Int(value)) if value.abs() < 1 << 40 => Ok(*value),
            Some(_) => Err(self.unfit(name, "a whole number")),
        }
    }

    pub(super) fn bool_or(&self, name: &str, default: bool) -> Result<bool, SketchError> {
        match self.find(name) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => Err(self.unfit(name, "True or False")),
        }
    }

    pub(super) fn float_or(&self, name: &str, default: f64) -> Result<f64, SketchError> {
        match self.find(name) {
            None => Ok(default),
            Some(Value::Float(value)) => Ok(*value),
            Some(Value::Int(value)) => Ok(*value as f64),
            Some(_) => Err(self.unfit(name, "a number")),
        }
    }

    pub(super) fn text_or(&self, name: &str, default: &str) -> Result<String, SketchError> {
        match self.find(name) {
            None => Ok(default.to_owned()),
            Some(Value::Text(value)) => Ok(value.clone()),
            Some(_) => Err(self.unfit(name, "a text")),
        }
    }

    /// One number for each of `dimensions` of an image, from one for all or a tuple; none below `least`.
    pub(super) fn each(&self, name: &str, dimensions: usize, least: i64) -> Result<Option<Vec<i64>>, SketchError> {
        let needed = format!("a whole number from {least} on, or {dimensions} of them");
        let fits = |value: &Value| match value {
            Value::Int(value) if (least..1 << 32).contains(value) => Some(*value),
            _ => None,
        };
        let found = match self.find(name) {
            None => return Ok(None),
            Some(Value::Tuple(items)) if items.len() == dimensions => items.iter().map(fits).collect(),
            Some(value) => fits(value).map(|value| vec![value; dimensions]),
        };
        found.map(Some).ok_or_else(|| self.unfit(name, &needed))
    }
}
