//! The page of `vramfit serve`, which loads nothing from other hosts.

/// The HTML.
pub const PAGE: &str = include_str!("page/page.html");
/// The script.
pub const SCRIPT: &str = include_str!("page/page.js");
/// The style, in the colours of all pages.
pub const STYLE: &str = concat!(include_str!("../page/tokens.css"), include_str!("page/page.css"));
