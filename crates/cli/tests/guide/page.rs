//! A page as pieces that can be checked.

use std::fs;
use std::path::{Path, PathBuf};

use crate::equation;
use crate::table::Table;

/// A Markdown page.
pub struct Page {
    pub path: PathBuf,
    /// Its path from the repository's root.
    pub name: String,
    pub lines: Vec<String>,
    pub pieces: Vec<Piece>,
}

/// Part of a page. Numbers of lines count from 0.
pub enum Piece {
    Heading {
        level: usize,
        text: String,
        line: usize,
    },
    /// The lines between the fences.
    Console {
        first: usize,
        lines: Vec<String>,
    },
    /// A fenced block that stands in a file.
    Quote {
        file: String,
        text: String,
        first: usize,
    },
    /// Another fenced block.
    Fence {
        text: String,
        first: usize,
    },
    Table(Table),
    /// `<!-- from FILE: … -->`.
    From {
        file: String,
        numbers: Vec<String>,
    },
    Prose {
        text: String,
        line: usize,
    },
}

impl Piece {
    /// First line and the one after the last, of what is written anew.
    pub fn span(&self) -> (usize, usize) {
        match self {
            Piece::Console { first, lines } => (*first, first + lines.len()),
            Piece::Table(table) => (table.first, table.first + table.lines.len()),
            _ => unreachable!("only outputs and tables are written anew"),
        }
    }
}

impl Page {
    pub fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let path = path.canonicalize().unwrap();
        let name = path.strip_prefix(crate::root()).unwrap_or(&path).display().to_string();
        let pieces = pieces(&lines, &name);
        Page { path, name, lines, pieces }
    }

    /// What both languages must have in common, each with its place.
    pub fn outline(&self) -> Vec<(String, String)> {
        let mut outline = Vec::new();
        let mut add = |line: usize, what: String| outline.push((format!("{}:{}", self.name, line + 1), what));
        for piece in &self.pieces {
            match piece {
                Piece::Heading { level, line, .. } => add(*line, format!("a heading of level {level}")),
                Piece::Console { first, lines } => add(*first, lines.join("\n")),
                Piece::Quote { first, file, text } => add(*first, format!("{file}: {text}")),
                Piece::Fence { first, text } => add(*first, without_comments(text)),
                Piece::Table(table) => add(table.first, table.outline()),
                Piece::From { file, numbers } => add(0, format!("{file}: {}", numbers.join(" "))),
                Piece::Prose { text, line } => {
                    if text.starts_with('|') {
                        add(*line, format!("a row with {} bars", text.matches('|').count()));
                    } else if is_item(text) {
                        add(*line, "an item of a list".to_owned());
                    }
                    for picture in pictures(text) {
                        add(*line, picture);
                    }
                }
            }
        }
        // Sentences may stand in another order, so equations are compared as a set at the end.
        let mut equations: Vec<String> = self.equations().into_iter().map(|(_, text)| text).collect();
        equations.sort();
        add(0, equations.join("\n"));
        outline
    }

    /// Code in the prose that is an equation.
    pub fn equations(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, text) in self.prose() {
            found.extend(code(&text).filter(|code| equation::is_one(code)).map(|code| (line, code.to_owned())));
        }
        found
    }

    /// Lines of prose and of tables' words, numbered from 1.
    pub fn prose(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Prose { text, line } | Piece::Heading { text, line, .. } => found.push((line + 1, text.clone())),
                Piece::Table(table) => found.extend(table.words()),
                _ => {}
            }
        }
        found
    }

    /// Targets of links and pictures.
    pub fn links(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, text) in self.prose() {
            found.extend(targets(&text).map(|target| (line, target)));
        }
        found
    }

    /// Headings as GitHub names them in links.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Heading { text, .. } => Some(text),
            _ => None,
        });
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        headings
            .map(|text| text.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
            .collect()
    }
}

fn pieces(lines: &[String], name: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut quote: Option<String> = None;
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].as_str();
        if let Some(kind) = line.strip_prefix("```") {
            let first = at + 1;
            let length = lines[first..].iter().position(|line| line == "```");
            let length = length.unwrap_or_else(|| panic!("{name}:{first}: a fence without an end"));
            let inside = &lines[first..first + length];
            pieces.push(match (kind, quote.take()) {
                ("console", _) => Piece::Console { first, lines: inside.to_vec() },
                (_, Some(file)) => Piece::Quote { file, text: inside.join("\n"), first },
                _ => Piece::Fence { text: inside.join("\n"), first },
            });
            at = first + length + 1;
            continue;
        }
        if let Some(comment) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            if let Some(spec) = comment.strip_prefix("table: ") {
                let table = Table::read(spec, at + 1, lines, name);
                at = table.first + table.lines.len();
                pieces.push(Piece::Table(table));
                continue;
            }
            if let Some(file) = comment.strip_prefix("quote: ") {
                quote = Some(file.to_owned());
            } else if let Some((file, numbers)) = comment.strip_prefix("from ").and_then(|rest| rest.split_once(": ")) {
                let numbers = numbers.split('|').map(|number| number.trim().to_owned()).collect();
                pieces.push(Piece::From { file: file.to_owned(), numbers });
            } else {
                panic!("{name}:{}: found the comment `{comment}`, needed table, quote or from", at + 1);
            }
        } else if line.starts_with('#') {
            let level = line.chars().take_while(|letter| *letter == '#').count();
            pieces.push(Piece::Heading { level, text: line[level..].to_owned(), line: at });
        } else {
            pieces.push(Piece::Prose { text: line.to_owned(), line: at });
        }
        at += 1;
    }
    pieces
}

fn is_item(text: &str) -> bool {
    let text = text.trim_start();
    let rest = text
        .strip_prefix('-')
        .or_else(|| text.trim_start_matches(|letter: char| letter.is_ascii_digit()).strip_prefix('.'));
    rest.is_some_and(|rest| rest.starts_with(' '))
}

/// Code without what follows `#` or `//`, which is in the page's language.
fn without_comments(code: &str) -> String {
    let lines = code.lines().map(|line| line.split(" # ").next().unwrap_or(line).trim_end());
    lines.filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}

/// What stands between backticks.
pub fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn targets(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned())
}

fn pictures(text: &str) -> Vec<String> {
    text.split("![").skip(1).flat_map(|rest| targets(rest).take(1).collect::<Vec<_>>()).collect()
}
