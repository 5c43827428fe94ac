//! Steps that are not simulated because they repeat: they are those that simulating gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_eager::machine::H200;
use vramfit_eager::memory::Entry;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::training::{Loop, PhaseReport, Program, record, record_every_step};
use vramfit_validation::estimate::with_bound;
use vramfit_validation::measured::measured;

fn phases(program: &Program, settings: Settings) -> Vec<PhaseReport> {
    program.run(settings, SimulatedDriver::in_process(u64::MAX)).phases
}

/// The requests with memory numbered in the order in which it is asked for: copied micro-batches number it otherwise.
fn requests(program: &Program) -> Vec<Entry> {
    let mut journal = program.journal();
    let mut numbers = vec![u32::MAX; program.allocation_count()];
    let mut next = 0;
    for entry in &mut journal {
        match entry {
            Entry::Allocate { id, .. } => {
                numbers[*id as usize] = next;
                *id = next;
                next += 1;
            }
            Entry::Free { id } => *id = numbers[*id as usize],
        }
    }
    journal
}

#[test]
fn every_case_asks_for_the_same_whether_repeated_steps_are_simulated_or_not() {
    let (mut cases, mut repeating) = (0, 0);
    for (name, case) in &measured().unwrap().cases {
        let Ok(repeated) = with_bound(case, |bound, options| {
            let short = record(bound, options, H200).unwrap();
            let whole = record_every_step(bound, options, H200).unwrap();
            assert_eq!(requests(&short), requests(&whole), "{name}");
            assert_eq!(phases(&short, Settings::default()), phases(&whole, Settings::default()), "{name}");
            short.repeated_steps()
        }) else {
            continue;
        };
        cases += 1;
        repeating += u32::from(repeated > 0);
    }
    assert!(cases >= 116 && repeating * 10 >= cases * 9, "{repeating} of {cases} cases repeat");
}

#[test]
fn many_steps_of_every_optimizer_and_loop_repeat_as_simulated() {
    let measured = measured().unwrap();
    let case = &measured.cases["bert-small"];
    with_bound(case, |bound, _| {
        for (_, kind) in Kind::NAMES {
            for (_, implementation) in Implementation::NAMES {
                let recipe = Recipe::new(kind, implementation);
                if !recipe.exists() {
                    continue;
                }
                for is_other in [false, true] {
                    let options = Loop {
                        steps: 8,
                        optimizer: recipe,
                        accumulate: if is_other { 2 } else { 1 },
                        sets_to_none: !is_other,
                        has_fresh_inputs: is_other,
                        clips_gradients: is_other,
                        ..Loop::default()
                    };
                    let short = record(bound, &options, H200).unwrap();
                    let whole = record_every_step(bound, &options, H200).unwrap();
                    assert_eq!(requests(&short), requests(&whole), "{options:?}");
                    assert_eq!(phases(&short, Settings::default()), phases(&whole, Settings::default()), "{options:?}");
                    let steps = short.repeated_steps();
                    // RAdam may do something else from the sixth step on.
                    assert_eq!(steps, if kind == Kind::RAdam { 2 } else { 6 }, "{options:?}");
                }
            }
        }
    })
    .unwrap();
}

#[test]
fn micro_batches_that_are_copied_are_those_that_simulating_gives() {
    let measured = measured().unwrap();
    for name in
        ["bert-small", "bert-small-accumulate-amp", "resnet18", "resnet18-bf16", "lstm", "t5", "gpt2-checkpoint-amp"]
    {
        with_bound(&measured.cases[name], |bound, options| {
            for (accumulate, is_other) in [(3, false), (6, false), (5, true)] {
                let mut options = Loop { steps: 4, accumulate, ..options.clone() };
                if is_other {
                    options.sets_to_none = !options.sets_to_none;
                    options.has_fresh_inputs = !options.has_fresh_inputs;
                    options.lets_go = !options.lets_go;
                }
                let short = record(bound, &options, H200).unwrap();
                let whole = record_every_step(bound, &options, H200).unwrap();
                assert_eq!(requests(&short), requests(&whole), "{name} {options:?}");
                // Of each step that is not told from another, all but two are copies.
                assert_eq!(short.copied_micro_batches() % (accumulate as usize - 2), 0, "{name} {options:?}");
                assert!(short.copied_micro_batches() > 0 && whole.copied_micro_batches() == 0, "{name} {options:?}");
                let needed = phases(&whole, Settings::default()).iter().map(|phase| phase.peak_reserved).max().unwrap();
                for cap in [None, Some(needed), Some(needed - (2 << 20)), Some(needed / 10 * 9), Some(needed / 2)] {
                    let settings = Settings { cap, ..Settings::default() };
                    assert_eq!(
                        phases(&short, settings.clone()),
                        phases(&whole, settings),
                        "{name} {cap:?} {options:?}"
                    );
                }
            }
        })
        .unwrap();
    }
}

#[test]
fn repeated_steps_go_as_simulated_under_every_setting_and_cap() {
    let measured = measured().unwrap();
    for name in ["resnet50", "bert-small"] {
        with_bound(&measured.cases[name], |bound, _| {
            let options = Loop { steps: 6, ..Loop::default() };
            let short = record(bound, &options, H200).unwrap();
            let whole = record_every_step(bound, &options, H200).unwrap();
            let needed = phases(&whole, Settings::default()).iter().map(|phase| phase.peak_reserved).max().unwrap();
            let texts = ["", "expandable_segments:True", "max_split_size_mb:32", "roundup_power2_divisions:8"];
            for text in texts {
                for cap in [None, Some(needed), Some(needed - (2 << 20)), Some(needed / 10 * 9), Some(needed / 2)] {
                    let settings = Settings { cap, ..Settings::parse(text).unwrap() };
                    let found = phases(&short, settings.clone());
                    assert_eq!(found, phases(&whole, settings), "{name} {text} {cap:?}");
                }
            }
        })
        .unwrap();
    }
}
