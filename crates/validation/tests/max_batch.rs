//! The largest batch against what was found by trying: what the table says, which `vramfit-validate max-batch --check` makes
//! anew.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

static TABLE: &str = include_str!("../../../docs/max-batch-accuracy.md");

#[test]
fn the_largest_batch_is_not_above_the_one_that_was_found() {
    let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let rows: Vec<_> = TABLE.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    let (mut pairs, mut equal) = (0, 0);
    for row in rows.iter().skip_while(|row| row[1] != "case").skip(2) {
        let (found, predicted): (i64, i64) = (row[3].parse().unwrap(), row[4].parse().unwrap());
        assert!(predicted <= found, "{} under {} MiB: {found} found, {predicted} predicted", row[1], row[2]);
        pairs += 1;
        equal += usize::from(predicted == found);
    }
    assert!(pairs >= 100, "only {pairs} searches");
    assert!(equal * 10 >= pairs * 9, "only {equal} of {pairs} are equal");
}
