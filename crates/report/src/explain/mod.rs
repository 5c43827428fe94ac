//! What `vramfit explain` shows: the contract's JSON, text for a terminal, and a page.

mod html;
mod json;
mod location;
mod text;
mod words;

pub use html::page;
pub use json::ExplainReport;
pub(crate) use json::FindingReport;
pub(crate) use text::wrap;
pub use text::{findings, text};
