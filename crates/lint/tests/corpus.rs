//! Every case of the corpus gives exactly the findings its comments name, line by line.
//!
//! A file of `corpus/` holds cases, each headed by `# case: what it shows`; a line that must be found ends in
//! `# expect: VF001`. Rules that are off by default are on for the cases of their own file.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its cases has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vramfit_lint::{Document, Selection, check};

fn cases() -> Vec<(String, String, Selection)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let stem = file.file_stem().unwrap().to_string_lossy().to_uppercase();
        let defaults: Vec<String> = vramfit_lint::rules::RULES
            .iter()
            .filter(|rule| rule.is_default || rule.code == stem)
            .map(|rule| rule.code.to_string())
            .collect();
        let selection = Selection::new(Some(&defaults), &[]).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        for case in text.split("# case: ").skip(1) {
            let (name, source) = case.split_once('\n').unwrap();
            cases.push((format!("{stem}: {name}"), source.to_string(), selection.clone()));
        }
    }
    cases
}

fn expected(source: &str) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    for (number, line) in source.lines().enumerate() {
        if let Some((_, codes)) = line.split_once("# expect: ") {
            all.extend(codes.split(',').map(|code| (number + 1, code.trim().to_string())));
        }
    }
    all.sort();
    all
}

#[test]
fn every_case_gives_exactly_the_findings_it_names() {
    let mut wrong = Vec::new();
    for (name, source, selection) in cases() {
        let document = Document::script(source.clone());
        let checked = check(&document, &selection);
        assert_eq!(checked.error, None, "{name} is no Python");
        let mut found: Vec<(usize, String)> = checked
            .findings
            .iter()
            .map(|finding| (document.position(finding.range.start()).line, finding.code.to_string()))
            .collect();
        found.sort();
        if found != expected(&source) {
            wrong.push(format!("{name}\n  expected {:?}\n  found    {found:?}", expected(&source)));
        }
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_rule_has_cases_that_are_found_and_cases_that_are_not() {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let cases = cases();
    for (name, source, _) in &cases {
        let file = name.split(':').next().unwrap().to_string();
        let counts = counts.entry(file.clone()).or_default();
        if expected(source).iter().any(|(_, code)| *code == file) { counts.0 += 1 } else { counts.1 += 1 }
    }
    for rule in vramfit_lint::rules::RULES {
        let (found, clean) = counts.get(rule.code).copied().unwrap_or_default();
        assert!(found >= 2 && clean >= 2, "{}: {found} found, {clean} clean", rule.code);
    }
    assert!(cases.len() >= 150, "{} cases", cases.len());
}
