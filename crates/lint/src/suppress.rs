//! `# noqa: VF001`, `# vramfit: ignore[VF001]`, and the same for a whole file.

use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::{Ranged, TextRange};

use crate::Document;

/// Whether a comment in the file switches everything off.
pub fn is_off(document: &Document) -> bool {
    document.text.contains("vramfit:")
        && document.text.lines().any(|line| {
            line.trim_start().strip_prefix('#').is_some_and(|comment| comment.trim() == "vramfit: ignore-file")
        })
}

/// The comments that may switch something off, by line: `# noqa` in a string is none.
pub struct Comments<'a>(Vec<(usize, &'a str)>);

impl<'a> Comments<'a> {
    /// Finds them.
    pub fn new(document: &'a Document, tokens: &Tokens) -> Comments<'a> {
        let comments = tokens.iter().filter(|token| token.kind() == TokenKind::Comment);
        Comments(comments.map(|token| (document.line_of(token.start()), &document.text[token.range()])).collect())
    }

    /// Whether one on the first or last line of the range switches the rule off there.
    pub fn switch_off(&self, document: &Document, range: TextRange, code: &str) -> bool {
        let (first, last) = (document.line_of(range.start()), document.line_of(range.end()));
        [first, last].into_iter().any(|line| {
            let found = self.0.binary_search_by_key(&line, |(line, _)| *line);
            found.is_ok_and(|found| switches_off(self.0[found].1, code))
        })
    }
}

fn switches_off(comment: &str, code: &str) -> bool {
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
    fn comments_switch_off_what_they_name() {
        assert!(switches_off("total += loss  # noqa: VF001", "VF001"));
        assert!(switches_off("total += loss  # noqa: E501, VF001", "VF001"));
        assert!(switches_off("total += loss  # noqa", "VF001"));
        assert!(switches_off("total += loss  # vramfit: ignore[VF001, VF002]", "VF002"));
        assert!(switches_off("total += loss  # vramfit: ignore", "VF002"));
        assert!(switches_off("total += loss  # why not # noqa:VF001", "VF001"));
        assert!(!switches_off("total += loss  # noqa: VF002", "VF001"));
        assert!(!switches_off("total += loss  # vramfit: ignore[VF002]", "VF001"));
        assert!(!switches_off("total += loss", "VF001"));
    }
}
