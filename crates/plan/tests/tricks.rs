//! All tricks: their list and its documentation, and what holds of every combination.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{GIB, capped, gpu, model, setup};
use vramfit_plan::tricks::{Role, TRICKS, differences, in_place};
use vramfit_plan::{Setup, Workbench};
use vramfit_training::ZeroGrad;

#[test]
fn trick_names_are_unique_and_every_trick_has_code() {
    let names: BTreeSet<&str> = TRICKS.iter().map(|trick| trick.name()).collect();
    assert_eq!(names.len(), TRICKS.len());
    let settings: BTreeSet<&str> = TRICKS.iter().map(|trick| trick.setting()).collect();
    assert_eq!(settings.len(), TRICKS.len());
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    assert!(TRICKS.iter().all(|trick| !trick.code(&bench).is_empty()));
}

#[test]
fn every_trick_in_the_folder_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tricks");
    let list = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut found = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let file = if path.is_dir() { path.join("mod.rs") } else { path.clone() };
        let module = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        for (_, rest) in text.match_indices("impl Trick for ").map(|(at, start)| text[at..].split_at(start.len())) {
            let name = rest.split([' ', '<']).next().unwrap();
            assert!(list.contains(&format!("    &{module}::{name},\n")), "add {module}::{name} to TRICKS");
            found += 1;
        }
    }
    assert_eq!(found, TRICKS.len());
}

#[test]
fn the_guide_has_a_row_for_every_trick_in_order() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("The tricks\n")).unwrap();
    let cells = |line: &str| -> Vec<String> { line.split('|').map(|cell| cell.trim().to_owned()).collect() };
    let rows: Vec<Vec<String>> = section.lines().filter(|line| line.starts_with('|')).skip(2).map(cells).collect();
    let names: Vec<&str> = rows.iter().map(|row| row[1].split(':').next().unwrap()).collect();
    assert_eq!(names, TRICKS.iter().map(|trick| trick.name()).collect::<Vec<_>>());
    for (trick, row) in TRICKS.iter().zip(&rows) {
        assert!(row[2].starts_with(trick.role().risk().effect().name()), "{row:?}");
    }
}

#[test]
fn all_free_tricks_together_have_the_lowest_peak_of_their_combinations() {
    let gpu = gpu("H200");
    for (name, batch, sequence) in [("bert-small", 16, Some(64)), ("mlp-relu", 4096, None), ("resnet18", 8, None)] {
        let model = model(name);
        let rewritten = in_place::rewrite(&model);
        let bench = Workbench::new(&model, rewritten.as_ref(), capped(&gpu, GIB));
        let mut start = setup(&model, batch, sequence);
        start.training.zero_grad = ZeroGrad::BeforeBackward;
        let least = |setup: &Setup| bench.scenarios(setup).unwrap().expected().least_bytes();
        let mut all = start.clone();
        let mut partial = vec![start.clone()];
        let is_searched = |role: Role| matches!(role, Role::Free { .. } | Role::Allocator);
        for trick in TRICKS.iter().filter(|trick| is_searched(trick.role())) {
            let alternatives = trick.alternatives(&bench, &start).unwrap_or_default();
            let mut more = Vec::new();
            for setup in &partial {
                for alternative in &alternatives {
                    let mut with = setup.clone();
                    trick.adopt(&bench, &mut with, alternative);
                    more.push(with);
                }
            }
            partial.extend(more);
            if let Some(first) = alternatives.first().filter(|_| trick.role() != Role::Allocator) {
                trick.adopt(&bench, &mut all, first);
            }
        }
        let excess = TRICKS.iter().map(|trick| match trick.role() {
            Role::Free { bytes_per_weight } => bytes_per_weight,
            _ => 0,
        });
        let floor = least(&all).saturating_sub(excess.sum::<u64>() * model.parameters.len() as u64);
        for setup in &partial {
            assert!(least(setup) >= floor, "{name}: {:?}", differences(&bench, TRICKS, &start, setup).len());
        }
    }
}
