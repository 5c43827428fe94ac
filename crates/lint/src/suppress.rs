//! Suppression comments: `# noqa: VF001`, `# vramfit: ignore[VF001]`, `# vramfit: ignore-file`.

use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::{Ranged, TextRange};

use crate::document::Document;

/// Whether a comment suppresses all findings of the file.
pub fn is_off(document: &Document) -> bool {
    document.text.contains("vramfit:")
        && document.text.lines().any(|line| {
            line.trim_start().strip_prefix('#').is_some_and(|comment| comment.trim() == "vramfit: ignore-file")
        })
}

/// The comments of a file by line. A `# noqa` inside a string is not one.
pub struct Comments<'a>(Vec<(usize, &'a str)>);

impl<'a> Comments<'a> {
    /// Collects the comments.
    pub fn new(document: &'a Document, tokens: &Tokens) -> Comments<'a> {
        let comments = tokens.iter().filter(|token| token.kind() == TokenKind::Comment);
        Comments(comments.map(|token| (document.line_of(token.start()), &document.text[token.range()])).collect())
    }

    /// Whether one on the first or last line of the range suppresses the rule.
    pub fn suppress(&self, document: &Document, range: TextRange, code: &str) -> bool {
        let (first, last) = (document.line_of(range.start()), document.line_of(range.end()));
        [first, last].into_iter().any(|line| {
            let found = self.0.binary_search_by_key(&line, |(line, _)| *line);
            found.is_ok_and(|found| suppresses(self.0[found].1, code))
        })
    }
}

fn suppresses(comment: &str, code: &str) -> bool {
    comment.match_indices('#').any(|(position, _)| {
        let comment = comment[position + 1..].trim_start();
        noqa(comment, code).or_else(|| own(comment, code)).unwrap_or(false)
    })
}

fn noqa(comment: &str, code: &str) -> Option<bool> {
    let rest = comment.get(..4).filter(|word| word.eq_ignore_ascii_case("noqa")).map(|_| comment[4..].trim_start())?;
    match rest.strip_prefix(':') {
        Some(codes) => Some(lists(codes, code)),
        None => Some(true),
    }
}

fn own(comment: &str, code: &str) -> Option<bool> {
    let rest = comment.strip_prefix("vramfit:")?.trim_start().strip_prefix("ignore")?;
    if rest.starts_with("-file") {
        return None;
    }
    match rest.trim_start().strip_prefix('[') {
        Some(codes) => Some(lists(codes.split(']').next().unwrap_or(codes), code)),
        None => Some(true),
    }
}

fn lists(codes: &str, code: &str) -> bool {
    codes.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|listed| listed.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_suppress_the_rules_they_name() {
        assert!(suppresses("total += loss  # noqa: VF001", "VF001"));
        assert!(suppresses("total += loss  # noqa: E501, VF001", "VF001"));
        assert!(suppresses("total += loss  # noqa", "VF001"));
        assert!(suppresses("total += loss  # vramfit: ignore[VF001, VF002]", "VF002"));
        assert!(suppresses("total += loss  # vramfit: ignore", "VF002"));
        assert!(suppresses("total += loss  # why not # noqa:VF001", "VF001"));
        assert!(!suppresses("total += loss  # noqa: VF002", "VF001"));
        assert!(!suppresses("total += loss  # vramfit: ignore[VF002]", "VF001"));
        assert!(!suppresses("total += loss", "VF001"));
    }
}
