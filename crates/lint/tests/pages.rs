//! The rules' pages: fixed headings, an example that is found, a fix that is not.

#![allow(clippy::unwrap_used, reason = "a page without its parts has failed the test")]

use vramfit_lint::rules::RULES;
use vramfit_lint::{Document, Selection, check};

const HEADINGS: [&str; 5] = ["## What it does", "## Why it is bad", "## Example", "## Fix", "## What it costs"];

fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let after = page.split_once(heading).unwrap().1;
    after.split("\n## ").next().unwrap()
}

fn code(section: &str) -> String {
    section.split_once("```python\n").unwrap().1.split_once("```").unwrap().0.to_string()
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
        let example = check(&Document::script(code(section(rule.page, "## Example"))), &selection);
        assert_eq!(example.findings.len(), 1, "{}: the example", rule.code);
        let everything = Selection::default();
        let fixed = Document::script(code(section(rule.page, "## Fix")));
        assert!(check(&fixed, &selection).findings.is_empty(), "{}: the fix", rule.code);
        assert!(check(&fixed, &everything).findings.is_empty(), "{}: the fix has other findings", rule.code);
    }
}

#[test]
fn the_overview_lists_every_rule_with_its_summary_and_default() {
    let overview = include_str!("../../../docs/lint/README.md");
    let rows: Vec<&str> = overview.lines().filter(|line| line.starts_with("| [VF")).collect();
    let expected: Vec<String> = RULES
        .iter()
        .map(|rule| {
            let default = if rule.is_default { "on" } else { "off" };
            format!("| [{code}]({code}.md) | {} | {default} |", rule.summary, code = rule.code)
        })
        .collect();
    assert_eq!(rows, expected);
}
