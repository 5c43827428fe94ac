//! Custom autograd functions whose backward was recorded, beside what an H200 measured (`make.py measure`, torch 2.11).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{HashMap, HashSet};
use std::path::Path;

use vramfit_allocator::Settings;
use vramfit_eager::machine::H200;
use vramfit_eager::memory::Entry;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::{Loop, Phase, Run, record, train};

fn captured(name: &str) -> Model {
    read_file(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/custom_functions/{name}.vramfit"))).unwrap()
}

fn bound(model: &Model, amp: Option<Dtype>) -> Bound<'_> {
    let sizes = Sizes::select(model, &SizeFlags { batch: Some(64), ..SizeFlags::default() }).unwrap();
    let variant = select_variant(model, VariantFlags { amp, ..VariantFlags::default() }).unwrap();
    bind(model, variant, &sizes).unwrap()
}

fn options() -> Loop {
    Loop { optimizer: Recipe::new(Kind::Sgd, Implementation::Default), ..Loop::default() }
}

fn run(model: &Model, amp: Option<Dtype>) -> Run {
    train(&bound(model, amp), &options(), Settings::default(), H200, false).unwrap()
}

/// Of each forward and backward pass: its peak, and what is allocated at its end.
fn passes(run: &Run) -> Vec<(u64, u64)> {
    let is_pass = |phase: Phase| matches!(phase, Phase::Forward | Phase::Backward);
    run.phases.iter().filter(|it| is_pass(it.phase)).map(|it| (it.peak.allocated, it.allocated)).collect()
}

#[test]
fn functions_that_save_and_functions_that_recompute_are_exact() {
    let model = captured("two");
    let (backward, amp_backward) = ((136_287_744, 77_370_880), (126_866_944, 76_961_280));
    let (later, amp_later) = ((110_038_016, 96_930_816), (103_927_296, 88_345_600));
    let whole = run(&model, None);
    assert!(whole.missing.is_empty(), "{:?}", whole.missing);
    assert_eq!(passes(&whole), [(69_110_272, 63_376_384), backward, later, backward, later, backward]);
    assert_eq!(whole.peak_reserved, 157_286_400);
    let cast = run(&model, Some(Dtype::Bfloat16));
    assert!(cast.missing.is_empty(), "{:?}", cast.missing);
    let first = (63_409_152, 54_791_168);
    assert_eq!(passes(&cast), [first, amp_backward, amp_later, amp_backward, amp_later, amp_backward]);
    assert_eq!(cast.peak_reserved, 153_092_096);
}

#[test]
fn an_undefined_gradient_is_zeros_and_tensors_in_lists_get_none() {
    let found = run(&captured("in_list"), None);
    let (later, backward) = ((103_484_416, 90_377_216), (123_180_544, 77_370_880));
    assert!(found.missing.is_empty(), "{:?}", found.missing);
    assert_eq!(passes(&found), [(62_556_672, 56_822_784), backward, later, backward, later, backward]);
    assert_eq!(found.peak_reserved, 150_994_944);
}

#[test]
fn a_recorded_backward_requests_and_frees_in_the_order_of_its_calls() {
    let model = captured("two");
    let bound = bound(&model, None);
    let options = Loop { steps: 1, ..options() };
    let run = train(&bound, &options, Settings::default(), H200, false).unwrap();
    let end = |phase: Phase| run.phases.iter().find(|it| it.phase == phase).unwrap().end as usize;
    let journal = record(&bound, &options, H200).unwrap().journal();
    // Tensors as large as the functions' inputs.
    let (mut numbers, mut is_large, mut events) = (HashMap::new(), HashSet::new(), Vec::new());
    for (at, entry) in journal[..end(Phase::Backward)].iter().enumerate() {
        match entry {
            Entry::Allocate { id, bytes, .. } if *bytes == 64 * 100 * 256 * 4 => {
                is_large.insert(*id);
                if at >= end(Phase::Forward) {
                    events.push(format!("+{}", numbers.len()));
                    numbers.insert(*id, numbers.len());
                }
            }
            Entry::Free { id } if is_large.contains(id) && at >= end(Phase::Forward) => {
                events.push(numbers.get(id).map_or("-saved".to_owned(), |number| format!("-{number}")));
            }
            _ => {}
        }
    }
    let last = ["+0", "-saved"];
    // `exp`, two products; the incoming gradient. Its input lives on with the graph.
    let exponential = ["+1", "+2", "-1", "+3", "-2", "-0"];
    let gated = ["+4", "+5", "+6", "-5", "+7", "-6", "+8", "-7", "+9", "+10", "+11", "-10", "-11", "-4", "-8", "-3"];
    let saved = ["-saved", "-saved"];
    let first = ["-9"];
    assert_eq!(events, [&last[..], &exponential, &gated, &saved, &first].concat());
}

#[test]
fn a_function_without_a_recorded_backward_is_named() {
    let mut model = captured("two");
    model.variants.iter_mut().for_each(|variant| variant.functions.retain(|function| function.kept.is_empty()));
    let found = run(&model, None);
    assert_eq!(found.missing.into_keys().collect::<Vec<_>>(), ["__main__.Exponential"]);
}
