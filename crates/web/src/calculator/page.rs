//! The page, which loads nothing from other hosts.

/// The HTML.
pub const PAGE: &str = include_str!("page/page.html");
/// The script: its parts in the order in which they need each other.
pub const SCRIPT: &str = concat!(
    include_str!("page/words.js"),
    include_str!("page/phrases.js"),
    include_str!("page/refusals-zh.js"),
    include_str!("page/help-zh.js"),
    include_str!("page/elements.js"),
    include_str!("page/state.js"),
    include_str!("page/engine.js"),
    include_str!("page/ask.js"),
    include_str!("page/controls.js"),
    include_str!("page/options.js"),
    include_str!("page/drawing.js"),
    include_str!("page/answer.js"),
    include_str!("page/plans.js"),
    include_str!("page/main.js"),
);
/// The worker of a page without a server.
const WORKER: &str = include_str!("page/worker.js");
/// The style, in the colours of all pages.
pub const STYLE: &[&str] = &[vramfit_report::page::TOKENS, include_str!("page/page.css")];
/// The engine's file beside an exported page.
pub const ENGINE: &str = "engine.wasm";

/// Where the exported page says what it needs.
const BEFORE: &str = "<script src=\"page.js\" defer>";

/// The files of a page without a server, except the engine.
pub fn exported() -> Vec<(&'static str, String)> {
    // What the server sends as a header.
    let policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; connect-src 'self'; \
                  img-src data:; base-uri 'none'; form-action 'none'";
    let head = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"vramfit-engine\" content=\"{ENGINE}\">\n{BEFORE}"
    );
    vec![
        ("index.html", PAGE.replacen(BEFORE, &head, 1)),
        ("page.js", SCRIPT.to_owned()),
        ("page.css", STYLE.concat()),
        ("worker.js", WORKER.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exported_page_names_its_engine_and_loads_nothing_from_elsewhere() {
        let files = exported();
        let (_, page) = &files[0];
        assert!(page.contains("<meta name=\"vramfit-engine\" content=\"engine.wasm\">"), "{page}");
        for (name, text) in &files {
            assert!(!text.contains("//cdn") && !text.contains("https://"), "{name}");
        }
        assert!(!PAGE.contains("vramfit-engine"), "the served page has a server");
    }
}
