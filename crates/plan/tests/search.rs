//! The search: the cheapest plan of each effect, the largest batch, and the shortfall if nothing fits.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, MIB, capped, gpu, model, setup};
use vramfit_eager::autograd::HostMemory;
use vramfit_eager::forward::{Choice, block_names};
use vramfit_plan::selective::refine;
use vramfit_plan::tricks::{TRICKS, differences, risk};
use vramfit_plan::{Control, Risk, SearchOptions, Setup, TrainingEffect, Workbench, max_batch, plan, plan_with};
use vramfit_training::answer::Verdict;

#[test]
fn a_training_that_fits_needs_no_change() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB));
    let start = setup(&model, 16, Some(128));
    let outcome = plan(&bench, &start, &[], &Control::default()).unwrap();
    assert_eq!(outcome.fit.verdict, Verdict::Fits);
    let best = outcome.groups[0].best.as_ref().unwrap();
    assert!(best.changes.is_empty() && best.slowdown == 1.0);
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
    assert_eq!(outcome.groups.iter().map(|group| group.risk).collect::<Vec<_>>(), Risk::ALL);
    for group in &outcome.groups {
        let best = group.best.as_ref().unwrap();
        assert_eq!(best.risk, group.risk);
        assert_eq!(best.effect, group.risk.effect());
        for found in group.best.iter().chain(&group.others) {
            let answer = bench.answer(&found.setup, &control).unwrap();
            assert!(answer.fits_for_certain());
            assert_eq!(answer.expected.peak_reserved, found.run.peak_reserved);
            assert!(found.slowdown >= best.slowdown || group.risk == Risk::SmallerTraining);
            assert!(found.slowdown <= 3.0, "something faster fits");
            assert_eq!(Some(found.free), answer.fit.as_ref().unwrap().margin);
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
fn a_plan_holds_no_change_that_could_be_left_out() {
    let gpu = gpu("H200");
    let control = Control::default();
    for (name, batch, sequence, share) in [("bert-small", 32, Some(128), 0.7), ("resnet18", 32, None, 0.6)] {
        let model = model(name);
        let start = setup(&model, batch, sequence);
        let needed = Workbench::new(&model, None, capped(&gpu, GIB)).peaks(&start, &control).unwrap().reserved;
        let bench = Workbench::new(&model, None, capped(&gpu, (needed as f64 * share) as u64));
        let outcome = plan(&bench, &start, &[], &control).unwrap();
        for best in outcome.groups.iter().filter_map(|group| group.best.as_ref()) {
            for trick in TRICKS {
                let mut without = best.setup.clone();
                trick.adopt(&bench, &mut without, &start);
                if without == best.setup || risk(&bench, TRICKS, &start, &without) != best.risk {
                    continue;
                }
                let is_slower = bench.slowdown(&start, &without).unwrap() > best.slowdown + 0.005;
                let is_needed = is_slower || bench.fitting_run(&without, &control).is_none();
                assert!(is_needed, "{name}: {} in {:?}", trick.name(), best.changes);
            }
        }
    }
}

#[test]
fn a_plan_needs_the_risk_of_its_group_and_no_other_takes_less_of_both() {
    let (model, gpu, control) = (model("mlp-relu"), gpu("H200"), Control::default());
    let start = setup(&model, 60_000, None);
    let needed = Workbench::new(&model, None, capped(&gpu, GIB)).peaks(&start, &control).unwrap().reserved;
    let bench = Workbench::new(&model, None, capped(&gpu, needed / 10 * 8));
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    let fits_in = |setup: &Setup, seconds: f64| {
        bench.fitting_run(setup, &control).is_some() && bench.slowdown(&start, setup).unwrap() <= seconds + 0.005
    };
    for group in &outcome.groups {
        for found in group.best.iter().filter(|found| found.risk > Risk::None) {
            let mut without = found.setup.clone();
            for (trick, after) in differences(&bench, TRICKS, &start, &found.setup) {
                if trick.risk(&bench, &after) == found.risk {
                    trick.adopt(&bench, &mut without, &start);
                }
            }
            assert!(!fits_in(&without, found.slowdown), "{:?} without {:?}", found.changes, found.risk);
        }
        let plans: Vec<_> = group.best.iter().chain(&group.others).collect();
        let is_ordered =
            plans.windows(2).all(|pair| pair[0].slowdown <= pair[1].slowdown && pair[0].taken > pair[1].taken);
        assert!(is_ordered || group.risk == Risk::SmallerTraining, "{:?}", group.risk);
    }
    let outdone: Vec<Risk> = outcome.groups.iter().filter(|group| group.is_outdone).map(|group| group.risk).collect();
    assert_eq!(outdone, [Risk::WeightState], "two micro-batches are enough, with any optimizer");
}

#[test]
fn modules_stay_checkpointed_where_more_would_be_copied_to_the_host_without() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB));
    let (start, control) = (setup(&model, 32, Some(128)), Control::default());
    let mut offloaded = start.clone();
    offloaded.training.offload = Some(HostMemory::Pinned);
    offloaded.training.checkpoint = Choice::modules(block_names(&bench.bind(&start).unwrap()));
    let seconds = bench.seconds(&offloaded).unwrap();
    let fitting = bench.fitting_run(&offloaded, &control).unwrap();
    let (refined, _) = refine(&bench, &start, (offloaded, fitting), &control);
    assert!(bench.seconds(&refined).unwrap() <= seconds);
    assert_ne!(refined.training.checkpoint, Choice::Nothing);
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

#[test]
fn the_smallest_change_of_the_training_comes_first_and_alone() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let start = setup(&model, 128, Some(256));
    let control = Control::default();
    let needed = Workbench::new(&model, None, capped(&gpu, GIB)).peaks(&start, &control).unwrap().reserved;
    let bench = Workbench::new(&model, None, capped(&gpu, needed / 10 * 8));
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    let group = outcome.groups.last().unwrap();
    let best = group.best.as_ref().unwrap();
    assert_eq!(best.changes.len(), 1, "{:?}", best.changes);
    let batch = bench.batch_of(&best.setup).unwrap();
    assert!(batch == 96 || batch == 104, "a round batch near 80 % of 128: {batch}");
    // Shorter sequences are the other single change.
    let [sizes] = group.others.as_slice() else { panic!("{:?}", group.others.len()) };
    assert_eq!(sizes.changes.iter().map(|change| change.after.as_str()).collect::<Vec<_>>(), ["seq 192"]);
    let larger = bench.with_batch(&start, batch + 8).unwrap();
    assert!(bench.fitting_run(&larger, &control).is_none());
}

#[test]
fn a_setting_that_is_kept_is_not_changed_and_still_printed() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 500 * MIB));
    let start = setup(&model, 32, Some(128));
    let options = SearchOptions { keep: &["accumulate", "optimizer", "amp"], ..SearchOptions::default() };
    let outcome = plan_with(options, &bench, &start, &[], &Control::default()).unwrap();
    for found in outcome.plans() {
        assert_eq!((found.setup.training.accumulate, found.setup.variant.amp), (1, None));
        assert_eq!(found.setup.training.optimizer.kind, start.training.optimizer.kind);
        assert!(found.written.code.contains("torch.optim.AdamW("));
    }
    let row = outcome.tricks.iter().find(|row| row.name == "optimizer").unwrap();
    assert_eq!(row.reason.as_deref(), Some("kept as it is: --keep optimizer"));
    assert!(outcome.plans().next().is_some());
}

#[test]
fn every_plan_leaves_the_margin_free() {
    let (model, gpu, control) = (model("bert-small"), gpu("H200"), Control::default());
    let start = setup(&model, 32, Some(128));
    let bench = |share: f64| Workbench::new(&model, None, capped(&gpu, 500 * MIB)).with_margin(share);
    let tight = bench(0.0);
    let roomy = bench(0.1);
    assert_eq!((tight.margin(), roomy.margin(), roomy.usable()), (0, 50 * MIB, Some(450 * MIB)));
    let most = |bench: &Workbench<'_>| {
        let outcome = plan(bench, &start, &[], &control).unwrap();
        outcome.plans().map(|found| found.run.peak_reserved).max().unwrap()
    };
    assert!(most(&tight) > 450 * MIB && most(&roomy) <= 450 * MIB);
    let batch = |bench: &Workbench<'_>| max_batch(bench, &start, 10_000, &control).unwrap().batch;
    assert!(batch(&roomy) < batch(&tight));
}

#[test]
fn micro_batches_of_a_net_with_batch_norm_are_another_training() {
    let (model, gpu, control) = (model("resnet18"), gpu("H200"), Control::default());
    let start = setup(&model, 32, None);
    let needed = Workbench::new(&model, None, capped(&gpu, GIB)).peaks(&start, &control).unwrap().reserved;
    let bench = Workbench::new(&model, None, capped(&gpu, needed / 10 * 7));
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    let splits = |group: &vramfit_plan::Group| group.best.iter().any(|best| best.setup.training.accumulate > 1);
    assert!(!outcome.groups[..4].iter().any(splits));
    let group = &outcome.groups[4];
    let best = group.best.as_ref().unwrap();
    assert!(splits(group) && bench.batch_of(&best.setup) == Some(16), "the largest micro-batch that fits");
    assert_eq!(best.effect, TrainingEffect::Training);
    let warnings: Vec<&str> = best.changes.iter().filter_map(|change| change.warning.as_deref()).collect();
    assert!(warnings.iter().any(|warning| warning.contains("over 16 samples instead of all")), "{warnings:?}");
}

#[test]
fn a_gpu_without_bfloat16_gets_fp16_autocast_and_code_that_says_so() {
    let (model, gpu, control) = (model("gpt2-no-cache"), gpu("RTX 2080 Ti"), Control::default());
    let start = setup(&model, 16, Some(64));
    let needed = Workbench::new(&model, None, capped(&gpu, GIB)).peaks(&start, &control).unwrap().reserved;
    let bench = Workbench::new(&model, None, capped(&gpu, needed / 10 * 7));
    let outcome = plan(&bench, &start, &[], &control).unwrap();
    let mixed = outcome.groups[1].best.as_ref().unwrap();
    assert!(mixed.written.code.contains("torch.autocast(device, dtype=torch.float16)"), "{}", mixed.written.code);
    assert!(mixed.written.code.contains("GradScaler"));
    assert!(outcome.tricks.iter().all(|row| !row.code.contains("bfloat16")));
}

#[test]
fn the_smallest_gpu_for_a_bfloat16_plan_has_bfloat16() {
    let (model, h200, control) = (model("bert-base"), gpu("H200"), Control::default());
    let (turing, ampere) = (gpu("RTX 2080 Ti"), gpu("RTX 3060"));
    let bench = Workbench::new(&model, None, capped(&h200, 300 * MIB));
    let whole = |gpu| vramfit_training::answer::Device { is_asked: true, vram: None, ..capped(gpu, 0) };
    let outcome = plan(&bench, &setup(&model, 8, Some(128)), &[whole(&turing), whole(&ampere)], &control).unwrap();
    let shortfall = outcome.shortfall.unwrap();
    assert!(shortfall.changes.iter().any(|change| change.contains("bf16")), "{:?}", shortfall.changes);
    assert_eq!(shortfall.gpu.as_ref().unwrap().name, "RTX 3060");
    assert_eq!(shortfall.gpu_for_start.as_ref().unwrap().name, "RTX 2080 Ti");
    let (smallest, is_unchanged) = shortfall.smallest_gpu().unwrap();
    assert!(smallest.name == "RTX 2080 Ti" && is_unchanged, "it needs neither a change nor the larger GPU");
}

#[test]
fn another_optimizer_is_named_before_its_implementation() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 560 * MIB));
    let outcome = plan(&bench, &setup(&model, 8, Some(128)), &[], &Control::default()).unwrap();
    for found in outcome.plans() {
        let optimizer = found.setup.training.optimizer.kind.name();
        for change in found.changes.iter().filter(|change| change.trick == "optimizer implementation") {
            assert!(change.after.ends_with(&format!("of {optimizer}")), "{}", change.after);
        }
    }
}
