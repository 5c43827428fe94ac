//! Step times on GPUs that were not timed here, against published ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_validation::step_times::{compared, held_out_error};

#[test]
fn step_times_on_other_gpus_are_within_a_fifth_in_the_median_and_a_factor_of_two_at_worst() {
    let rows = compared().unwrap();
    assert!(rows.iter().filter(|row| row.is_held_out()).count() >= 60);
    assert!(held_out_error(&rows) <= 0.2, "{}", held_out_error(&rows));
    for row in &rows {
        assert!((0.5..2.0).contains(&row.ratio()), "{row:?}");
    }
}
