//! CUB's temporary storage, as its device-wide algorithms ask for it on Hopper.
//!
//! CUB lays its pieces out at multiples of 256 bytes and asks for 255 bytes more, to align the first one itself.

const ALIGNMENT: i64 = 256;
const RADIX_DIGITS: i64 = 256;

fn aligned(bytes: i64) -> i64 {
    (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
}

fn aliased(pieces: &[i64]) -> i64 {
    pieces.iter().map(|&bytes| aligned(bytes)).sum::<i64>() + ALIGNMENT - 1
}

fn tiles(items: i64, tile: i64) -> i64 {
    (items + tile - 1) / tile
}

/// What the tiles of a scan tell each other: 16 bytes a tile for sums of 8 bytes, and a warp of padding.
fn scan_state(tiles: i64) -> i64 {
    aliased(&[16 * (tiles + 32)])
}

/// Sorting pairs of 64-bit integers over all bits.
pub fn radix_sort_pairs(items: i64) -> u64 {
    radix_sort_pairs_of(items, 64)
}

/// Sorting pairs of 64-bit integers whose keys have so many bits.
pub fn radix_sort_pairs_of(items: i64, bits: u64) -> u64 {
    // Up to here one block of 256 threads with 9 items each sorts alone, and asks for one byte.
    if items <= 256 * 9 { 1 } else { onesweep(items, (8, 8), bits, 384 * 12) }
}

/// Sorting keys of `key` bytes with values of `value` bytes; `None` where how such pairs are sorted has not been recorded.
pub fn radix_sort(items: i64, key: u64, value: u64, bits: u64) -> Option<u64> {
    let tile = match (key, value) {
        (8, 8) => 384 * 12,
        (4, 8) => 384 * 14,
        (2, 8) => 352 * 16,
        _ => return None,
    };
    Some(onesweep(items, (key, value), bits, tile))
}

/// Sorting pairs of 32-bit integers by their row.
pub fn radix_sort_rows(items: i64, rows: i64) -> u64 {
    let bits = u64::from(64 - rows.max(1).leading_zeros());
    onesweep(items, (8, 8), bits, 384 * 15)
}

/// A digit of eight bits a pass; what a single pass writes goes straight to its place.
fn onesweep(items: i64, (key, value): (u64, u64), bits: u64, tile: i64) -> u64 {
    let passes = bits.div_ceil(8).cast_signed();
    let portion = ((1 << 28) - 1) / tile * tile;
    let portions = tiles(items, portion);
    let bins = portions * passes * RADIX_DIGITS * 8;
    let lookback = tiles(items.min(portion), tile) * RADIX_DIGITS * 4;
    let counters = portions * passes * 4;
    let between = |bytes: u64| if passes > 1 { bytes.cast_signed() * items } else { 0 };
    aliased(&[bins, lookback, between(key), between(value), counters]).unsigned_abs()
}

/// Sorting rows apart, keys of `key` bytes with values of 8.
pub fn segmented_sort(items: i64, key: u64) -> u64 {
    aliased(&[key.cast_signed() * items, 8 * items]).unsigned_abs()
}

/// Counting what is true: a partial count of each block of threads that the GPU can hold, five times over.
pub fn count(items: i64) -> u64 {
    if items <= 256 * 16 { 1 } else { aliased(&[132 * 8 * 5 * 4]).unsigned_abs() }
}

/// Picking the places that are true.
pub fn select(items: i64) -> u64 {
    aliased(&[8 * (tiles(items, 384 * 11).max(1) + 32), 1]).unsigned_abs()
}

/// The first of each run of equal 64-bit keys, with 32-bit values.
pub fn unique_by_key(items: i64) -> u64 {
    aliased(&[scan_state(tiles(items, 640 * 7))]).unsigned_abs()
}

/// Sorting pairs of 64-bit integers by a comparison that is no radix: a merge sort, in tiles of 256 threads with 8 items each.
pub fn merge_sort_pairs(items: i64) -> u64 {
    aliased(&[4 * (tiles(items, 256 * 8) + 1), 8 * items, 8 * items]).unsigned_abs()
}

/// Thrust's first of each run of equal 64-bit keys, with 64-bit values: CUB's storage, in which tiles tell each other 8 bytes, and how
/// many were found.
pub fn thrust_unique_by_key(items: i64) -> u64 {
    let state = aliased(&[8 * (tiles(items, 448 * 11) + 32)]);
    aliased(&[aliased(&[state]), 8]).unsigned_abs()
}

/// The running sum of 64-bit integers.
pub fn exclusive_sum(items: i64) -> u64 {
    aliased(&[scan_state(tiles(items, 128 * 7))]).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_asks_for_what_was_recorded_on_an_h200() {
        let recorded =
            [(231, 1), (3073, 67_583), (4096, 83_455), (4800, 95_743), (16_000, 276_991), (65_536, 1_080_831)];
        for (items, bytes) in recorded {
            assert_eq!(radix_sort_pairs(items), bytes, "{items} items");
        }
    }

    #[test]
    fn merging_pairs_and_finding_runs_ask_for_what_was_recorded_on_an_h200() {
        let recorded = [
            (2, 1023, 1535),
            (100, 2559, 1535),
            (700, 11_775, 1535),
            (1024, 16_895, 1535),
            (2049, 33_791, 1535),
            (8963, 144_383, 1535),
            (65_536, 1_049_087, 1535),
            (300_000, 4_801_023, 1791),
            (1_000_003, 16_002_815, 3071),
        ];
        for (items, sorted, found) in recorded {
            assert_eq!((merge_sort_pairs(items), thrust_unique_by_key(items)), (sorted, found), "{items} items");
        }
    }

    #[test]
    fn sorting_by_few_bits_takes_fewer_passes() {
        assert_eq!(radix_sort_pairs_of(4096, 13), 71_167);
        assert_eq!(radix_sort_pairs_of(90_000, 5), 23_039);
        assert_eq!(radix_sort(1_000_003, 4, 8, 32), Some(12_200_703));
        assert_eq!(radix_sort(1_000_003, 2, 8, 16), Some(10_187_263));
    }

    #[test]
    fn counting_and_picking_ask_for_what_was_recorded_on_an_h200() {
        for (items, counted, picked) in
            [(77, 1, 1023), (4097, 21_503, 1023), (1_000_003, 21_503, 2815), (2_960_000, 21_503, 6399)]
        {
            assert_eq!((count(items), select(items)), (counted, picked), "{items} items");
        }
    }

    #[test]
    fn scans_ask_for_what_was_recorded_on_an_h200() {
        for (items, bytes) in [(2, 1279), (5003, 1279), (16_000, 1535), (30_522, 1791)] {
            assert_eq!(exclusive_sum(items), bytes, "{items} items");
        }
        for items in [231, 3073, 65_536] {
            assert_eq!(unique_by_key(items), 1279, "{items} items");
        }
    }
}
