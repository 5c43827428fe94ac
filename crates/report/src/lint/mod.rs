//! The output formats of `vramfit lint`: text with excerpts, JSON, SARIF, GitHub annotations, a diff.

mod diff;
mod github;
mod json;
mod recorded;
mod sarif;
mod text;

pub use diff::diff;
pub use github::github;
pub use json::LintReport;
pub use sarif::sarif;
pub use text::{errors, rules, statistics, summary, text};
