//! The search: the cheapest plan of each effect, the largest batch, and the shortfall if nothing fits.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, MIB, capped, gpu, model, setup};
use vramfit_plan::{Control, TrainingEffect, Workbench, max_batch, plan};
use vramfit_training::answer::Verdict;

#[test]
fn a_training_that_fits_needs_no_change() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB));
    let start = setup(&model, 16, Some(128));
    let outcome = plan(&bench, &start, &[], &Control::default()).unwrap();
    assert_eq!(outcome.fit.verdict, Verdict::Fits);
    assert!(outcome.groups[0].best.as_ref().unwrap().slowdown <= 1.005);
    assert!(outcome.shortfall.is_none() && !outcome.is_cut_short);
}

#[test]
fn estimate_confirms_that_every_plan_fits_and_plans_have_the_effect_of_their_group() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 500 * MIB));
    let start = setup(&model, 32, Some(128));
    let control = Control::default();
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    assert_eq!(outcome.fit.verdict, Verdict::DoesNotFit);
    assert_eq!(outcome.groups.iter().map(|group| group.effect).collect::<Vec<_>>(), TrainingEffect::ALL);
    for group in &outcome.groups {
        let best = group.best.as_ref().unwrap();
        assert_eq!(best.effect, group.effect);
        for found in group.best.iter().chain(&group.others) {
            let answer = bench.answer(&found.setup, &control).unwrap();
            assert!(answer.fits_for_certain());
            assert_eq!(answer.expected.peak_reserved, found.run.peak_reserved);
            assert!(found.slowdown >= best.slowdown);
            // Each saving is on top of those before it.
            let saved: i64 = found.changes.iter().map(|change| change.saving).sum();
            let now = bench.peaks(&found.setup, &control).unwrap().reserved;
            assert_eq!(outcome.peaks.reserved as i64 - saved, now as i64);
        }
        // The frontier is ordered by time.
        assert!(group.frontier.windows(2).all(|pair| pair[0].slowdown <= pair[1].slowdown));
    }
}

#[test]
fn tricks_are_combined_before_the_search_gives_up() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 560 * MIB));
    let outcome = plan(&bench, &setup(&model, 8, Some(128)), &[], &Control::default()).unwrap();
    assert!(outcome.shortfall.is_none());
    let best = outcome.plans().next().unwrap();
    let tricks: Vec<&str> = best.changes.iter().map(|change| change.trick).collect();
    assert!(tricks.contains(&"smaller dtype") && tricks.contains(&"optimizer"), "{tricks:?}");
}

#[test]
fn if_nothing_fits_the_shortfall_and_a_gpu_are_reported() {
    let (model, h200, small) = (model("bert-base"), gpu("H200"), gpu("RTX 3060"));
    let bench = Workbench::new(&model, None, capped(&h200, 300 * MIB));
    let start = setup(&model, 8, Some(128));
    let mut whole = capped(&small, 0);
    (whole.vram, whole.is_asked) = (None, true);
    let outcome = plan(&bench, &start, &[whole], &Control::default()).unwrap();
    assert_eq!(outcome.plans().count(), 0);
    let shortfall = outcome.shortfall.unwrap();
    assert_eq!(shortfall.missing, shortfall.leanest.taken - 300 * MIB);
    assert_eq!(shortfall.gpu.unwrap().name, "RTX 3060");
    assert!(shortfall.leanest.taken < outcome.peaks.reserved / 2);
}

#[test]
fn every_batch_up_to_the_largest_fits_and_the_next_does_not() {
    let gpu = gpu("H200");
    for (name, sequence, vram) in
        [("bert-small", Some(64), 700 * MIB), ("mlp-no-bias", None, 1300 * MIB), ("resnet18", None, 700 * MIB)]
    {
        let model = model(name);
        let bench = Workbench::new(&model, None, capped(&gpu, vram));
        let start = setup(&model, 4, sequence);
        let control = Control::default();
        let found = max_batch(&bench, &start, 10_000, &control).unwrap();
        assert!(found.is_final && found.batch > 4, "{name}: {found:?}");
        let fits = |batch: i64| {
            let setup = bench.with_batch(&start, batch).unwrap();
            bench.answer(&setup, &control).unwrap().fits_for_certain()
        };
        assert!((1..=found.batch).rev().take(20).all(fits), "{name}");
        assert!(!fits(found.batch + 1), "{name}");
    }
}

#[test]
fn a_stopped_search_returns_without_plans() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 500 * MIB));
    let start = setup(&model, 32, Some(128));
    let control = Control::default();
    control.stop();
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    assert!(outcome.is_cut_short && outcome.plans().count() == 0);
    assert_eq!(max_batch(&bench, &start, 10_000, &control).unwrap().batch, 0);
    assert!(!max_batch(&bench, &start, 10_000, &control).unwrap().is_final);
}
