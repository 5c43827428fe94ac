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
    // Up to here one block of 256 threads with 9 items each sorts alone, and asks for one byte.
    if items <= 256 * 9 {
        return 1;
    }
    let (tile, passes) = (384 * 12, 8);
    let portion = ((1 << 28) - 1) / tile * tile;
    let portions = tiles(items, portion);
    let bins = portions * passes * RADIX_DIGITS * 8;
    let lookback = tiles(items.min(portion), tile) * RADIX_DIGITS * 4;
    let counters = portions * passes * 4;
    aliased(&[bins, lookback, 8 * items, 8 * items, counters]).unsigned_abs()
}

/// The first of each run of equal 64-bit keys, with 32-bit values.
pub fn unique_by_key(items: i64) -> u64 {
    aliased(&[scan_state(tiles(items, 640 * 7))]).unsigned_abs()
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
    fn scans_ask_for_what_was_recorded_on_an_h200() {
        for (items, bytes) in [(2, 1279), (5003, 1279), (16_000, 1535), (30_522, 1791)] {
            assert_eq!(exclusive_sum(items), bytes, "{items} items");
        }
        for items in [231, 3073, 65_536] {
            assert_eq!(unique_by_key(items), 1279, "{items} items");
        }
    }
}
