//! Refuses code nested so deeply that parsing it could exhaust the stack. Python refuses it too: it accepts 200 nested
//! brackets, 100 indentation levels and about 3000 nested operators.

/// Nested brackets.
const MAX_BRACKETS: usize = 200;
/// Nested blocks.
const MAX_BLOCKS: usize = 100;
/// Nested operators; `**` counts twice, and so does `a if b else c`.
const MAX_OPERATORS: usize = 6000;

/// The offset at which a text is nested too deeply, and which limit it exceeds.
pub fn too_deep(text: &str) -> Option<(usize, String)> {
    let mut scan = Scan::default();
    let bytes = text.as_bytes();
    let mut position = 0;
    while position < bytes.len() {
        position = scan.token(bytes, position);
        if let Some(what) = scan.exceeded() {
            return Some((position.min(bytes.len()), what));
        }
    }
    None
}

#[derive(Default)]
struct Scan {
    /// For each open bracket: the operators before it since the last comma.
    open: Vec<usize>,
    /// The operators since the last comma in the innermost bracket.
    here: usize,
    /// The sum of both.
    operators: usize,
    /// The indentation of each open block.
    blocks: Vec<usize>,
    is_line_begun: bool,
}

impl Scan {
    fn exceeded(&self) -> Option<String> {
        let exceeds = |limit: usize, what: &str| Some(format!("more than {limit} {what} within each other"));
        if self.open.len() > MAX_BRACKETS {
            return exceeds(MAX_BRACKETS, "brackets");
        }
        if self.blocks.len() > MAX_BLOCKS {
            return exceeds(MAX_BLOCKS, "blocks");
        }
        if self.operators > MAX_OPERATORS { exceeds(MAX_OPERATORS, "operators") } else { None }
    }

    /// Scans the token at `position` and returns its end.
    fn token(&mut self, bytes: &[u8], position: usize) -> usize {
        if !self.is_line_begun {
            self.is_line_begun = true;
            return self.line(bytes, position);
        }
        match bytes[position] {
            b'\n' => {
                if self.open.is_empty() {
                    self.siblings();
                }
                self.is_line_begun = false;
                position + 1
            }
            b'#' => end_of_line(bytes, position),
            quote @ (b'"' | b'\'') => end_of_string(bytes, position, quote),
            b'\\' => position + 2,
            b'(' | b'[' | b'{' => {
                self.operators += 1;
                self.open.push(self.here + 1);
                self.here = 0;
                position + 1
            }
            b')' | b']' | b'}' => {
                if let Some(before) = self.open.pop() {
                    self.siblings();
                    self.here = before;
                }
                position + 1
            }
            b',' | b';' => {
                self.siblings();
                position + 1
            }
            letter if is_word(letter) => {
                let end = position + bytes[position..].iter().take_while(|letter| is_word(**letter)).count();
                let word = &bytes[position..end];
                if matches!(word, b"not" | b"lambda" | b"if" | b"else" | b"await" | b"for" | b"yield") {
                    self.deeper();
                }
                end
            }
            b' ' | b'\t' | b'\r' | b':' | b'=' | 0x0c => position + 1,
            _ => {
                self.deeper();
                position + 1
            }
        }
    }

    fn deeper(&mut self) {
        self.here += 1;
        self.operators += 1;
    }

    /// What follows is beside what came before, not nested in it.
    fn siblings(&mut self) {
        self.operators -= self.here;
        self.here = 0;
    }

    /// Scans the start of a line.
    fn line(&mut self, bytes: &[u8], position: usize) -> usize {
        let width = bytes[position..].iter().take_while(|letter| matches!(letter, b' ' | b'\t' | 0x0c)).count();
        let start = position + width;
        let rest = &bytes[start..];
        if rest.is_empty() || matches!(rest[0], b'\n' | b'\r' | b'#') {
            return start;
        }
        // At the start of a statement an open bracket is a syntax error; what follows is not nested in it.
        let begins = [&b"def "[..], b"class ", b"import ", b"return ", b"while ", b"with ", b"try:", b"@"];
        if !self.open.is_empty() && begins.iter().any(|word| rest.starts_with(word)) {
            self.open.clear();
            (self.here, self.operators) = (0, 0);
        }
        if self.open.is_empty() {
            while self.blocks.last().is_some_and(|block| *block >= width) {
                self.blocks.pop();
            }
            if width > 0 {
                self.blocks.push(width);
            }
        }
        start
    }
}

fn is_word(letter: u8) -> bool {
    letter.is_ascii_alphanumeric() || letter == b'_' || letter >= 0x80
}

fn end_of_line(bytes: &[u8], position: usize) -> usize {
    position + bytes[position..].iter().take_while(|letter| **letter != b'\n').count()
}

fn end_of_string(bytes: &[u8], position: usize, quote: u8) -> usize {
    let is_long = bytes[position..].starts_with(&[quote; 3]);
    let mut end = position + if is_long { 3 } else { 1 };
    while end < bytes.len() {
        match bytes[end] {
            b'\\' => end += 1,
            b'\n' if !is_long => return end,
            letter if letter == quote && !is_long => return end + 1,
            letter if letter == quote && bytes[end..].starts_with(&[quote; 3]) => return end + 3,
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_python_accepts_is_accepted() {
        let brackets = format!("x = {}1{}\n", "(".repeat(200), ")".repeat(200));
        let sum = format!("x = {}1\n", "1 + ".repeat(2900));
        let choice = format!("x = {}1\n", "1 if a else ".repeat(2900));
        let table = format!("x = [{}]\n", "(-1, f(2)[3].a), ".repeat(50_000));
        let strings = "x = '('\ny = \"[\" # {\nz = '''\n((\n'''\n".repeat(300);
        let blocks = "if a:\n    if b:\n        c\n".repeat(500);
        for text in [brackets, sum, choice, table, strings, blocks] {
            assert_eq!(too_deep(&text), None, "{}…", &text[..40]);
        }
    }

    #[test]
    fn code_that_python_refuses_is_refused() {
        let brackets = "(".repeat(100_000);
        let sum = format!("x = {}1\n", "1 + ".repeat(100_000));
        let chain = format!("x{}\n", ".a".repeat(100_000));
        let calls = format!("x{}\n", "()".repeat(100_000));
        let nots = format!("x = {}1\n", "not ".repeat(100_000));
        let lambdas = format!("x = {}1\n", "lambda: ".repeat(100_000));
        let blocks: String = (0..200).map(|depth| format!("{}if a:\n", " ".repeat(depth))).collect();
        for text in [brackets, sum, chain, calls, nots, lambdas, blocks] {
            assert!(too_deep(&text).is_some(), "{}…", &text[..40]);
        }
    }
}
