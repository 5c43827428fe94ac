//! Lines of Python.

/// Where a line should end.
const WIDTH: usize = 80;

/// Lines of Python with their indentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(Vec<(usize, String)>);

impl Lines {
    /// One line, without indentation.
    pub fn of(text: &str) -> Lines {
        let mut lines = Lines::default();
        lines.line(0, text);
        lines
    }

    /// Adds a line; an empty one for an empty text.
    pub fn line(&mut self, indent: usize, text: &str) {
        self.0.push((indent, text.to_owned()));
    }

    /// Adds a line without indentation, unless it is there.
    pub fn once(&mut self, text: &str) {
        if !self.0.iter().any(|(indent, line)| *indent == 0 && line == text) {
            self.line(0, text);
        }
    }

    /// Adds lines, further indented.
    pub fn extend(&mut self, indent: usize, lines: &Lines) {
        self.0.extend(lines.0.iter().map(|(inner, text)| (indent + inner, text.clone())));
    }

    /// Adds a list of names, one name a line if they do not fit on one.
    pub fn list(&mut self, name: &str, names: &[String]) {
        let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let short = format!("{name} = [{}]", quoted.join(", "));
        if short.len() <= WIDTH {
            self.line(0, &short);
            return;
        }
        self.line(0, &format!("{name} = ["));
        for quoted in quoted {
            self.line(1, &format!("{quoted},"));
        }
        self.line(0, "]");
    }

    /// Adds a call with the text before and after it, one argument a line if it does not fit on one.
    pub fn call<T: AsRef<str>>(&mut self, indent: usize, before: &str, arguments: &[T], after: &str) {
        let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
        let short = format!("{before}({}){after}", arguments.join(", "));
        if 4 * indent + short.chars().count() <= WIDTH {
            self.line(indent, &short);
            return;
        }
        self.line(indent, &format!("{before}("));
        for argument in arguments {
            self.line(indent + 1, &format!("{argument},"));
        }
        self.line(indent, &format!("){after}"));
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text, each line with its line break.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (indent, line) in &self.0 {
            if !line.is_empty() {
                text += &"    ".repeat(*indent);
                text += line;
            }
            text.push('\n');
        }
        text
    }
}
