//! Workspaces by batch size, as lines and runs of batches.
//!
//! Lines come first: their number, then for each the bytes per batch and the bytes at batch 0. Then runs: the number of a line and a length,
//! or 0, a length, and for each batch the difference from the first line.

use smallvec::SmallVec;

use super::numbers::Numbers;

/// The bytes at a batch size that has `before` others stored before it.
pub(super) fn bytes_at(mut series: Numbers<'_>, mut before: u64, batch: i64) -> Option<u64> {
    let mut lines: SmallVec<[(i64, i64); 8]> = SmallVec::new();
    for _ in 0..series.next()? {
        lines.push((series.next_signed()?, series.next_signed()?));
    }
    let at = |line: Option<&(i64, i64)>| {
        line.map_or(Some(0), |(slope, start)| slope.checked_mul(batch)?.checked_add(*start))
    };
    loop {
        let (line, length) = (series.next()?, series.next()?);
        if before >= length {
            before -= length;
            for _ in 0..if line == 0 { length } else { 0 } {
                series.next()?;
            }
            continue;
        }
        if line > 0 {
            return at(Some(lines.get(usize::try_from(line - 1).ok()?)?))?.try_into().ok();
        }
        for _ in 0..before {
            series.next()?;
        }
        return at(lines.first())?.checked_add(series.next_signed()?)?.try_into().ok();
    }
}
