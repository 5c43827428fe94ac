//! Text tables: a row per line, fields separated by bars, lines with # are comments.

/// A malformed row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TableError {
    /// Line number, from 1.
    pub line: usize,
    /// What was found and what was needed.
    pub problem: String,
}

/// A line of a table.
pub(crate) struct Row<'a> {
    line: usize,
    /// Without the spaces around them.
    pub(crate) fields: Vec<&'a str>,
}

/// The rows of a table.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = Row<'_>> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty())
        .map(|(index, line)| Row { line: index + 1, fields: line.split('|').map(str::trim).collect() })
}

impl Row<'_> {
    /// What `parse` makes of it; an error names the line.
    pub(crate) fn parsed<T>(&self, parse: impl FnOnce(&Self) -> Result<T, String>) -> Result<T, TableError> {
        parse(self).map_err(|problem| TableError { line: self.line, problem })
    }

    /// A field that must be there.
    pub(crate) fn field(&self, index: usize) -> Result<&str, String> {
        let found = self.fields.get(index).copied();
        found.ok_or_else(|| format!("found {} fields, needed more than {index}", self.fields.len()))
    }

    /// Fields that must be numbers.
    pub(crate) fn numbers<const N: usize>(&self, indices: [usize; N]) -> Result<[f64; N], String> {
        let mut numbers = [0.0; N];
        for (target, index) in numbers.iter_mut().zip(indices) {
            *target = number(self.field(index)?)?.ok_or_else(|| "found -, needed a number".to_owned())?;
        }
        Ok(numbers)
    }
}

/// Parses a number above 0; `-` is `None`.
pub(crate) fn number(field: &str) -> Result<Option<f64>, String> {
    match field {
        "-" => Ok(None),
        _ => match field.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(Some(number)),
            _ => Err(format!("found `{field}`, needed a number above 0 or -")),
        },
    }
}
