//! The guide, the READMEs and the pages behind them, in both languages: every output is what the command prints, every number in a table or in the
//! prose comes from a command, a named file, an equation that holds, or a constant of the allocator; both languages show the
//! same; links and pictures are there.
//!
//! `VRAMFIT_UPDATE_GUIDE=1 cargo test -p vramfit --test guide` writes the outputs and tables anew. What the pages may hold:
//!
//! - ` ```console ` blocks: `$ vramfit …` with its output; a line `…` stands for any lines left out.
//! - `<!-- table: vramfit estimate bert-base {} | peak_allocated | - -->` before a table: the code in a row's first cell takes
//!   the place of `{}`, the cells after it are keys of the JSON answer (`key%`: against the first row; `-`: words).
//!   `measured {}` takes a case of `validation/measured`, `timed MODEL {}` a setting of `validation/price`,
//!   `request {}` a size that is asked of the allocator.
//! - `<!-- quote: FILE -->` before a fenced block: the text stands in that file.
//! - `<!-- from FILE: 2552.0 MiB | 2.3507 % as 2.4 % -->`: the page uses these numbers of that file.
//! - `` `3 × 4 B = 12 B` ``: equations are computed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod equation;
mod numbers;
mod page;
mod shown;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use page::{Page, Piece};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn is_update() -> bool {
    std::env::var_os("VRAMFIT_UPDATE_GUIDE").is_some_and(|value| value == "1")
}

/// Pages as pairs: English, Chinese.
fn pairs() -> Vec<(PathBuf, PathBuf)> {
    let page = |path: &str| (root().join(format!("{path}.md")), root().join(format!("{path}.zh-CN.md")));
    let mut pairs = vec![page("README"), page("docs/accuracy"), page("docs/commands")];
    let names = |language: &str| {
        let mut names: Vec<String> = fs::read_dir(root().join("docs/guide").join(language))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("en"), names("zh"), "both languages have the same pages");
    for name in names("en") {
        pairs.push((root().join("docs/guide/en").join(&name), root().join("docs/guide/zh").join(&name)));
    }
    pairs
}

fn pages() -> Vec<Page> {
    pairs().into_iter().flat_map(|(english, chinese)| [Page::read(&english), Page::read(&chinese)]).collect()
}

/// Fails with all complaints at once.
fn complain(complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{}\n\nVRAMFIT_UPDATE_GUIDE=1 cargo test -p vramfit --test guide writes outputs and tables anew; look at the \
         difference, and mend the words around them",
        complaints.join("\n")
    );
}

#[test]
fn outputs_and_tables_are_what_the_commands_give() {
    let mut complaints = Vec::new();
    for mut page in pages() {
        let mut changes = Vec::new();
        for piece in &page.pieces {
            let (found, problems) = match piece {
                Piece::Console { first, lines } => shown::renewed(*first, lines),
                Piece::Table(table) => table::renewed(table),
                _ => continue,
            };
            complaints.extend(problems.into_iter().map(|problem| format!("{}: {problem}", page.name)));
            changes.push((piece.span(), found));
        }
        let changed = changes.iter().rev().fold(page.lines.clone(), |mut lines, ((first, last), found)| {
            lines.splice(*first..*last, found.iter().cloned());
            lines
        });
        if changed == page.lines {
            continue;
        }
        if is_update() {
            fs::write(&page.path, changed.join("\n") + "\n").unwrap();
            page.lines = changed;
            continue;
        }
        for (old, new) in page.lines.iter().zip(&changed).filter(|(old, new)| old != new).take(6) {
            complaints.push(format!("{}:\n  - {old}\n  + {new}", page.name));
        }
    }
    complain(&complaints);
}

#[test]
fn every_number_in_the_prose_has_a_source() {
    let mut complaints = Vec::new();
    for page in pages() {
        let known = numbers::known(&page, &mut complaints);
        for (line, number) in numbers::in_prose(&page) {
            if !known.contains(&number) {
                complaints.push(format!("{}:{line}: `{number}` is in no output, table, equation or file", page.name));
            }
        }
    }
    complain(&complaints);
}

#[test]
fn quotes_stand_in_the_files_they_name() {
    let mut complaints = Vec::new();
    for page in pages() {
        for piece in &page.pieces {
            let Piece::Quote { file, text, first } = piece else { continue };
            let source = squeezed(&fs::read_to_string(root().join(file)).unwrap().replace("\\n", "\n"));
            for part in text.split('…').map(squeezed).filter(|part| !part.is_empty()) {
                if !source.contains(&part) {
                    complaints.push(format!("{}:{first}: not in {file}: {part}", page.name));
                }
            }
        }
    }
    complain(&complaints);
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn both_languages_show_the_same() {
    let mut complaints = Vec::new();
    for (english, chinese) in pairs() {
        let (english, chinese) = (Page::read(&english).outline(), Page::read(&chinese).outline());
        if english.len() != chinese.len() {
            complaints.push(format!("{} and {} pieces", english.len(), chinese.len()));
        }
        for ((here, one), (there, other)) in english.iter().zip(&chinese) {
            if one != other {
                complaints.push(format!("{here}: {one}\n{there}: {other}"));
                break;
            }
        }
    }
    complain(&complaints);
}

#[test]
fn links_and_pictures_are_there() {
    const LARGEST_PICTURE: u64 = 150 * 1000;
    let mut complaints = Vec::new();
    let mut all = pages();
    all.push(Page::read(&root().join("docs/README.md")));
    for page in &all {
        for (line, target) in page.links() {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(file) };
            let Ok(found) = fs::metadata(&path) else {
                complaints.push(format!("{}:{line}: {target} is not there", page.name));
                continue;
            };
            if !anchor.is_empty() && !Page::read(&path).anchors().contains(&anchor.to_owned()) {
                complaints.push(format!("{}:{line}: {target}: no such heading", page.name));
            }
            if file.ends_with(".png") && found.len() > LARGEST_PICTURE {
                complaints.push(format!("{}:{line}: {target} has {} bytes", page.name, found.len()));
            }
        }
    }
    complain(&complaints);
}

/// The lines of the tables under each heading: how many there are, and how many have the peak to the byte.
#[test]
fn the_readmes_count_the_cases_as_the_tables_have_them() {
    let tables = fs::read_to_string(root().join("docs/estimate-accuracy.md")).unwrap();
    let (mut counts, mut total) = (Vec::new(), (0, 0));
    for section in tables.split("\n## ").skip(1) {
        let cases: Vec<&str> =
            section.lines().filter(|line| line.contains(" peak ") && line.contains(" phases ")).collect();
        let exact = cases.iter().filter(|line| line.contains("+0.0000 %") || line.contains("-0.0000 %")).count();
        counts.push(format!("| {} | {exact} |", cases.len()));
        total = (total.0 + cases.len(), total.1 + exact);
    }
    assert!(!counts.is_empty());
    for name in ["docs/accuracy.md", "docs/accuracy.zh-CN.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        for count in &counts {
            assert!(text.contains(count), "{name} has no row with {count}, as docs/estimate-accuracy.md has it");
        }
    }
    let (cases, exact) = (total.0.to_string(), total.1.to_string());
    for name in ["README.md", "README.zh-CN.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        assert!(text.contains(&cases) && text.contains(&exact), "{name}: {exact} of {cases} cases are exact");
    }
}
