//! What a training needs after the reported steps: until memory repeats, as answering every one of many steps gives.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Settings, SimulatedDriver};
use vramfit_catalogue::Catalogue;
use vramfit_eager::machine::H200;
use vramfit_training::answer::{Device, Scenarios};
use vramfit_training::{Loop, record};
use vramfit_validation::estimate::with_bound;
use vramfit_validation::measured::measured;

/// More than a run is followed.
const MANY: u32 = 23;

#[test]
fn a_run_that_is_followed_until_memory_repeats_has_the_peaks_of_many_steps() {
    let catalogue = Catalogue::built_in().unwrap();
    let device = Device { gpu: catalogue.find("H200").unwrap(), is_asked: false, vram: None, cudnn: None };
    let (mut cases, mut growing) = (0, Vec::new());
    for (name, case) in &measured().unwrap().cases {
        let Ok(found) = with_bound(case, |bound, options| {
            let scenarios = Scenarios::record(bound, options, H200).unwrap();
            let peaks = |text: &str| {
                let settings = Settings::parse(text).unwrap();
                let runs = scenarios.runs(&device, &settings, false);
                let whole = record(bound, &Loop { steps: MANY, ..options.clone() }, H200).unwrap();
                let whole = whole.run(settings, SimulatedDriver::in_process(u64::MAX));
                assert_eq!(runs.expected.lasting_peak_reserved(), whole.peak_reserved, "{name} {text}");
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
    assert!(
        cases > 100 && growing.len() >= 20 && growing.contains(&"gpt2-small from step 3".to_owned()),
        "{growing:?}"
    );
}
