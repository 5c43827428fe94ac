//! Any text is checked, or refused with a reason: no panic, no endless loop; and fixes leave Python that parses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vramfit_lint::fix::fixed;
use vramfit_lint::{Document, Selection, check};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(all) = Selection::new(Some(&["ALL".to_string()]), &[]) else { return };
    let document = Document::script(format!("import torch\n{text}"));
    let checked = check(&document, &all);
    for finding in &checked.findings {
        assert!(!finding.message.is_empty());
        let position = document.position(finding.range.start());
        assert!(position.line >= 1 && position.column >= 1);
    }
    if let Some(new) = fixed(&document, &checked.findings, false) {
        assert!(check(&Document::script(new), &all).error.is_none());
    }
    if let Ok(notebook) = Document::notebook(text) {
        check(&notebook, &all);
    }
});
