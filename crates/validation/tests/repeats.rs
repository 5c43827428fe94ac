//! Steps that are not simulated because they repeat: they are those that simulating gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_step::optimizer::{Implementation, Kind, Recipe};
use vramfit_step::training::{H200, Loop, record, record_every_step};
use vramfit_validation::estimate::with_bound;
use vramfit_validation::measured::measured;

#[test]
fn every_case_asks_for_the_same_whether_repeated_steps_are_simulated_or_not() {
    let (mut cases, mut repeating) = (0, 0);
    for (name, case) in &measured().unwrap().cases {
        let Ok(repeated) = with_bound(case, |bound, options| {
            let short = record(bound, options, H200).unwrap();
            let whole = record_every_step(bound, options, H200).unwrap();
            assert_eq!(short.journal(), whole.journal(), "{name}");
            let run = |program: &vramfit_step::training::Program| {
                program.run(Settings::default(), SimulatedDriver::in_process(u64::MAX)).phases
            };
            assert_eq!(run(&short), run(&whole), "{name}");
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
                    assert_eq!(short.journal(), whole.journal(), "{options:?}");
                    let steps = short.repeated_steps();
                    // RAdam may do something else from the sixth step on.
                    assert_eq!(steps, if kind == Kind::RAdam { 2 } else { 6 }, "{options:?}");
                }
            }
        }
    })
    .unwrap();
}
