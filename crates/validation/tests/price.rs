//! Predicted times of steps against measured ones.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_validation::price::{priced, summary};

#[test]
fn slowdowns_are_within_ten_percent_in_the_median_and_settings_come_in_the_right_order() {
    let rows = priced().unwrap();
    let found = summary(&rows);
    assert!(found.models >= 10 && found.settings >= 5 * found.models, "{found:?}");
    assert!(found.median <= 0.1, "{found:?}");
    assert!(found.pairs.1 * 10 >= found.pairs.0 * 9, "{found:?}");
}
