//! One self-contained page: timeline, segments, findings.
//!
//! The recording travels inside the page as compressed columns ([`columns`], [`data`]); the browser unpacks them and
//! draws. The findings are plain HTML ([`findings`]), so that they can be read without any script. Whatever comes from
//! the recording is either inside the compressed columns, or escaped.

pub(crate) mod base64;
pub(crate) mod columns;
mod data;
mod escape;
mod findings;

use vramfit_explain::Explanation;
use vramfit_trace::snapshot::Snapshot;

pub(crate) use self::data::compress;
pub(crate) use self::escape::escape;

const PAGE: &str = include_str!("page/page.html");
pub(crate) const STYLE: &str = include_str!("page/style.css");
pub(crate) const SCRIPTS: [&str; 8] = [
    include_str!("page/format.js"),
    include_str!("page/unpack.js"),
    include_str!("page/recording.js"),
    include_str!("page/groups.js"),
    include_str!("page/timeline.js"),
    include_str!("page/segments.js"),
    include_str!("page/details.js"),
    include_str!("page/main.js"),
];

/// The page on `explanation`; `name` is what the recording is called.
pub fn page(snapshot: &Snapshot, explanation: &Explanation, name: &str) -> String {
    let packed = base64::encode(&data::pack(snapshot, explanation));
    let parts = [
        ("{{name}}", escape(name)),
        ("{{style}}", STYLE.to_string()),
        ("{{summary}}", findings::summary(explanation)),
        ("{{findings}}", findings::findings(snapshot, explanation)),
        ("{{script}}", SCRIPTS.concat()),
        ("{{data}}", packed),
    ];
    fill(PAGE, &parts)
}

/// Puts the parts in their places, in one go: what a part brings along is never looked at again.
pub(crate) fn fill(template: &str, parts: &[(&str, String)]) -> String {
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
    use vramfit_allocator::Settings;
    use vramfit_explain::explain;
    use vramfit_explain::synthetic::{Kept, Program, Training};

    use super::*;

    fn page_of(file: &str, function: &str) -> String {
        let mut program = Program::new();
        Training { kept: Kept::Outputs, ..Training::default() }.run(&mut program);
        let stack = program.stack(&[(file, 1, function)]);
        program.allocate(512 << 20, stack);
        let snapshot = program.snapshot();
        let explanation = explain(&snapshot, 0, &Settings::default(), None);
        page(&snapshot, &explanation, file)
    }

    #[test]
    fn what_a_recording_calls_its_files_cannot_become_markup() {
        let hostile = "</script><img src=x onerror=alert(1)>'\"&{{data}}.py";
        let page = page_of(hostile, "<b>{{findings}}</b>");
        assert!(!page.contains("<img src=x"), "a hostile file name got into the page");
        assert!(!page.contains("<b>{{"), "a hostile function name got into the page");
        assert!(page.contains("&lt;/script&gt;&lt;img"), "the name is shown, escaped");
        assert_eq!(page.matches("</script>").count(), 2, "one script, one for the data");
    }

    #[test]
    fn a_page_asks_for_nothing_from_outside() {
        let page = page_of("train.py", "main");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(word), "the page refers to something outside: {word}");
        }
        assert!(page.contains("default-src 'none'"), "the page forbids itself any request");
    }

    #[test]
    fn no_place_of_the_template_stays_empty() {
        let page = page_of("train.py", "main");
        assert!(!page.contains("{{"), "{}", &page[page.find("{{").unwrap()..][..60]);
    }

    #[test]
    fn findings_can_be_read_without_a_script() {
        let page = page_of("train.py", "main");
        let before_script = &page[..page.find("<script").unwrap()];
        assert!(before_script.contains("leak"));
        assert!(before_script.contains("train.py:23 in train"));
    }
}
