//! Simulated steps under caps against real ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_validation::caps::trials;

#[test]
fn nothing_is_said_to_fit_that_died_and_nothing_not_to_fit_that_ran() {
    let trials = trials().unwrap();
    assert!(trials.len() >= 60, "only {} runs under caps", trials.len());
    for trial in &trials {
        let (case, percent) = (&trial.case, trial.measured.percent);
        match trial.verdict() {
            "fits" => assert!(!trial.has_died(), "{case} at {percent} % died"),
            "does-not-fit" => assert!(trial.has_died(), "{case} at {percent} % ran"),
            _ => {}
        }
    }
    let close = trials.iter().filter(|trial| trial.verdict() == "too-close").count();
    assert!(close * 20 <= trials.len(), "{close} of {} are too close to tell", trials.len());
}

#[test]
fn peaks_after_giving_back_and_asking_again_are_the_measured_ones() {
    let trials = trials().unwrap();
    let exact = trials.iter().filter(|trial| trial.peaks() == trial.measured_peaks()).count();
    assert!(exact * 20 >= trials.len() * 19, "only {exact} of {} runs have both peaks", trials.len());
}
