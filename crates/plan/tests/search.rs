//! The search: the cheapest plan that fits, group by group; the largest batch; nothing fits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{GIB, MIB, capped, gpu, model, setup};
use vramfit_plan::{Control, Effect, Workbench, max_batch, plan};
use vramfit_training::answer::Verdict;

#[test]
fn a_training_that_fits_needs_no_change() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB));
    let start = setup(&model, 16, Some(128));
    let outcome = plan(&bench, &start, &[], &Control::default()).unwrap();
    assert_eq!(outcome.fit.verdict, Verdict::Fits);
    assert!(outcome.groups[0].best.as_ref().unwrap().slowdown <= 1.005);
    assert!(outcome.nothing.is_none() && !outcome.is_cut_short);
}

#[test]
fn every_plan_fits_by_the_answer_of_estimate_and_has_the_effect_of_its_group() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 500 * MIB));
    let start = setup(&model, 32, Some(128));
    let control = Control::default();
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    assert_eq!(outcome.fit.verdict, Verdict::DoesNotFit);
    assert_eq!(outcome.groups.iter().map(|group| group.effect).collect::<Vec<_>>(), Effect::ALL);
    for group in &outcome.groups {
        let best = group.best.as_ref().unwrap();
        assert_eq!(best.effect, group.effect);
        for found in group.best.iter().chain(&group.others) {
            let alone = bench.answer(&found.setup, &control).unwrap();
            assert!(alone.fits_for_certain());
            assert_eq!(alone.expected.peak_reserved, found.run.peak_reserved);
            assert!(found.slowdown >= best.slowdown);
            // Savings are counted one on top of the other.
            let saved: i64 = found.changes.iter().map(|change| change.saving).sum();
            let now = bench.peaks(&found.setup, &control).unwrap().reserved;
            assert_eq!(outcome.peaks.reserved as i64 - saved, now as i64);
        }
        // The frontier falls: more time buys less memory.
        assert!(group.frontier.windows(2).all(|pair| pair[0].slowdown <= pair[1].slowdown));
    }
}

#[test]
fn before_nothing_fits_all_that_saves_is_tried_together() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 560 * MIB));
    let outcome = plan(&bench, &setup(&model, 8, Some(128)), &[], &Control::default()).unwrap();
    assert!(outcome.nothing.is_none());
    let best = outcome.plans().next().unwrap();
    let tricks: Vec<&str> = best.changes.iter().map(|change| change.trick).collect();
    assert!(tricks.contains(&"smaller dtype") && tricks.contains(&"optimizer"), "{tricks:?}");
}

#[test]
fn where_nothing_fits_the_floor_and_a_gpu_are_named() {
    let (model, h200, small) = (model("bert-base"), gpu("H200"), gpu("RTX 3060"));
    let bench = Workbench::new(&model, None, capped(&h200, 300 * MIB));
    let start = setup(&model, 8, Some(128));
    let mut whole = capped(&small, 0);
    (whole.vram, whole.is_asked) = (None, true);
    let outcome = plan(&bench, &start, &[whole], &Control::default()).unwrap();
    assert_eq!(outcome.plans().count(), 0);
    let nothing = outcome.nothing.unwrap();
    assert_eq!(nothing.missing, nothing.leanest.taken - 300 * MIB);
    assert_eq!(nothing.gpu.unwrap().name, "RTX 3060");
    assert!(nothing.leanest.taken < outcome.peaks.reserved / 2);
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
fn a_stopped_search_gives_what_it_has() {
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
