//! What `vramfit explain` shows: the contract's JSON, text for a terminal, and a page.

mod html;
mod json;
mod location;
mod text;
mod words;

pub use html::page;
pub use json::ExplainReport;
pub use text::text;
pub(crate) use text::wrap;
