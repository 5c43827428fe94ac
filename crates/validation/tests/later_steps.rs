//! What a training needs after the reported steps: until memory repeats, as answering every one of many steps gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_catalogue::Catalogue;
use vramfit_eager::machine::H200;
use vramfit_training::answer::{Device, Scenarios};
use vramfit_training::{Loop, record};
use vramfit_validation::measured::measured;
use vramfit_validation::simulation::with_bound;

/// More than a run is followed.
const MANY: u32 = 23;
/// Three segments of the small pool.
const SMALL_SEGMENTS: u64 = 6 << 20;

#[test]
fn a_run_that_is_followed_until_memory_repeats_has_the_peaks_of_many_steps() {
    let catalogue = Catalogue::built_in().unwrap();
    let device = Device { gpu: catalogue.find("H200").unwrap(), is_asked: false, vram: None, cudnn: None };
    let (mut cases, mut growing) = (0_u32, Vec::new());
    let (mut exact, mut most) = (0_u32, 1.0_f64);
    for (name, case) in &measured().unwrap().cases {
        let Ok(found) = with_bound(case, |bound, options| {
            let scenarios = Scenarios::record(bound, &Loop { goes_on: true, ..options.clone() }, H200).unwrap();
            let mut peaks = |text: &str| {
                let settings = Settings::parse(text).unwrap();
                let runs = scenarios.runs(&device, &settings, false);
                let whole = record(bound, &Loop { steps: MANY, ..options.clone() }, H200).unwrap();
                let whole = whole.run(settings, SimulatedDriver::in_process(u64::MAX));
                let found = runs.expected.lasting_peak_reserved();
                // The small pool is not followed to the end.
                let is_equal = (found..=found + SMALL_SEGMENTS).contains(&whole.peak_reserved);
                assert!(is_equal, "{name} {text}: {found}, {}", whole.peak_reserved);
                exact += u32::from(found == whole.peak_reserved);
                most = most.max(whole.peak_reserved as f64 / runs.expected.peak_reserved as f64);
                runs.expected.later
            };
            let _ = peaks("expandable_segments:True");
            peaks("")
        }) else {
            continue;
        };
        cases += 1;
        growing.extend(found.map(|later| format!("{name} from step {}", later.step)));
    }
    assert!(exact * 100 >= 2 * cases * 99 && most < 1.15, "{exact} of {} equal, at most ×{most:.4}", 2 * cases);
    assert!(
        cases > 100 && growing.len() >= 20 && growing.contains(&"gpt2-small from step 3".to_owned()),
        "{growing:?}"
    );
}
