//! Shortcuts of the simulation: with them a program has the requests and results that simulating every step gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_eager::machine::H200;
use vramfit_eager::memory::{Category, Entry};
use vramfit_graph::bind::Bound;
use vramfit_training::optimizer::{Implementation, Kind, Recipe};
use vramfit_training::script::{Action, OptimizerSetup, Pass, Script};
use vramfit_training::shortcuts::Shortcuts;
use vramfit_training::{Loop, Phase, PhaseReport, Program, record, record_script, training_loop};
use vramfit_validation::measured::measured;
use vramfit_validation::simulation::with_bound;

fn phases(program: &Program, settings: Settings) -> Vec<PhaseReport> {
    program.run(settings, SimulatedDriver::in_process(u64::MAX)).phases
}

/// The program of a loop with every step simulated.
fn record_every_step(bound: &Bound<'_>, options: &Loop) -> Program {
    record_script(&training_loop(bound, options), H200, Shortcuts::NONE).unwrap()
}

/// The requests with allocations numbered in their order: copied micro-batches number them otherwise.
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
            let whole = record_every_step(bound, options);
            assert_eq!(requests(&short), requests(&whole), "{name}");
            assert_eq!(phases(&short, Settings::default()), phases(&whole, Settings::default()), "{name}");
            short.repeated_steps()
        }) else {
            continue;
        };
        // The buckets of ranks are only settled after the second step.
        let is_alone = case.settings.ranks.world <= 1;
        cases += u32::from(is_alone);
        repeating += u32::from(is_alone && repeated > 0);
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
                    let whole = record_every_step(bound, &options);
                    assert_eq!(requests(&short), requests(&whole), "{options:?}");
                    assert_eq!(phases(&short, Settings::default()), phases(&whole, Settings::default()), "{options:?}");
                    let steps = short.repeated_steps();
                    // RAdam allocates otherwise from the sixth step on.
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
                    options.releases_outputs = !options.releases_outputs;
                }
                let short = record(bound, &options, H200).unwrap();
                let whole = record_every_step(bound, &options);
                assert_eq!(requests(&short), requests(&whole), "{name} {options:?}");
                // Of each simulated step, all but two micro-batches are copies.
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
            let whole = record_every_step(bound, &options);
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

#[test]
fn every_shortcut_alone_gives_what_simulating_gives() {
    let measured = measured().unwrap();
    let off = Shortcuts::NONE;
    let alone = [
        Shortcuts { repeated_steps: true, ..off },
        Shortcuts { repeated_steps: true, derived_step: true, ..off },
        Shortcuts { copied_micro_batches: true, ..off },
        Shortcuts { copied_micro_batches: true, steady_state: true, ..off },
        Shortcuts { repeated_steps: true, steady_state: true, ..off },
    ];
    for name in ["bert-small-accumulate-amp", "resnet18"] {
        with_bound(&measured.cases[name], |bound, options| {
            let options = Loop { steps: 5, accumulate: 4, ..options.clone() };
            let script = training_loop(bound, &options);
            let whole = record_every_step(bound, &options);
            for shortcuts in alone {
                let short = record_script(&script, H200, shortcuts).unwrap();
                assert_eq!(requests(&short), requests(&whole), "{name} {shortcuts:?}");
                let phases = |program| phases(program, Settings::default());
                assert_eq!(phases(&short), phases(&whole), "{name} {shortcuts:?}");
            }
        })
        .unwrap();
    }
}

/// A script that trains two models in turns, each with its own optimizer, as adversarial networks are.
fn alternating<'m>(one: Script<'m>, other: Script<'m>, steps: usize) -> Script<'m> {
    let step = |index: usize| {
        [
            Action::BeginMicroBatch,
            Action::Forward { pass: index, divides_loss: false },
            Action::EndPhase(Phase::Forward),
            Action::Backward { pass: index, scaler: None },
            Action::EndPhase(Phase::Backward),
            Action::EndMicroBatch,
        ]
    };
    let mut actions = Vec::new();
    for index in 0..2 {
        actions.push(Action::MoveModel { model: index });
        actions.push(Action::MoveInputs { pass: index, micro_batches: 1 });
        actions.push(Action::CreateOptimizer { optimizer: index });
    }
    actions.push(Action::EndPhase(Phase::Build));
    for _ in 0..steps {
        actions.push(Action::BeginStep);
        actions.extend((0..2).map(|optimizer| Action::ZeroGrad { optimizer, sets_to_none: true }));
        actions.extend((0..2).flat_map(step));
        for optimizer in 0..2 {
            actions.push(Action::Update { optimizer, scaler: None });
            actions.push(Action::EndPhase(Phase::Step));
        }
    }
    let passes = [one.passes, other.passes].concat();
    let passes = passes.into_iter().enumerate().map(|(model, pass)| Pass { model, ..pass }).collect();
    let recipe = Recipe::new(Kind::AdamW, Implementation::Default);
    let optimizers = (0..2).map(|model| OptimizerSetup::of_all(recipe, model)).collect();
    Script { models: 2, passes, optimizers, scalers: 0, plans: one.plans, actions }
}

#[test]
fn two_models_with_an_optimizer_each_repeat_as_simulated_and_hold_both_weights() {
    let measured = measured().unwrap();
    with_bound(&measured.cases["bert-small"], |one, options| {
        with_bound(&measured.cases["resnet18"], |other, _| {
            let script = alternating(training_loop(one, options), training_loop(other, options), 6);
            let short = record_script(&script, H200, Shortcuts::ALL).unwrap();
            let whole = record_script(&script, H200, Shortcuts::NONE).unwrap();
            assert_eq!(requests(&short), requests(&whole));
            assert_eq!((short.repeated_steps(), whole.repeated_steps()), (4, 0));
            let found = phases(&short, Settings::default());
            assert_eq!(found, phases(&whole, Settings::default()));
            let weights = |bound: &Bound<'_>| -> u64 {
                let program = record(bound, &Loop { steps: 0, ..options.clone() }, H200).unwrap();
                let build = phases(&program, Settings::default());
                build[0].peak.account.requested[Category::Parameters as usize]
            };
            let held = found.last().unwrap().peak.account.requested[Category::Parameters as usize];
            assert_eq!(held, weights(one) + weights(other));
        })
        .unwrap();
    })
    .unwrap();
}

#[test]
fn two_passes_of_one_model_share_its_weights() {
    let measured = measured().unwrap();
    with_bound(&measured.cases["resnet18"], |bound, options| {
        let alone = training_loop(bound, &Loop { steps: 1, ..options.clone() });
        let mut both = alone.clone();
        both.passes.push(both.passes[0].clone());
        both.actions.extend([
            Action::MoveInputs { pass: 1, micro_batches: 1 },
            Action::BeginStep,
            Action::Forward { pass: 1, divides_loss: false },
            Action::EndPhase(Phase::Eval),
        ]);
        let weights = |script: &Script<'_>| {
            let program = record_script(script, H200, Shortcuts::ALL).unwrap();
            let last = *phases(&program, Settings::default()).last().unwrap();
            last.peak.account.requested[Category::Parameters as usize]
        };
        assert_eq!(weights(&both), weights(&alone));
    })
    .unwrap();
}
