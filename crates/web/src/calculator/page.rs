//! The page, which loads nothing from other hosts.

/// The HTML.
pub const PAGE: &str = include_str!("page/page.html");
/// The script: its parts in the order in which they need each other.
pub const SCRIPT: &str = concat!(
    include_str!("page/words.js"),
    include_str!("page/state.js"),
    include_str!("page/ask.js"),
    include_str!("page/controls.js"),
    include_str!("page/options.js"),
    include_str!("page/drawing.js"),
    include_str!("page/answer.js"),
    include_str!("page/plans.js"),
    include_str!("page/main.js"),
);
/// The style, in the colours of all pages.
pub const STYLE: &[&str] = &[vramfit_report::page::TOKENS, include_str!("page/page.css")];
