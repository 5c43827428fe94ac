//! The largest batch against what was found by trying.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_validation::max_batch::compared;

#[test]
fn the_largest_batch_is_not_above_the_one_that_was_found() {
    let rows = compared().unwrap();
    assert!(rows.len() >= 15, "only {} searches", rows.len());
    for row in &rows {
        assert!(
            row.predicted <= row.measured,
            "{}: {} found, {} predicted",
            row.search.case,
            row.measured,
            row.predicted
        );
    }
    let equal = rows.iter().filter(|row| row.predicted == row.measured).count();
    assert!(equal * 10 >= rows.len() * 9, "only {equal} of {} are equal", rows.len());
}
