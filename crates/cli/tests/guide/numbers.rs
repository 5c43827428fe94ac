//! Numbers in the prose, and where they may come from.

use std::collections::BTreeSet;
use std::fs;

use vramfit_allocator::size::{LARGE_SEGMENT, MINIMUM_BLOCK, OWN_SEGMENT, SMALL_REQUEST, SMALL_SEGMENT};

use crate::page::{Page, Piece};
use crate::{answers, equation, root};

const UNITS: [&str; 12] = ["KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB", "ms", "µs", "B", "%"];

/// What a page may say, and complaints about sources that do not hold.
pub fn known(page: &Page, complaints: &mut Vec<String>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (bytes, unit, size) in [
        (MINIMUM_BLOCK, "B", 1),
        (SMALL_REQUEST, "MiB", 1 << 20),
        (SMALL_SEGMENT, "MiB", 1 << 20),
        (OWN_SEGMENT, "MiB", 1 << 20),
        (LARGE_SEGMENT, "MiB", 1 << 20),
    ] {
        known.insert(format!("{} {unit}", bytes / size));
    }
    for piece in &page.pieces {
        match piece {
            Piece::Console { lines, .. } => {
                for command in lines.iter().filter_map(|line| line.strip_prefix("$ ")) {
                    known.extend(of(command).chain(of(&answers::text(command))));
                }
            }
            Piece::Table(table) => known.extend(table.values().iter().flat_map(|value| of(value).collect::<Vec<_>>())),
            Piece::Quote { text, .. } => known.extend(of(text)),
            Piece::From { file, numbers } => {
                let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                for number in numbers {
                    // `2.3507 % as 2.4 %`: rounded on the page.
                    let (number, rounded) = number.split_once(" as ").unwrap_or((number, number));
                    // Tables have their unit at their head.
                    let bare = number.split(' ').next().unwrap_or(number);
                    if !stands_in(number, &text) && !stands_in(bare, &text) {
                        complaints.push(format!("{}: {file} has no `{number}`", page.name));
                    }
                    if let Err(problem) = equation::check(&format!("{number} = {rounded}")) {
                        complaints.push(format!("{}: {file}: {problem}", page.name));
                    }
                    known.extend(of(rounded).chain([rounded.to_owned()]));
                }
            }
            _ => {}
        }
    }
    for (line, text) in page.equations() {
        match equation::check(&text) {
            Ok(()) => known.extend(of(&text)),
            Err(problem) => complaints.push(format!("{}:{line}: `{text}`: {problem}", page.name)),
        }
    }
    known
}

/// Whether `number` is in `text` and is not part of a longer one.
fn stands_in(number: &str, text: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + number.len()..].chars().next();
        let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_digit());
        !is_part(before) && !is_part(after)
    })
}

/// Numbers of the prose with the lines they stand in.
pub fn in_prose(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in page.prose() {
        let text = without_arguments(&without_targets(&text));
        found.extend(of(&text).map(|number| (line, number)));
    }
    found
}

/// Text without where its links lead.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    kept
}

/// Text without code such as `--vram 11GiB`, where a number says nothing about the world.
fn without_arguments(text: &str) -> String {
    let is_argument = |code: &str| of(code).all(|number| !code.contains(&number));
    let parts = text.split('`').enumerate();
    parts.filter(|(at, part)| at % 2 == 0 || !is_argument(part)).map(|(_, part)| part).collect::<Vec<_>>().join("`")
}

/// Numbers with a unit, as `12.5 MiB`, and numbers that are grouped, as `1,024`.
pub fn of(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        if !letters[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let begin = at;
        while at < letters.len() && (letters[at].is_ascii_digit() || is_inner(&letters, at)) {
            at += 1;
        }
        if begin > 0 && (letters[begin - 1].is_ascii_alphanumeric() || letters[begin - 1] == '_') {
            continue;
        }
        let number: String = letters[begin..at].iter().collect();
        let rest: String = letters[at..].iter().take(5).collect();
        let spaced = rest.strip_prefix(' ');
        let rest = spaced.unwrap_or(&rest);
        let unit = UNITS.iter().find(|unit| {
            // A "7B model" is not seven bytes large.
            if **unit == "B" && spaced.is_none() {
                return false;
            }
            let after = rest.strip_prefix(**unit).map(|rest| rest.chars().next());
            after.is_some_and(|next| !next.is_some_and(|letter| letter.is_ascii_alphanumeric()))
        });
        match unit {
            Some(unit) => found.push(format!("{number} {unit}")),
            None if number.contains(',') => found.push(number),
            None => {}
        }
    }
    found.into_iter()
}

/// A point or comma between digits.
fn is_inner(letters: &[char], at: usize) -> bool {
    matches!(letters[at], '.' | ',') && letters.get(at + 1).is_some_and(char::is_ascii_digit)
}
