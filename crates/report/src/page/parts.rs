//! Pieces of HTML that several pages are made of.

use std::fmt::Write;

use super::escape;
use crate::size::human;

/// A number with its name and a note.
pub struct Number {
    name: &'static str,
    value: String,
    note: String,
}

impl Number {
    /// All three are text.
    pub fn new(name: &'static str, value: impl Into<String>, note: impl Into<String>) -> Number {
        Number { name, value: value.into(), note: note.into() }
    }

    pub(super) fn html(&self) -> String {
        let Number { name, value, note } = self;
        format!("<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>", escape(value), escape(note))
    }
}

/// What to know beside an answer.
pub fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    format!("<ul class=\"notes\">{items}</ul>")
}

/// A command line to copy; it may be broken between its words.
pub fn command_line(text: &str) -> String {
    let words: Vec<String> = text.split(' ').map(|word| format!("<span>{}</span>", escape(word))).collect();
    format!("<div class=\"code\"><pre class=\"words\" tabindex=\"0\">{}</pre></div>", words.join(" "))
}

/// A program to copy.
pub fn code(text: &str) -> String {
    // Line by line: an end of a line is the one control letter that may stay.
    let lines: Vec<String> = text.lines().map(escape).collect();
    format!("<div class=\"code\"><pre tabindex=\"0\">{}</pre></div>", lines.join("\n"))
}

/// A column of a table.
#[derive(Clone, Copy)]
pub enum Column {
    /// Words; sorted by letters.
    Text(&'static str),
    /// Numbers; sorted by value, the largest first.
    Number(&'static str),
    /// Not to be sorted by.
    Fixed(&'static str),
}

/// The head of a table.
pub fn head(columns: &[Column]) -> String {
    let cell = |column: &Column| match column {
        Column::Text(name) => format!("<th scope=\"col\" data-sort=\"text\">{name}</th>"),
        Column::Number(name) => format!("<th scope=\"col\" class=\"number\" data-sort=\"number\">{name}</th>"),
        Column::Fixed(name) => format!("<th scope=\"col\">{name}</th>"),
    };
    format!("<thead><tr>{}</tr></thead>", columns.iter().map(cell).collect::<String>())
}

/// A cell with a number that is shown in words.
pub fn number(value: impl std::fmt::Display, shown: &str) -> String {
    format!("<td class=\"number\" data-value=\"{value}\">{}</td>", escape(shown))
}

/// A share of a bar: its name, its bytes, its colour's number.
pub struct Share<'a> {
    /// What it is.
    pub name: &'a str,
    /// How much.
    pub bytes: u64,
    /// `--c0` to `--c12`.
    pub color: usize,
}

/// Shares side by side on a bar whose length is the capacity, the bytes in use or `least` bytes, whichever is
/// most, with a line where there is no more and stripes on what is beyond it.
pub fn meter(label: &str, shares: &[Share<'_>], limit: Option<u64>, least: u64) -> String {
    let taken: u64 = shares.iter().map(|share| share.bytes).sum();
    let whole = taken.max(limit.unwrap_or(0)).max(least).max(1) as f64;
    let percent = |bytes: u64| 100.0 * bytes as f64 / whole;
    let mut html = format!("<div class=\"meter\" role=\"img\" aria-label=\"{}\">", escape(label));
    for share in shares.iter().filter(|share| share.bytes > 0) {
        let _ = write!(
            html,
            "<span style=\"width:{:.3}%;--c:var(--c{})\" title=\"{}: {}\"></span>",
            percent(share.bytes),
            share.color,
            escape(share.name),
            human(share.bytes)
        );
    }
    if let Some(limit) = limit {
        if taken > limit {
            let (left, width) = (percent(limit), percent(taken - limit));
            let _ = write!(html, "<b style=\"left:{left:.3}%;width:{width:.3}%\"></b>");
        }
        let _ = write!(
            html,
            "<i style=\"left:calc({:.3}% - 2px)\" title=\"there are {}\"></i>",
            percent(limit),
            human(limit)
        );
    }
    html + "</div>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_keeps_its_lines_and_stays_text() {
        let html = code("if a < b:\n    f()\u{7}\n");
        assert!(html.contains(">if a &lt; b:\n    f()\u{fffd}</pre>"), "{html}");
    }

    #[test]
    fn a_meter_is_as_long_as_what_there_is() {
        let share = Share { name: "a\"b", bytes: 1 << 30, color: 3 };
        let html = meter("x", &[share], Some(4 << 30), 0);
        assert!(html.contains("width:25.000%") && html.contains("calc(100.000% - 2px)"), "{html}");
        assert!(html.contains("a&quot;b"), "{html}");
    }

    #[test]
    fn a_meter_is_as_long_as_what_is_taken_where_that_is_more() {
        let shares = [Share { name: "a", bytes: 3 << 30, color: 1 }, Share { name: "b", bytes: 1 << 30, color: 2 }];
        let html = meter("x", &shares, Some(2 << 30), 0);
        assert!(
            html.contains("calc(50.000% - 2px)") && html.contains("<b style=\"left:50.000%;width:50.000%\">"),
            "{html}"
        );
        assert!(!meter("x", &shares, Some(4 << 30), 0).contains("<b "), "nothing is beyond the line");
    }
}
