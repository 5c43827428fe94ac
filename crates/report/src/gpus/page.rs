//! The page of `vramfit serve`: one file without anything from elsewhere.

/// The page, whole.
pub const PAGE: &str = include_str!("page/page.html");
/// Its program.
pub const SCRIPT: &str = include_str!("page/page.js");
/// Its looks, in the colours of all pages.
pub const STYLE: &str = concat!(include_str!("../page/tokens.css"), include_str!("page/page.css"));
