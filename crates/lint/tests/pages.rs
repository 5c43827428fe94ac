//! Every rule is registered and has a page: fixed headings, an example that is found, a fix that is clean, a row in the
//! overview.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::fs;
use std::path::Path;

use vramfit_lint::rules::RULES;
use vramfit_lint::{Document, Selection, check};

const HEADINGS: [&str; 5] = ["## What it does", "## Why it is bad", "## Example", "## Fix", "## What it costs"];

/// The Python code below a heading.
fn code<'a>(page: &'a str, heading: &str) -> &'a str {
    let section = page.split_once(heading).and_then(|(_, after)| after.split("\n## ").next());
    let code = section.and_then(|section| section.split_once("```python\n")?.1.split_once("```"));
    code.unwrap_or_else(|| panic!("no Python below `{heading}` in\n{page}")).0
}

#[test]
fn every_file_of_a_rule_is_registered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/rules");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let stems = files.map(|file| file.file_stem().unwrap().to_string_lossy().to_uppercase());
    let mut found: Vec<String> = stems.filter(|stem| stem.starts_with("VF")).collect();
    found.sort();
    assert_eq!(found, RULES.iter().map(|rule| rule.code).collect::<Vec<_>>(), "left: files, right: RULES");
}

#[test]
fn pages_have_the_same_headings_in_the_same_order() {
    for rule in RULES {
        assert!(rule.page.starts_with(&format!("# {}: {}\n", rule.code, rule.summary)), "{}", rule.code);
        let found: Vec<&str> = rule.page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(found, HEADINGS, "{}", rule.code);
    }
}

#[test]
fn examples_are_found_and_fixes_are_clean() {
    for rule in RULES {
        let selection = Selection::new(Some(&[rule.code.to_string()]), &[]).unwrap();
        let example = check(&Document::script(code(rule.page, "## Example").to_owned()), &selection);
        assert_eq!(example.findings.len(), 1, "{}: the example", rule.code);
        let everything = Selection::default();
        let fixed = Document::script(code(rule.page, "## Fix").to_owned());
        assert!(check(&fixed, &selection).findings.is_empty(), "{}: the fix", rule.code);
        assert!(check(&fixed, &everything).findings.is_empty(), "{}: the fix has other findings", rule.code);
    }
}

#[test]
fn the_overview_lists_every_rule_with_its_summary_and_default() {
    let overview = include_str!("../../../docs/lint/README.md");
    let mut rows = overview.lines().filter(|line| line.starts_with("| [VF"));
    for rule in RULES {
        let (code, summary) = (rule.code, rule.summary);
        let default = if rule.is_default { "on" } else { "off" };
        let row = format!("| [{code}]({code}.md) | {summary} | {default} |");
        assert_eq!(rows.next(), Some(row.as_str()), "docs/lint/README.md needs this row of {code}");
    }
    assert_eq!(rows.next(), None);
}
