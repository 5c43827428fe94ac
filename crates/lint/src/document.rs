//! A Python source: a script, or the concatenated code cells of a notebook.

use ruff_text_size::{TextRange, TextSize};
use serde_json::Value;

use crate::finding::Edit;

/// A position for people: lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The number of the code cell in a notebook, from 1.
    pub cell: Option<usize>,
    /// The line in the file, or in the cell.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// A Python source.
#[derive(Clone, Debug)]
pub struct Document {
    /// The Python text.
    pub text: String,
    lines: Vec<usize>,
    cells: Vec<Cell>,
    notebook: Option<Value>,
    /// The byte order mark of a script, if any, or the whole file of a notebook.
    original: String,
}

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A code cell: where its text starts, its number among code cells, and its index among all.
#[derive(Clone, Copy, Debug)]
struct Cell {
    start: usize,
    number: usize,
    index: usize,
}

impl Document {
    /// A script.
    pub fn script(text: String) -> Document {
        let (original, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (BYTE_ORDER_MARK.to_string(), rest.to_string()),
            None => (String::new(), text),
        };
        let lines = line_starts(&text);
        Document { text, lines, cells: Vec::new(), notebook: None, original }
    }

    /// A notebook; the error says what is wrong with the file.
    pub fn notebook(json: &str) -> Result<Document, String> {
        let plain = json.strip_prefix(BYTE_ORDER_MARK).unwrap_or(json);
        let notebook: Value = serde_json::from_str(plain).map_err(|error| format!("not a notebook: {error}"))?;
        let cells =
            notebook.get("cells").and_then(Value::as_array).ok_or("not a notebook: it has no list of `cells`")?;
        let cells = if is_python(&notebook) { &cells[..] } else { &[] };
        let (mut text, mut found) = (String::new(), Vec::new());
        let mut number = 0;
        for (index, cell) in cells.iter().enumerate() {
            if cell.get("cell_type").and_then(Value::as_str) != Some("code") {
                continue;
            }
            number += 1;
            let source = cell_source(cell);
            // Skip a cell in another language.
            if source.trim_start().starts_with("%%")
                && !["%%time", "%%capture", "%%timeit"].iter().any(|magic| source.trim_start().starts_with(magic))
            {
                continue;
            }
            found.push(Cell { start: text.len(), number, index });
            text.push_str(&source);
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        // A remaining cell magic parses as a comment of the same length.
        let text = text.replace("\n%%", "\n##");
        let text = if let Some(rest) = text.strip_prefix("%%") { format!("##{rest}") } else { text };
        let lines = line_starts(&text);
        Ok(Document { text, lines, cells: found, notebook: Some(notebook), original: json.to_string() })
    }

    /// The file as it was read.
    pub fn original(&self) -> String {
        if self.is_notebook() { self.original.clone() } else { format!("{}{}", self.original, self.text) }
    }

    /// Whether it is a notebook.
    pub(crate) fn is_notebook(&self) -> bool {
        self.notebook.is_some()
    }

    /// The line of an offset, from 0, through the whole text.
    pub(crate) fn line_of(&self, offset: TextSize) -> usize {
        let offset = usize::from(offset);
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// The offset at which a line starts.
    fn line_start(&self, line: usize) -> usize {
        self.lines.get(line).copied().unwrap_or(self.text.len())
    }

    /// The position of an offset.
    pub fn position(&self, offset: TextSize) -> Position {
        let line = self.line_of(offset);
        let start = self.line_start(line);
        let end = usize::from(offset).min(self.text.len());
        let column = self.text.get(start..end).map_or(1, |before| before.chars().count() + 1);
        match self.cell_at(start) {
            Some(cell) => Position { cell: Some(cell.number), line: line - self.line_of(size(cell.start)) + 1, column },
            None => Position { cell: None, line: line + 1, column },
        }
    }

    /// The first and the last line of a range in a script, from 1; a notebook has no such lines.
    pub fn lines(&self, range: TextRange) -> Option<(u32, u32)> {
        let line = |offset| u32::try_from(self.line_of(offset) + 1).ok();
        if self.is_notebook() { None } else { Some((line(range.start())?, line(range.end())?)) }
    }

    /// The position of an offset as editors count: lines from 0, columns in UTF-16 code units.
    pub fn editor_position(&self, offset: TextSize) -> (usize, usize) {
        let line = self.line_of(offset);
        let start = self.line_start(line);
        let end = usize::from(offset).min(self.text.len());
        let column = self.text.get(start..end).map_or(0, |before| before.encode_utf16().count());
        (line, column)
    }

    fn cell_at(&self, offset: usize) -> Option<Cell> {
        let after = self.cells.partition_point(|cell| cell.start <= offset);
        self.cells.get(after.checked_sub(1)?).copied()
    }

    /// An excerpt: the number of its first line, its text, and the range within that text.
    pub fn excerpt(&self, range: TextRange) -> (usize, &str, std::ops::Range<usize>) {
        let first = self.line_of(range.start());
        let last = self.line_of(range.end()).min(first + 3);
        let start = self.line_start(first);
        let end = self.lines.get(last + 1).copied().unwrap_or(self.text.len());
        let text = self.text[start..end].trim_end_matches(['\n', '\r']);
        let inner_start = usize::from(range.start()) - start;
        let inner_end = (usize::from(range.end()) - start).min(text.len()).max(inner_start);
        (self.position(range.start()).line, text, inner_start..inner_end)
    }

    /// The file with edits applied, which are sorted and do not overlap. `None` if an edit crosses notebook cells.
    pub(crate) fn with_edits(&self, edits: &[Edit]) -> Option<String> {
        let Some(notebook) = &self.notebook else {
            return Some(format!("{}{}", self.original, apply(&self.text, 0, edits)));
        };
        let mut notebook = notebook.clone();
        for (position, cell) in self.cells.iter().enumerate() {
            let end = self.cells.get(position + 1).map_or(self.text.len(), |next| next.start);
            let within: Vec<Edit> = edits
                .iter()
                .filter(|edit| (cell.start..end).contains(&usize::from(edit.range.start())))
                .cloned()
                .collect();
            if within.is_empty() {
                continue;
            }
            if within.iter().any(|edit| usize::from(edit.range.end()) > end) {
                return None;
            }
            let stored = notebook.get_mut("cells")?.get_mut(cell.index)?;
            // The stored text: in ours a magic has become a comment.
            let mut source = cell_source(stored);
            let had_end = source.ends_with('\n');
            if !had_end {
                source.push('\n');
            }
            let changed = apply(&source, cell.start, &within);
            let changed = if had_end { changed.as_str() } else { changed.trim_end_matches('\n') };
            let lines: Vec<Value> = changed.split_inclusive('\n').map(|line| Value::String(line.to_string())).collect();
            *stored.get_mut("source")? = Value::Array(lines);
        }
        let mut bytes = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b" ");
        let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
        serde::Serialize::serialize(&notebook, &mut serializer).ok()?;
        let mut text = String::from_utf8(bytes).ok()?;
        text.push('\n');
        Some(text)
    }
}

/// Applies edits to `text`, which starts at offset `start` of the document.
fn apply(text: &str, start: usize, edits: &[Edit]) -> String {
    let mut result = String::with_capacity(text.len());
    let mut position = 0;
    for edit in edits {
        let (from, to) = (usize::from(edit.range.start()) - start, usize::from(edit.range.end()) - start);
        result.push_str(&text[position..from]);
        result.push_str(&edit.text);
        position = to;
    }
    result.push_str(&text[position..]);
    result
}

fn cell_source(cell: &Value) -> String {
    match cell.get("source") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

/// Whether a notebook does not declare another language.
fn is_python(notebook: &Value) -> bool {
    let pointers = ["/metadata/language_info/name", "/metadata/kernelspec/language"];
    let declared = pointers.into_iter().find_map(|pointer| notebook.pointer(pointer).and_then(Value::as_str));
    declared.is_none_or(|language| language.to_lowercase().contains("python"))
}

/// A line ends with a line feed, a carriage return, or both.
fn line_starts(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is_end = |position: usize| match bytes[position] {
        b'\n' => true,
        b'\r' => bytes.get(position + 1) != Some(&b'\n'),
        _ => false,
    };
    std::iter::once(0)
        .chain((0..bytes.len()).filter(|position| is_end(*position)).map(|position| position + 1))
        .collect()
}

fn size(offset: usize) -> TextSize {
    TextSize::try_from(offset).unwrap_or_default()
}
