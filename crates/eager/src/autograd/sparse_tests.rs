#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::*;

#[test]
fn rows_drawn_at_random_repeat() {
    // 8963 of 120,000 rows: 8611 different ones were drawn on the GPU.
    assert_eq!(assumed(Scenario::Expected, 8963, 120_000), 8636);
    assert_eq!(assumed(Scenario::Lower, 8963, 120_000), 1);
    assert_eq!(assumed(Scenario::Upper, 8963, 120_000), 8963);
    // A small table is named in full.
    assert_eq!(assumed(Scenario::Expected, 9000, 15), 15);
    assert_eq!(assumed(Scenario::Upper, 9000, 15), 15);
    assert_eq!(assumed(Scenario::Expected, 2, 1), 1);
    assert_eq!(assumed(Scenario::Expected, 0, 10), 0);
}
