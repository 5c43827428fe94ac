//! The file: its keys, and its list of layers as a tree of modules.

use ::toml::{Table, Value};

use super::call::LayerCall;
use super::error::{SketchError, near};
use super::layers;
use super::node::Node;
use vramfit_graph::dtype::Dtype;

/// The most modules that are read, repeats included.
const LIMIT: usize = 20_000;
const KEYS: [&str; 5] = ["name", "input", "dtype", "sizes", "layers"];
const ENTRY_KEYS: [&str; 5] = ["name", "layers", "repeat", "residual", "shortcut"];

/// A size of the input.
#[derive(Clone, Debug)]
pub(super) enum InputSize {
    Known(i64),
    Named(String),
}

/// What a file describes.
pub(super) struct Sketch {
    pub(super) class: String,
    pub(super) input: Vec<InputSize>,
    pub(super) dtype: Dtype,
    /// Symbols with their defaults, in the order of the input's sizes.
    pub(super) symbols: Vec<(String, i64)>,
    pub(super) root: Node,
}

pub(super) fn read(text: &str) -> Result<Sketch, SketchError> {
    let table: Table = text.parse().map_err(|error: ::toml::de::Error| {
        let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or(text));
        SketchError::Syntax { line: before.matches('\n').count() + 1, source: error }
    })?;
    known_keys(&table, "the file", &KEYS)?;
    let sizes = match table.get("sizes") {
        None => Table::new(),
        Some(Value::Table(sizes)) => sizes.clone(),
        Some(other) => return Err(unfit("sizes", other, "a table such as { batch = 32 }")),
    };
    let (input, symbols) = input(&table, &sizes)?;
    let dtype = match table.get("dtype").map(|value| (value, value.as_str().and_then(Dtype::from_name))) {
        None => Dtype::Float32,
        Some((_, Some(dtype))) if matches!(dtype, Dtype::Float32 | Dtype::Int64 | Dtype::Int32) => dtype,
        Some((value, _)) => return Err(unfit("dtype", value, "\"float32\", \"int64\" or \"int32\"")),
    };
    let class = match table.get("name") {
        None => "Sequential".to_owned(),
        Some(Value::String(name)) => name.clone(),
        Some(other) => return Err(unfit("name", other, "a text")),
    };
    let mut count = 0;
    let root = Node::sequential(entries(list(&table, "layers", "the file")?, "layers", &mut count)?);
    Ok(Sketch { class, input, dtype, symbols, root })
}

fn unfit(location: &str, found: &Value, needed: &str) -> SketchError {
    SketchError::Unfit { location: location.to_owned(), found: format!("`{found}`"), needed: needed.to_owned() }
}

fn known_keys(table: &Table, location: &str, known: &[&'static str]) -> Result<(), SketchError> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(SketchError::Unfit {
            location: location.to_owned(),
            found: format!("key `{key}`"),
            needed: format!("{}{}", known.join(", "), near(key, known)),
        }),
    }
}

fn list<'a>(table: &'a Table, key: &str, location: &str) -> Result<&'a [Value], SketchError> {
    match table.get(key) {
        Some(Value::Array(items)) if !items.is_empty() => Ok(items),
        Some(other) => Err(unfit(&format!("{location}: {key}"), other, "a list with something in it")),
        None => Err(SketchError::Unfit {
            location: location.to_owned(),
            found: format!("no `{key}`"),
            needed: "one: a list".to_owned(),
        }),
    }
}

/// The input's sizes, and the symbols among them.
#[allow(clippy::type_complexity, reason = "two lists")]
fn input(table: &Table, sizes: &Table) -> Result<(Vec<InputSize>, Vec<(String, i64)>), SketchError> {
    let (mut input, mut symbols) = (Vec::new(), Vec::<(String, i64)>::new());
    for size in list(table, "input", "the file")? {
        input.push(match size {
            Value::Integer(size) if (1..1 << 40).contains(size) => InputSize::Known(*size),
            Value::String(name) if is_symbol(name) => {
                let default = match sizes.get(name) {
                    None => {
                        if name == "batch" {
                            1
                        } else {
                            0
                        }
                    }
                    Some(Value::Integer(size)) if (1..1 << 40).contains(size) => *size,
                    Some(other) => return Err(unfit(&format!("sizes.{name}"), other, "a whole number from 1 on")),
                };
                if default == 0 {
                    let needed = format!("its default: sizes = {{ {name} = 128 }}");
                    let found = "nothing".to_owned();
                    return Err(SketchError::Unfit { location: format!("sizes.{name}"), found, needed });
                }
                if !symbols.iter().any(|(known, _)| known == name) {
                    symbols.push((name.clone(), default));
                }
                InputSize::Named(name.clone())
            }
            other => return Err(unfit("input", other, "whole numbers from 1 on and names such as \"batch\"")),
        });
    }
    if let Some(name) = sizes.keys().find(|name| !symbols.iter().any(|(known, _)| known == *name)) {
        let found = format!("size `{name}`");
        let needed = "names that `input` has".to_owned();
        return Err(SketchError::Unfit { location: "sizes".to_owned(), found, needed });
    }
    Ok((input, symbols))
}

fn is_symbol(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.len() < 64
        && name.starts_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit())
        && !["min", "max"].contains(&name)
}

/// The modules of a list, with their names.
fn entries(items: &[Value], location: &str, count: &mut usize) -> Result<Vec<Node>, SketchError> {
    let mut nodes: Vec<Node> = Vec::new();
    for (number, item) in items.iter().enumerate() {
        let here = format!("{location}[{number}]");
        let (name, mut node) = entry(item, &here, count)?;
        node.name = name.unwrap_or_else(|| number.to_string());
        if nodes.iter().any(|before| before.name == node.name) {
            let found = format!("the name `{}` twice", node.name);
            return Err(SketchError::Unfit { location: here, found, needed: "each name once".to_owned() });
        }
        nodes.push(node);
    }
    Ok(nodes)
}

fn entry(item: &Value, location: &str, count: &mut usize) -> Result<(Option<String>, Node), SketchError> {
    *count += 1;
    if *count > LIMIT {
        return Err(SketchError::TooMany { found: *count, limit: LIMIT });
    }
    let table = match item {
        Value::String(text) => {
            let call = LayerCall::parse(text, location)?;
            let node = layers::build(&call, location)?;
            return Ok((call.name, node));
        }
        Value::Table(table) => table,
        other => return Err(unfit(location, other, "a layer as text, or a table with `layers` or `residual`")),
    };
    known_keys(table, location, &ENTRY_KEYS)?;
    let name = match table.get("name") {
        None => None,
        Some(Value::String(name)) if !name.is_empty() && !name.contains('.') => Some(name.clone()),
        Some(other) => return Err(unfit(&format!("{location}: name"), other, "a text without dots")),
    };
    if table.contains_key("residual") {
        if let Some(key) = ["layers", "repeat"].into_iter().find(|key| table.contains_key(*key)) {
            let found = format!("`residual` and `{key}`");
            let needed = "one of them: put the one into the other".to_owned();
            return Err(SketchError::Unfit { location: location.to_owned(), found, needed });
        }
        let side = |key: &str, count: &mut usize| -> Result<Node, SketchError> {
            let here = format!("{location}.{key}");
            Ok(Node::sequential(entries(list(table, key, location)?, &here, count)?))
        };
        let body = side("residual", count)?;
        let shortcut = if table.contains_key("shortcut") { Some(side("shortcut", count)?) } else { None };
        return Ok((name, Node::residual(body, shortcut)));
    }
    if table.contains_key("shortcut") {
        return Err(SketchError::Unfit {
            location: location.to_owned(),
            found: "`shortcut` without `residual`".to_owned(),
            needed: "both".to_owned(),
        });
    }
    let here = format!("{location}.layers");
    let items = list(table, "layers", location)?;
    let Some(repeat) = table.get("repeat") else {
        return Ok((name, Node::sequential(entries(items, &here, count)?)));
    };
    let Value::Integer(times @ 1..) = repeat else {
        return Err(unfit(&format!("{location}: repeat"), repeat, "a whole number from 1 on"));
    };
    let mut blocks = Vec::new();
    for number in 0..*times {
        let mut block = match items {
            [only] => entry(only, &format!("{here}[0]"), count)?.1,
            several => Node::sequential(entries(several, &here, count)?),
        };
        block.name = number.to_string();
        blocks.push(block);
    }
    Ok((name, Node::sequential(blocks)))
}
