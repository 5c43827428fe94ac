//! The page on a recording: findings, timeline and segments, who holds what at the peak.
//!
//! The findings are plain HTML ([`findings`]), so that they can be read without any script; the recording itself travels in
//! the viewer's columns ([`data`]).

mod data;
mod findings;

use vramfit_explain::Explanation;
use vramfit_trace::snapshot::Snapshot;

use crate::page::treemap;
use crate::page::{Origin, Page, Section};
use crate::viewer;

const STYLE: &str = include_str!("findings.css");
const GROUPINGS: &str = "<option value=\"role\">purpose</option><option value=\"line\">line</option>\
                         <option value=\"finding\" hidden>finding</option>";
const AXES: &str = "<option value=\"event\">events</option><option value=\"time\">time</option>";

/// The page on `explanation`; `name` is what the recording is called.
pub fn page(snapshot: &Snapshot, explanation: &Explanation, name: &str, origin: &Origin) -> String {
    let mut sections = vec![
        Section::new("findings", "Findings", findings::findings(snapshot, explanation)),
        viewer::section(GROUPINGS, AXES),
    ];
    if !explanation.peak.holders.is_empty() {
        sections.push(Section {
            id: "holders",
            title: "Who holds the peak",
            tools: treemap::choice("line"),
            body: findings::holders(snapshot, explanation),
        });
    }
    Page {
        command: "explain",
        name,
        verdict: findings::verdict(snapshot, explanation),
        numbers: findings::numbers(explanation),
        sections,
        origin,
        settings: Vec::new(),
        styles: vec![viewer::STYLE, treemap::STYLE, STYLE],
        scripts: viewer::SCRIPTS.to_vec(),
        data: Some(data::pack(snapshot, explanation)),
    }
    .html()
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
        page(&snapshot, &explanation, file, &Origin::new(&["explain".into(), file.into()], &[file], "0.0.0"))
    }

    #[test]
    fn what_a_recording_calls_its_files_cannot_become_markup() {
        let hostile = "</script><img src=x onerror=alert(1)>'\"&{{data}}.py";
        let page = page_of(hostile, "<b>{{findings}}</b>");
        assert!(!page.contains("<img src=x"), "a hostile file name got into the page");
        assert!(!page.contains("<b>{{"), "a hostile function name got into the page");
        assert!(page.contains("script&gt;&lt;img"), "the name is shown, escaped");
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
