//! The numbers of `torch.cuda.memory_stats`, and those of an out-of-memory error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Allocator, BlockId, MempoolId, Settings, SimulatedDriver};

const MIB: u64 = 1 << 20;

fn allocator(conf: &str, cap: Option<u64>) -> Allocator<SimulatedDriver> {
    let settings = Settings { cap, ..Settings::parse(conf).unwrap() };
    Allocator::new(settings, SimulatedDriver::unlimited())
}

fn take(allocator: &mut Allocator<SimulatedDriver>, size: u64) -> BlockId {
    allocator.allocate(size, 0, MempoolId::DEFAULT).unwrap()
}

#[test]
fn resetting_the_peaks_makes_them_the_current_values() {
    let mut allocator = allocator("max_split_size_mb:32", None);
    let kept = [take(&mut allocator, 100), take(&mut allocator, 40 * MIB)];
    let freed = [take(&mut allocator, 200), take(&mut allocator, 60 * MIB)];
    freed.into_iter().for_each(|id| allocator.free(id));
    allocator.empty_cache();
    assert_eq!(allocator.statistics().allocated_bytes.all.peak, 100 * MIB + 1024);
    allocator.reset_peaks();
    let statistics = allocator.statistics();
    for (name, found) in statistics.by_pool() {
        for part in [found.all, found.small_pool, found.large_pool] {
            assert_eq!(part.peak, part.current, "{name}");
        }
    }
    assert_eq!(statistics.allocated_bytes.all.peak, 40 * MIB + 512);
    assert_eq!((statistics.oversize_allocations.peak, statistics.oversize_segments.peak), (1, 1));
    kept.into_iter().for_each(|id| allocator.free(id));
}

#[test]
fn what_was_taken_and_given_back_is_counted() {
    for conf in ["", "expandable_segments:True"] {
        let mut allocator = allocator(conf, None);
        let held = [take(&mut allocator, 100), take(&mut allocator, 30 * MIB), take(&mut allocator, 50 * MIB)];
        assert_eq!((allocator.statistics().device_alloc, allocator.statistics().device_free), (3, 0), "{conf}");
        held.into_iter().for_each(|id| allocator.free(id));
        allocator.empty_cache();
        allocator.empty_cache();
        let statistics = allocator.statistics();
        let given_back = if conf.is_empty() { 3 } else { 2 };
        assert_eq!((statistics.device_alloc, statistics.device_free), (3, given_back), "{conf}");
        assert_eq!((statistics.sync_all_streams, statistics.alloc_retries, statistics.ooms), (2, 0, 0), "{conf}");
        let bytes = statistics.allocated_bytes.all;
        assert_eq!((bytes.current, bytes.allocated, bytes.freed()), (0, 80 * MIB + 512, 80 * MIB + 512), "{conf}");
    }
}

#[test]
fn a_segment_may_fill_the_cap_exactly() {
    let mut allocator = allocator("", Some(60 * MIB));
    take(&mut allocator, 40 * MIB);
    take(&mut allocator, 20 * MIB);
    assert_eq!(allocator.reserved_bytes(), 60 * MIB);
    assert!(allocator.allocate(512, 0, MempoolId::DEFAULT).is_err());
}

#[test]
fn an_error_has_the_free_bytes_of_private_pools_only() {
    let mut allocator = allocator("", Some(100 * MIB));
    let private = MempoolId(0, 5);
    let cached = [(30, private), (20, MempoolId::DEFAULT), (12, MempoolId::DEFAULT)]
        .map(|(mib, pool)| allocator.allocate(mib * MIB, 0, pool).unwrap());
    cached[..2].iter().for_each(|&id| allocator.free(id));
    take(&mut allocator, 2 * MIB);
    let error = allocator.allocate(80 * MIB - 10, 0, MempoolId::DEFAULT).unwrap_err();
    assert_eq!((error.requested, error.block, error.segment), (80 * MIB - 10, 80 * MIB, 80 * MIB));
    assert_eq!((error.allocated, error.reserved, error.in_private_pools), (14 * MIB, 62 * MIB, 30 * MIB));
    assert_eq!(error.cap, Some(100 * MIB));
    assert_eq!((allocator.statistics().ooms, allocator.statistics().alloc_retries), (1, 1));
}

#[test]
fn all_numbers_are_there_under_pytorchs_names() {
    let mut allocator = allocator("", None);
    take(&mut allocator, 100);
    let flat = allocator.statistics().flat();
    assert_eq!(flat.len(), 9 * 3 * 4 + 2 * 4 + 5);
    for (name, expected) in [
        ("requested_bytes.all.current", 100),
        ("allocated_bytes.small_pool.peak", 512),
        ("allocated_bytes.large_pool.allocated", 0),
        ("active.small_pool.freed", 0),
        ("oversize_segments.current", 0),
        ("num_device_alloc", 1),
    ] {
        assert!(flat.contains(&(name.to_owned(), expected)), "{name}");
    }
}
