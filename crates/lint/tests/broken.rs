//! Broken Python: cut, stirred and deeply nested texts are checked or refused, and never panic or hang.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its cases has failed")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use vramfit_lint::fix::fixed;
use vramfit_lint::{Document, Selection, check};

/// A small generator of numbers, the same each time.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

fn all() -> Selection {
    Selection::new(Some(&["ALL".to_string()]), &[]).unwrap()
}

#[test]
fn cut_and_stirred_cases_are_checked_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut dice = SeededNumbers(7);
    let mut checked = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for case in text.split("# case: ").skip(1) {
            for _ in 0..12 {
                let mut lines: Vec<&str> = case.lines().skip(1).collect();
                match dice.below(4) {
                    0 => lines.truncate(dice.below(lines.len())),
                    1 => drop(lines.remove(dice.below(lines.len()))),
                    2 => {
                        let (one, two) = (dice.below(lines.len()), dice.below(lines.len()));
                        lines.swap(one, two);
                    }
                    _ => lines.insert(
                        dice.below(lines.len()),
                        ["    x = (", "else:", "for a in a: pass", "\tlambda: (yield)", "with a as b, c: d"]
                            [dice.below(5)],
                    ),
                }
                let mut text = format!("import torch\n{}", lines.join("\n"));
                if dice.below(3) == 0 {
                    let cut = (0..=dice.below(text.len())).rev().find(|cut| text.is_char_boundary(*cut)).unwrap();
                    text.truncate(cut);
                }
                let document = Document::script(text);
                let result = check(&document, &all());
                if let Some(new) = fixed(&document, &result.findings, false) {
                    assert_eq!(check(&Document::script(new.clone()), &all()).error, None, "{new}");
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 2000);
}

#[test]
fn deep_and_long_programs_end_in_time() {
    let nested_calls = format!("import torch\nx = {}1{}\n", "f(".repeat(5000), ")".repeat(5000));
    let nested_loops: String = (0..18).map(|depth| format!("{}for x{depth} in loader:\n", " ".repeat(depth))).collect();
    let nested_loops = format!("import torch\n{nested_loops}{}total += model(x1)\n", " ".repeat(18));
    let calls: String = (0..60)
        .map(|number| {
            format!(
                "def f{number}(loss):\n    for x in loader:\n        f{}(loss)\n        f{}(loss)\n",
                number + 1,
                number + 2
            )
        })
        .collect();
    let sum = format!("import torch\nx = {}1\n", "1 + ".repeat(2000));
    for text in [nested_calls, nested_loops, format!("import torch\n{calls}f0(1)\n"), sum] {
        let worker = std::thread::Builder::new().stack_size(64 << 20);
        let start = Instant::now();
        worker.spawn(move || check(&Document::script(text), &all())).unwrap().join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

#[test]
fn what_is_no_notebook_is_refused() {
    for text in ["", "{}", "[]", "{\"cells\": 3}", "{\"cells\": [", "null"] {
        assert!(Document::notebook(text).is_err(), "{text}");
    }
    assert!(Document::notebook("{\"cells\": [{}, {\"cell_type\": \"code\"}, 7]}").is_ok());
}
