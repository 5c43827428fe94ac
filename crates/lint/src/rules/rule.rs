//! What a rule consists of.

use crate::analysis::FileFacts;
use crate::finding::Finding;

/// A rule. Its file declares one as `RULE`.
pub struct Rule {
    /// `VF` and three digits.
    pub code: &'static str,
    /// What it finds, in one line; also the heading of its page.
    pub summary: &'static str,
    /// Whether it is on by default.
    pub is_default: bool,
    /// Its page, in Markdown.
    pub page: &'static str,
    /// Adds what it finds in a file.
    pub(crate) check: fn(&FileFacts<'_>, &mut Vec<Finding>),
}
