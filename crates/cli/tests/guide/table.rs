//! Tables whose cells are keys of JSON answers.

use serde_json::Value;
use vramfit_report::size::{grouped, human};

use crate::answers;
use crate::page::code;

/// A table with the comment before it.
pub struct Table {
    /// What answers, with `{}` for a row's code.
    source: String,
    /// For every cell after the first: a key, or `-` for words.
    columns: Vec<String>,
    /// The first of its lines, from 0.
    pub first: usize,
    pub lines: Vec<String>,
}

/// Heading and rule.
const HEAD: usize = 2;

impl Table {
    pub fn read(spec: &str, first: usize, lines: &[String], name: &str) -> Table {
        let mut parts = spec.split(" | ").map(|part| part.trim().to_owned());
        let source = parts.next().unwrap_or_default();
        let columns: Vec<String> = parts.collect();
        let length = lines[first..].iter().take_while(|line| line.starts_with('|')).count();
        let lines = lines[first..first + length].to_vec();
        assert!(length > HEAD && !columns.is_empty(), "{name}:{first}: needed columns, and a table after the comment");
        for line in &lines {
            let found = cells(line).len();
            assert_eq!(found, columns.len() + 1, "{name}:{first}: `{line}` has {found} cells");
        }
        Table { source, columns, first, lines }
    }

    /// What both languages have in common.
    pub fn outline(&self) -> String {
        let mut outline = format!("{} | {}", self.source, self.columns.join(" | "));
        for line in &self.lines[HEAD..] {
            let cells = cells(line);
            outline += &format!("\n{}", code(&cells[0]).next().unwrap_or_default());
            for (cell, column) in cells[1..].iter().zip(&self.columns).filter(|(_, column)| *column != "-") {
                outline += &format!(" {column}={cell}");
            }
        }
        outline
    }

    /// The cells that hold words, numbered from 1.
    pub fn words(&self) -> Vec<(usize, String)> {
        let mut words = Vec::new();
        for (row, line) in self.lines.iter().enumerate().filter(|(row, _)| *row != 1) {
            let is_word = |cell: usize| row == 0 || cell == 0 || self.columns[cell - 1] == "-";
            let cells = cells(line).into_iter().enumerate().filter(|(cell, _)| is_word(*cell));
            words.extend(cells.map(|(_, text)| (self.first + row + 1, text)));
        }
        words
    }

    /// The cells that are checked.
    pub fn values(&self) -> Vec<String> {
        let rows = self.lines[HEAD..].iter().map(|line| cells(line));
        let is_value = |cell: &usize| self.columns[*cell - 1] != "-";
        rows.flat_map(|cells| (1..cells.len()).filter(is_value).map(|cell| cells[cell].clone()).collect::<Vec<_>>())
            .collect()
    }

    fn answer(&self, row: &str) -> Value {
        let words: Vec<&str> = self.source.split(' ').collect();
        match words.as_slice() {
            ["measured", "{}"] => answers::measured(row),
            ["timed", model, "{}"] => answers::timed(model, row),
            ["request", "{}"] => answers::request(row),
            _ => answers::json(self.source.replace("{}", row).trim()),
        }
    }
}

/// A table's lines as they should be.
pub fn renewed(table: &Table) -> (Vec<String>, Vec<String>) {
    let mut lines = table.lines[..HEAD].to_vec();
    let mut problems = Vec::new();
    let mut start: Option<Value> = None;
    for line in &table.lines[HEAD..] {
        let mut cells = cells(line);
        let row = code(&cells[0]).next().unwrap_or_default().to_owned();
        let answer = table.answer(&row);
        let start = start.get_or_insert_with(|| answer.clone());
        for (cell, column) in cells[1..].iter_mut().zip(&table.columns).filter(|(_, column)| *column != "-") {
            match value(&answer, start, column) {
                Some(found) => *cell = found,
                None => problems.push(format!("{}: `{row}` has no {column}", table.first)),
            }
        }
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    (lines, problems)
}

/// `key`: bytes; `key#`: a number; `key%`: a change in per cent against the first row.
fn value(answer: &Value, start: &Value, column: &str) -> Option<String> {
    if let Some(key) = column.strip_suffix('%') {
        let (now, then) = (at(answer, key)?.as_f64()?, at(start, key)?.as_f64()?);
        return Some(format!("{:+.1} %", 100.0 * (now / then - 1.0)));
    }
    if let Some(key) = column.strip_suffix('#') {
        return at(answer, key)?.as_u64().map(grouped);
    }
    match at(answer, column)? {
        Value::String(text) => Some(text.clone()),
        other => other.as_u64().map(human),
    }
}

fn at<'value>(value: &'value Value, key: &str) -> Option<&'value Value> {
    key.split('.').try_fold(value, |value, part| match part.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(part),
    })
}

fn cells(line: &str) -> Vec<String> {
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|');
    inside.split('|').map(|cell| cell.trim().to_owned()).collect()
}
