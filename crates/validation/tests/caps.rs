//! Simulated training under caps compared with real runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_training::answer::Verdict;
use vramfit_validation::caps::trials;

#[test]
fn no_failed_run_is_predicted_to_fit_and_no_completed_run_not_to() {
    let trials = trials().unwrap();
    assert!(trials.len() >= 60, "only {} runs under caps", trials.len());
    for trial in &trials {
        let (case, percent) = (&trial.case, trial.measured.percent);
        match trial.verdict() {
            Verdict::Fits => assert!(!trial.has_failed(), "{case} at {percent} % ran out of memory"),
            Verdict::DoesNotFit => assert!(trial.has_failed(), "{case} at {percent} % ran"),
            Verdict::TooClose => {}
        }
    }
    let close = trials.iter().filter(|trial| trial.verdict() == Verdict::TooClose).count();
    assert!(close * 20 <= trials.len(), "{close} of {} are too close to tell", trials.len());
}

#[test]
fn peaks_after_freeing_cached_blocks_and_retrying_are_the_measured_ones() {
    let trials = trials().unwrap();
    let exact = trials.iter().filter(|trial| trial.peaks() == trial.measured_peaks()).count();
    assert!(exact * 20 >= trials.len() * 19, "only {exact} of {} runs have both peaks", trials.len());
}
