//! What `vramfit lint` shows: text with excerpts, the contract's JSON, SARIF, GitHub's annotations, a diff.

mod diff;
mod github;
mod json;
mod sarif;
mod text;

pub use diff::diff;
pub use github::github;
pub use json::json;
pub use sarif::sarif;
pub use text::{errors, rules, statistics, summary, text};
