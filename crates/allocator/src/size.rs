//! How sizes are rounded, and when a block is split.

pub use crate::constants::{LARGE_SEGMENT, MINIMUM_BLOCK, OWN_SEGMENT, SEGMENT_ROUNDING, SMALL_REQUEST, SMALL_SEGMENT};
use crate::settings::Settings;

/// The size of a block for a request of `requested` bytes.
pub fn block_size(requested: u64, settings: &Settings) -> u64 {
    let divisions = settings.divisions_for(requested);
    if divisions > 1 && requested > MINIMUM_BLOCK.saturating_mul(divisions) {
        next_division(requested, divisions)
    } else {
        round_to_blocks(requested)
    }
}

/// `requested` rounded up to a multiple of [`MINIMUM_BLOCK`], at least one: the block size without divisions.
#[inline]
pub(crate) fn round_to_blocks(requested: u64) -> u64 {
    requested.max(1).div_ceil(MINIMUM_BLOCK).saturating_mul(MINIMUM_BLOCK)
}

/// `size` rounded up to the next of `divisions` equal steps between two powers of two.
fn next_division(size: u64, divisions: u64) -> u64 {
    if size.is_power_of_two() {
        return size;
    }
    let floor = 1u64 << size.ilog2();
    let step = floor >> divisions.ilog2();
    if step == 0 {
        return floor.saturating_mul(2);
    }
    let down = size & !(step - 1);
    if down == size { size } else { down.saturating_add(step) }
}

/// The size of the segment requested from the driver when no free block can serve `size` bytes.
pub fn segment_size(size: u64, settings: &Settings) -> u64 {
    if size <= SMALL_REQUEST {
        SMALL_SEGMENT
    } else if size < OWN_SEGMENT {
        settings.large_segment_size
    } else {
        size.div_ceil(SEGMENT_ROUNDING).saturating_mul(SEGMENT_ROUNDING)
    }
}

/// Whether a free block of `whole` bytes is split for a block of `size` bytes.
#[inline]
pub fn should_split(settings: &Settings, is_small: bool, whole: u64, size: u64) -> bool {
    let rest = whole - size;
    if is_small || settings.expandable_segments {
        rest >= MINIMUM_BLOCK
    } else {
        size < settings.max_split_size && rest > SMALL_REQUEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_rounded_up_to_a_multiple_of_512_bytes() {
        let settings = Settings::default();
        for (requested, size) in [(0, 512), (1, 512), (512, 512), (513, 1024), (1_000_000, 1_000_448)] {
            assert_eq!(block_size(requested, &settings), size, "{requested}");
        }
    }

    #[test]
    fn four_divisions_round_1200_to_1280_parts() {
        let settings = Settings::parse("roundup_power2_divisions:4").unwrap();
        let mib = 1 << 20;
        assert_eq!(block_size(1200 * mib, &settings), 1280 * mib);
        assert_eq!(block_size(1024 * mib, &settings), 1024 * mib);
        assert_eq!(block_size(1025 * mib, &settings), 1280 * mib);
        assert_eq!(block_size(2048, &settings), 2048);
        assert_eq!(block_size(2049, &settings), 2560);
        assert_eq!(block_size(1700, &settings), 2048, "at most 512 x divisions: plain rounding");
        assert_eq!((block_size(0, &settings), block_size(511, &settings)), (512, 512));
        let one = Settings::parse("roundup_power2_divisions:1").unwrap();
        assert_eq!(block_size(1200 * mib, &one), 1200 * mib, "one division is plain rounding");
    }

    #[test]
    fn segments_are_two_or_twenty_mebibytes_or_the_size_of_their_block() {
        let settings = Settings::default();
        let mib = 1 << 20;
        assert_eq!(segment_size(512, &settings), 2 * mib);
        assert_eq!(segment_size(mib, &settings), 2 * mib);
        assert_eq!(segment_size(mib + 512, &settings), 20 * mib);
        assert_eq!(segment_size(10 * mib - 512, &settings), 20 * mib);
        assert_eq!(segment_size(10 * mib, &settings), 10 * mib);
        assert_eq!(segment_size(10 * mib + 512, &settings), 12 * mib);
    }

    #[test]
    fn a_block_is_split_by_the_rules_of_its_pool() {
        let (settings, mib) = (Settings::parse("max_split_size_mb:32").unwrap(), 1 << 20);
        assert!(should_split(&settings, true, 1024, 512) && !should_split(&settings, true, 1024, 1024));
        assert!(
            !should_split(&settings, false, 21 * mib, 20 * mib) && should_split(&settings, false, 22 * mib, 20 * mib)
        );
        assert!(should_split(&settings, false, 64 * mib, 32 * mib - 512));
        assert!(!should_split(&settings, false, 64 * mib, 32 * mib), "of max_split_size or more");
        let expandable = Settings { expandable_segments: true, ..settings };
        assert!(should_split(&expandable, false, 64 * mib, 64 * mib - 512));
    }

    #[test]
    fn absurd_sizes_are_rounded_without_overflow() {
        let settings = Settings::parse("roundup_power2_divisions:8").unwrap();
        for requested in [u64::MAX, u64::MAX - 1] {
            assert_eq!(block_size(requested, &settings), u64::MAX);
            assert_eq!(block_size(requested, &Settings::default()), u64::MAX);
            assert_eq!(segment_size(requested, &settings), u64::MAX);
        }
        assert_eq!(block_size(1 << 63, &settings), 1 << 63);
        assert_eq!(segment_size(1 << 63, &settings), 1 << 63);
    }
}
