//! What arguments operators have, in order, and their defaults: an archive names only those that were given.

use vramfit_graph::model::{Argument, MemoryFormat, Size};

/// Made by `signatures.py` beside it, which says how to read it.
const TABLE: &str = include_str!("signatures.txt");

/// What one of an operator's results is to its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alias {
    /// Something new.
    New,
    /// The argument with this number, written into.
    Written(usize),
    /// The argument with this number, or a view of it.
    View(usize),
}

/// The arguments of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    /// Their names, in order.
    pub(crate) names: Vec<String>,
    /// What they are where nothing is given.
    pub(crate) defaults: Vec<Argument>,
    /// What the results are.
    pub(crate) aliases: Vec<Alias>,
}

/// The signature of an operator such as `linear.default`.
pub(crate) fn find(name: &str) -> Option<Signature> {
    let line = find_line(name)?;
    let mut signature = Signature { names: Vec::new(), defaults: Vec::new(), aliases: Vec::new() };
    for word in line.split(' ').skip(1) {
        if let Some(alias) = word.strip_prefix('>') {
            signature.aliases.push(parse_alias(alias));
            continue;
        }
        let (name, default) = match word.split_once('=') {
            Some((name, text)) => (name, parse_default(text)),
            None => (word, Argument::None),
        };
        signature.names.push(name.to_owned());
        signature.defaults.push(default);
    }
    Some(signature)
}

/// The line that begins with `name`, by halving: lines are sorted by their bytes.
fn find_line(name: &str) -> Option<&'static str> {
    let (mut low, mut high) = (0, TABLE.len());
    while low < high {
        let middle = (low + high) / 2;
        let begin = TABLE[..middle].rfind('\n').map_or(0, |at| at + 1);
        let end = TABLE[middle..].find('\n').map_or(TABLE.len(), |at| middle + at);
        let line = &TABLE[begin..end];
        let found = line.split(' ').next().unwrap_or(line);
        match found.cmp(name) {
            std::cmp::Ordering::Equal => return Some(line),
            std::cmp::Ordering::Less => low = end + 1,
            std::cmp::Ordering::Greater => high = begin.saturating_sub(1).max(low),
        }
        if begin == 0 && found > name {
            return None;
        }
    }
    None
}

fn parse_alias(text: &str) -> Alias {
    let argument = text.get(1..).and_then(|digits| digits.parse().ok());
    match (text.chars().next(), argument) {
        (Some('w'), Some(argument)) => Alias::Written(argument),
        (Some('v'), Some(argument)) => Alias::View(argument),
        _ => Alias::New,
    }
}

fn parse_default(text: &str) -> Argument {
    let number = |text: &str| match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => Argument::Int(Size::Known(whole)),
        (_, Ok(real)) => Argument::Float(real),
        _ => Argument::Other,
    };
    match text {
        "~" => Argument::None,
        "true" => Argument::Bool(true),
        "false" => Argument::Bool(false),
        "@contiguous" => Argument::MemoryFormat(MemoryFormat::Contiguous),
        "@preserve" => Argument::MemoryFormat(MemoryFormat::Preserve),
        "[]" => Argument::List(Vec::new()),
        _ => match (text.strip_prefix('\''), text.strip_prefix('[')) {
            (Some(word), _) => Argument::Text(word.to_owned()),
            (_, Some(list)) => Argument::List(list.trim_end_matches(']').split(',').map(parse_default).collect()),
            _ => number(text),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found() {
        for line in TABLE.lines() {
            let name = line.split(' ').next().expect("a line has a first word");
            assert_eq!(find_line(name), Some(line));
            assert!(find(name).is_some());
        }
        for name in ["", "a", "zzz", "linear", "linear.defaul", "linear.defaultt"] {
            assert_eq!(find_line(name), None, "{name}");
        }
    }

    #[test]
    fn defaults_and_aliases_are_read() {
        let add = find("add.Tensor").expect("it is there");
        assert_eq!(add.names, ["self", "other", "alpha"]);
        assert_eq!(add.defaults[2], Argument::Int(Size::Known(1)));
        let relu = find("relu_.default").expect("it is there");
        assert_eq!(relu.aliases, [Alias::Written(0)]);
        let contiguous = find("contiguous.default").expect("it is there");
        assert_eq!(contiguous.defaults[1], Argument::MemoryFormat(MemoryFormat::Contiguous));
        let gelu = find("gelu.default").expect("it is there");
        assert_eq!(gelu.defaults[1], Argument::Text("none".to_owned()));
    }
}
