//! What the text of a line of Python says about names.

/// Words that begin a statement with a body, which may stand on the same line.
const HEADS: [&str; 11] = ["for", "if", "elif", "else", "while", "with", "try", "except", "finally", "def", "async"];

/// Methods that put what they are given into something that outlives the line.
const STORES: [&str; 6] = [".append(", ".extend(", ".insert(", ".appendleft(", ".update(", ".setdefault("];

/// What a line says; it may be the first or another line of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading<'a> {
    /// The names that it binds; where several statements do, the last one's.
    pub(super) targets: Vec<&'a str>,
    /// Whether it returns something.
    pub(super) is_return: bool,
    /// Whether it puts something where no name of the function shows it.
    pub(super) is_storing: bool,
    /// Whether several statements on it make something: which of them made a tensor cannot be told.
    pub(super) has_several: bool,
}

/// A longer line is not read.
const LONGEST: usize = 2_000;

/// Reads a line.
pub(super) fn read(text: &str) -> Reading<'_> {
    if text.len() > LONGEST {
        return Reading::default();
    }
    let statements = split(body(text));
    let mut reading = Reading::default();
    let mut makers = 0;
    for statement in statements {
        reading.is_return = first_word(statement) == "return";
        let assigned = assigned(statement);
        // What a name holds is put away without a call.
        let makes = is_putting(statement) && statement.matches('(').count() > 1;
        makers += usize::from(reading.is_return || assigned.is_some() || makes);
        match assigned.map(names) {
            _ if reading.is_return => {}
            Some(Some(found)) => reading.targets = found,
            Some(None) => reading.is_storing = true,
            None => {}
        }
    }
    if reading.is_return {
        reading.targets.clear();
    }
    reading.is_storing |= is_putting(text);
    reading.has_several = makers > 1;
    reading
}

/// Whether a line takes something out of a list, which then no longer holds it.
pub(super) fn is_taking(text: &str) -> bool {
    text.len() <= LONGEST && text.contains(".pop(")
}

fn is_putting(text: &str) -> bool {
    STORES.iter().any(|store| text.contains(store))
}

/// What follows the colon of a statement that has a body, or all of it.
fn body(text: &str) -> &str {
    if !HEADS.contains(&first_word(text)) {
        return text;
    }
    let (bytes, _) = top_level(text);
    let colon = bytes.iter().find(|(at, byte)| *byte == b':' && text.as_bytes().get(at + 1) != Some(&b'='));
    colon.map_or("", |(at, _)| text[at + 1..].trim())
}

fn first_word(text: &str) -> &str {
    let end = text.find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(text.len());
    &text[..end]
}

/// The bytes outside of brackets, texts and comments, with their places; and whether the line closes a bracket that another
/// line has opened, where it ends.
fn top_level(text: &str) -> (Vec<(usize, u8)>, bool) {
    let mut found = Vec::with_capacity(text.len());
    let mut depth = 0_usize;
    let mut quote: Option<u8> = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, quote) {
            (_, Some(open)) if byte == open && !text[..at].ends_with('\\') => quote = None,
            (_, Some(_)) => {}
            (b'\'' | b'"', None) => quote = Some(byte),
            (b'(' | b'[' | b'{', None) => depth += 1,
            (b')' | b']' | b'}', None) if depth == 0 => return (found, true),
            (b')' | b']' | b'}', None) => depth -= 1,
            (b'#', None) if depth == 0 => break,
            _ if depth == 0 => found.push((at, byte)),
            _ => {}
        }
    }
    (found, false)
}

/// The statements of a line.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let (bytes, _) = top_level(text);
    for (at, _) in bytes.into_iter().filter(|(_, byte)| *byte == b';') {
        parts.push(text[begin..at].trim());
        begin = at + 1;
    }
    parts.push(text[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// What stands left of a statement's `=`. An argument by name on a line of its own is no statement: it ends with a comma or
/// closes a bracket, or others stand before it.
fn assigned(statement: &str) -> Option<&str> {
    let (bytes, is_continued) = top_level(statement);
    let all = statement.as_bytes();
    let is_sign = |&(at, byte): &(usize, u8)| {
        let before = at.checked_sub(1).map(|before| all[before]);
        byte == b'=' && all.get(at + 1) != Some(&b'=') && !matches!(before, Some(b'=' | b'<' | b'>' | b'!' | b':'))
    };
    let (at, _) = bytes.into_iter().find(is_sign)?;
    let left = statement[..at].trim_end_matches(['+', '-', '*', '/', '@', '|', '&', '%', '^']);
    let is_tight = !left.ends_with(' ');
    let is_argument = is_tight && (statement.ends_with(',') || left.contains(' '));
    (!is_continued && !is_argument).then(|| left.trim())
}

/// The names that what stands left of a `=` binds; `None` where it binds something else.
fn names(left: &str) -> Option<Vec<&str>> {
    let left = left.split(':').next().unwrap_or(left).trim().trim_start_matches('(').trim_end_matches(')');
    let names: Vec<&str> = left.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let is_name = |name: &&str| {
        let name = name.trim_start_matches('*');
        name.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && name.chars().all(|character| character.is_alphanumeric() || character == '_')
    };
    names.iter().all(is_name).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_left_are_bound() {
        let targets = |text| read(text).targets;
        assert_eq!(targets("x = self.layer(x)"), ["x"]);
        assert_eq!(targets("outputs, _ = self.attention("), ["outputs", "_"]);
        assert_eq!(targets("(a, b) = self.halves(x)"), ["a", "b"]);
        assert_eq!(targets("mask: Tensor = make("), ["mask"]);
        assert_eq!(targets("x += y"), ["x"]);
        assert_eq!(targets("x = f(x, scale=2)  # y = 3"), ["x"]);
        for text in [
            "return self.layer(x, scale=2)",
            "attention_mask=self.mask(x),",
            "hidden, mask=self.mask(x)",
            "mask=self.mask(x))",
            "mask = self.mask(x))",
            "self.layer(x, scale = 2)",
            "self.cache = x",
            "x[0] = y",
            "if x == y:",
            "if x <= y:",
            "y := 3",
        ] {
            assert!(targets(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn code_without_spaces_binds_names_too() {
        assert_eq!(read("x=d(x)").targets, ["x"]);
        assert_eq!(read("a,b=f(x)").targets, ["a", "b"]);
        assert_eq!(read("x+=d(x)").targets, ["x"]);
        assert_eq!(read("for u,b in zip(s.u,s.b): x=b(torch.cat([u(x),skips.pop()],1))").targets, ["x"]);
        assert_eq!(read("with torch.no_grad(): h=s.a(x)").targets, ["h"]);
        assert_eq!(read("if x==y:").targets, Vec::<&str>::new());
    }

    #[test]
    fn several_statements_on_a_line_are_told_from_one() {
        let line = read("if i<2: skips.append(x); x=F.avg_pool2d(x,2) if i else F.max_pool2d(x,2)");
        assert_eq!((line.targets, line.has_several, line.is_storing), (vec!["x"], false, true));
        assert!(read("skips.append(f(x)); x=g(x)").has_several);
        let line = read("a=s.a(x); return s.o(a)");
        assert_eq!((line.targets.len(), line.has_several, line.is_return), (0, true, true));
        assert!(!read("x = f(\"a;b\")").has_several);
        assert!(!read("x = f(x);").has_several);
    }

    #[test]
    fn what_is_put_away_is_seen() {
        assert!(read("features.append(layer(x))").is_storing);
        assert!(read("self.cache = layer(x)").is_storing);
        assert!(read("features[name] = layer(x)").is_storing);
        assert!(!read("x = layer(x)").is_storing);
        assert!(!read("layer(x),").is_storing);
        assert!(is_taking("x = torch.cat([x, skips.pop()])") && !is_taking("x = self.pop"));
    }

    #[test]
    fn odd_lines_say_nothing() {
        for text in ["", ":", "=", "\"", "\\", ")", "é=é", "for", "else:", &"x = ".repeat(1_000)] {
            let _ = read(text);
        }
        assert_eq!(read(&format!("x = {}", "y".repeat(LONGEST))), Reading::default());
    }
}
