//! The one template of every page that can be mailed: its head, its looks, its scripts, the verdict, the sections, and how
//! to make the page again.
//!
//! A page is one file that asks nothing of the network. Whatever comes from a model or a recording enters it escaped, or
//! inside the viewer's compressed columns.

mod escape;
pub(crate) mod parts;
mod reproduce;
pub(crate) mod treemap;

pub(crate) use escape::escape;
pub use reproduce::{Origin, command};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use parts::Number;

const PAGE: &str = include_str!("page.html");
/// Colours, light and dark; the pages of `vramfit serve` and `vramfit web` have the same.
pub const TOKENS: &str = include_str!("tokens.css");
const BASE_STYLE: &str = include_str!("base.css");
const BASE_SCRIPT: &str = include_str!("base.js");

/// How it came out, at the top of a page.
pub(crate) struct Verdict {
    /// Whether that is good; `None` where nothing was judged.
    pub is_good: Option<bool>,
    /// In a few words.
    pub title: String,
    /// More, as HTML.
    pub details: String,
}

/// A part of a page with a heading of its own.
pub(crate) struct Section {
    /// Its name in links.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What stands beside the heading, as HTML.
    pub tools: String,
    /// The rest, as HTML.
    pub body: String,
}

impl Section {
    /// A section with nothing beside its heading.
    pub fn new(id: &'static str, title: &'static str, body: String) -> Section {
        Section { id, title, tools: String::new(), body }
    }

    fn html(&self) -> String {
        let Section { id, title, tools, body } = self;
        format!(
            "<section class=\"panel\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n<div class=\"bar\"><h2 id=\"{id}-title\">{title}</h2>{tools}</div>\n{body}\n</section>\n"
        )
    }
}

/// All that a page is made of.
pub(crate) struct Page<'a> {
    /// The command that makes it.
    pub command: &'static str,
    /// What it is about: a model or a recording, by its file's name.
    pub name: &'a str,
    /// How it came out.
    pub verdict: Verdict,
    /// The numbers under the verdict.
    pub numbers: Vec<Number>,
    /// The sections, in the order of reading.
    pub sections: Vec<Section>,
    /// How to make the page again.
    pub origin: &'a Origin,
    /// All settings, defaults included.
    pub settings: Vec<(String, String)>,
    /// Looks beyond those of all pages.
    pub styles: Vec<&'static str>,
    /// Scripts beyond those of all pages.
    pub scripts: Vec<&'static str>,
    /// What the scripts draw, compressed.
    pub data: Option<Vec<u8>>,
}

impl Page<'_> {
    /// The page, whole.
    pub fn html(mut self) -> String {
        self.sections.push(self.origin.section(&self.settings));
        let links: String =
            self.sections.iter().map(|part| format!("<li><a href=\"#{}\">{}</a></li>", part.id, part.title)).collect();
        let data = self.data.as_ref().map_or_else(String::new, |data| {
            format!("<script type=\"text/plain\" id=\"data\">{}</script>\n", BASE64_STANDARD.encode(data))
        });
        let parts = [
            ("{{name}}", escape(file_name(self.name))),
            ("{{command}}", self.command.to_owned()),
            ("{{version}}", escape(self.origin.version)),
            ("{{style}}", [TOKENS, BASE_STYLE].into_iter().chain(self.styles).collect()),
            ("{{verdict}}", self.verdict.html()),
            ("{{numbers}}", self.numbers.iter().map(Number::html).collect()),
            ("{{links}}", links),
            ("{{sections}}", self.sections.iter().map(Section::html).collect()),
            ("{{script}}", std::iter::once(BASE_SCRIPT).chain(self.scripts).collect()),
            ("{{data}}", data),
        ];
        fill(PAGE, &parts)
    }
}

impl Verdict {
    fn html(&self) -> String {
        let class = match self.is_good {
            Some(true) => " good",
            Some(false) => " bad",
            None => "",
        };
        format!(
            "<div class=\"verdict{class}\" id=\"verdict\"><strong>{}</strong>{}</div>",
            escape(&self.title),
            self.details
        )
    }
}

/// The last part of a path. A page does not show where on a machine its model was.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).find(|part| !part.is_empty()).unwrap_or(path)
}

/// Puts the parts in their places, in one go: what a part brings along is never looked at again.
fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(template.len() + parts.iter().map(|(_, part)| part.len()).sum::<usize>());
    let mut rest = template;
    while let Some(begin) = rest.find("{{") {
        let name = parts.iter().find(|(name, _)| rest[begin..].starts_with(name));
        let end = begin + name.map_or(2, |(name, _)| name.len());
        match name {
            Some((_, part)) => {
                page.push_str(&rest[..begin]);
                page.push_str(part);
            }
            None => page.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> String {
        let hostile = "<script>alert(1)</script>{{data}}";
        let origin = Origin { command: format!("vramfit estimate '{hostile}'"), version: "0.0.0" };
        Page {
            command: "estimate",
            name,
            verdict: Verdict { is_good: Some(true), title: hostile.to_owned(), details: String::new() },
            numbers: vec![Number::new("Peak", hostile, hostile)],
            sections: vec![Section::new("first", "First", parts::notes(&[hostile.to_owned()]))],
            origin: &origin,
            settings: vec![(hostile.to_owned(), hostile.to_owned())],
            styles: Vec::new(),
            scripts: Vec::new(),
            data: None,
        }
        .html()
    }

    #[test]
    fn nothing_that_is_shown_can_become_markup_or_a_place_of_the_template() {
        let page = page("<script>alert(1)</script>{{data}}");
        assert_eq!(page.matches("<script").count(), 1, "the page's own script and no other");
        assert!(!page.contains("alert(1)</script>") && !page.contains("{{"), "{page}");
        assert!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count() >= 6, "it is shown, escaped");
    }

    #[test]
    fn a_page_tells_the_file_and_not_the_folder() {
        assert!(page("/home/somebody/models/net.vramfit").contains("</small>net.vramfit</h1>"));
        assert!(!page("/home/somebody/models/net.vramfit").contains("somebody"));
        assert_eq!(file_name("C:\\models\\net.pt2"), "net.pt2");
        assert_eq!(file_name("models/"), "models");
    }

    #[test]
    fn every_section_can_be_reached_from_the_top() {
        let page = page("net");
        for id in ["first", "reproduce"] {
            assert!(page.contains(&format!("href=\"#{id}\"")) && page.contains(&format!("id=\"{id}\"")));
        }
    }
}
