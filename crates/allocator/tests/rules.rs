//! The allocator's rules one by one, as `CUDACachingAllocator.cpp` states them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{Allocator, BlockId, MempoolId, SegmentAction, Settings, SimulatedDriver};

const MIB: u64 = 1 << 20;

fn allocator(conf: &str, cap: Option<u64>) -> Allocator<SimulatedDriver> {
    let settings = Settings { cap, ..Settings::parse(conf).unwrap() };
    Allocator::new(settings, SimulatedDriver::unlimited())
}

fn take(allocator: &mut Allocator<SimulatedDriver>, size: u64) -> BlockId {
    allocator.allocate(size, 0, MempoolId::DEFAULT).unwrap()
}

fn actions(allocator: &mut Allocator<SimulatedDriver>) -> Vec<(SegmentAction, u64)> {
    allocator.take_changes().iter().map(|change| (change.action, change.size)).collect()
}

#[test]
fn small_blocks_share_a_segment_of_two_mebibytes_cut_at_512_bytes() {
    let mut allocator = allocator("", None);
    let first = take(&mut allocator, 1);
    let second = take(&mut allocator, 513);
    assert_eq!(actions(&mut allocator), [(SegmentAction::Allocate, 2 * MIB)]);
    let base = allocator.block(first).address;
    assert_eq!(allocator.block(first).size, 512);
    assert_eq!((allocator.block(second).address, allocator.block(second).size), (base + 512, 1024));
}

#[test]
fn a_large_block_keeps_a_tail_of_up_to_one_mebibyte() {
    let mut allocator = allocator("", None);
    let keeps = take(&mut allocator, 11 * MIB);
    assert_eq!(allocator.block(keeps).size, 12 * MIB, "segments of their own are rounded to 2 MiB");
    let gives = take(&mut allocator, 19 * MIB);
    assert_eq!(allocator.block(gives).size, 20 * MIB);
    allocator.free(gives);
    let cut = take(&mut allocator, 12 * MIB - 512);
    assert_eq!(allocator.block(cut).size, 12 * MIB - 512, "more than 1 MiB was left over");
}

#[test]
fn best_fit_takes_the_smallest_then_the_lowest() {
    let mut allocator = allocator("", None);
    let blocks: Vec<BlockId> = [40, 30, 30, 50].map(|mib| take(&mut allocator, mib * MIB)).into();
    let lowest = blocks[1..3].iter().map(|&id| allocator.block(id).address).min().unwrap();
    for id in blocks {
        allocator.free(id);
    }
    let found = take(&mut allocator, 29 * MIB + 512);
    assert_eq!(allocator.block(found).address, lowest);
}

#[test]
fn streams_do_not_share_cached_blocks() {
    let mut allocator = allocator("", None);
    let id = take(&mut allocator, 100);
    allocator.free(id);
    allocator.allocate(100, 1, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.reserved_bytes(), 4 * MIB);
}

#[test]
fn a_pending_block_is_not_used_again_until_the_other_streams_are_done() {
    let mut allocator = allocator("", None);
    let id = take(&mut allocator, 20 * MIB);
    let free = allocator.request_free(id);
    assert_eq!((allocator.allocated_bytes(), allocator.statistics().active_bytes.all.current), (0, 20 * MIB));
    take(&mut allocator, 20 * MIB);
    assert_eq!(allocator.reserved_bytes(), 40 * MIB);
    allocator.complete_free(free);
    take(&mut allocator, 20 * MIB);
    assert_eq!(allocator.reserved_bytes(), 40 * MIB);
}

#[test]
fn a_refused_allocation_empties_the_cache_large_before_small_and_asks_again() {
    let mut allocator = allocator("", Some(64 * MIB));
    let small = take(&mut allocator, 100);
    let first = take(&mut allocator, 30 * MIB);
    let second = take(&mut allocator, 20 * MIB);
    for id in [small, first, second] {
        allocator.free(id);
    }
    actions(&mut allocator);
    take(&mut allocator, 50 * MIB);
    assert_eq!(
        actions(&mut allocator),
        [
            (SegmentAction::Free, 20 * MIB),
            (SegmentAction::Free, 30 * MIB),
            (SegmentAction::Free, 2 * MIB),
            (SegmentAction::Allocate, 50 * MIB)
        ]
    );
    assert_eq!(allocator.statistics().alloc_retries, 1);
}

#[test]
fn a_segment_pinned_by_one_small_block_cannot_be_given_back() {
    let mut allocator = allocator("", Some(64 * MIB));
    let big = take(&mut allocator, 40 * MIB);
    allocator.free(big);
    let pin = take(&mut allocator, 2 * MIB);
    assert_eq!(allocator.block(pin).size, 2 * MIB, "it is in the 40 MiB segment");
    let error = allocator.allocate(50 * MIB, 0, MempoolId::DEFAULT).unwrap_err();
    assert_eq!((error.segment, error.allocated, error.reserved), (50 * MIB, 2 * MIB, 40 * MIB));
    assert_eq!(allocator.statistics().ooms, 1);
}

#[test]
fn the_gpu_itself_may_refuse() {
    let mut allocator = Allocator::new(Settings::default(), SimulatedDriver::new(100 * MIB));
    assert!(allocator.allocate(90 * MIB, 0, MempoolId::DEFAULT).is_ok());
    assert!(allocator.allocate(20 * MIB, 0, MempoolId::DEFAULT).is_err());
}

#[test]
fn blocks_beyond_max_split_size_are_neither_split_nor_lent_to_smaller_requests() {
    let mut allocator = allocator("max_split_size_mb:32", None);
    let big = take(&mut allocator, 64 * MIB);
    assert_eq!(allocator.statistics().oversize_allocations.current, 1);
    allocator.free(big);
    take(&mut allocator, 16 * MIB);
    assert_eq!(allocator.reserved_bytes(), 80 * MIB, "a smaller request does not cut it");
    let fits = take(&mut allocator, 60 * MIB);
    assert_eq!(allocator.block(fits).size, 64 * MIB, "within the rounding it is lent whole");
    allocator.free(fits);
    take(&mut allocator, 40 * MIB);
    assert_eq!(allocator.reserved_bytes(), 120 * MIB, "64 MiB are not within 20 MiB of 40 MiB");
}

#[test]
fn oversize_blocks_are_given_back_just_enough() {
    let mut allocator = allocator("max_split_size_mb:32", Some(200 * MIB));
    let blocks = [50, 60, 70].map(|mib| take(&mut allocator, mib * MIB));
    for id in blocks {
        allocator.free(id);
    }
    actions(&mut allocator);
    take(&mut allocator, 100 * MIB);
    assert_eq!(
        actions(&mut allocator),
        [(SegmentAction::Free, 70 * MIB), (SegmentAction::Free, 60 * MIB), (SegmentAction::Allocate, 100 * MIB)]
    );
    assert_eq!(allocator.statistics().alloc_retries, 0);
}

#[test]
fn garbage_collection_gives_back_what_has_been_idle_longest_and_only_under_a_cap() {
    for (cap, expected) in [(None, 0), (Some(400 * MIB), 1)] {
        let mut allocator = allocator("garbage_collection_threshold:0.25", cap);
        let [busy, old, young] = [20, 60, 80].map(|mib| take(&mut allocator, mib * MIB));
        allocator.free(old);
        allocator.free(busy);
        for _ in 0..20 {
            let busy = take(&mut allocator, 20 * MIB);
            allocator.free(busy);
        }
        allocator.free(young);
        allocator.take_changes();
        take(&mut allocator, 120 * MIB);
        let freed = actions(&mut allocator).iter().filter(|change| change.0 == SegmentAction::Free).count();
        assert_eq!(freed, expected);
    }
}

#[test]
fn an_expandable_segment_grows_by_pages_and_cuts_at_512_bytes_in_both_pools() {
    let mut allocator = allocator("expandable_segments:True", None);
    let first = take(&mut allocator, 11 * MIB);
    assert_eq!(actions(&mut allocator), [(SegmentAction::Map, 20 * MIB)]);
    assert_eq!(allocator.block(first).size, 11 * MIB, "no tail");
    take(&mut allocator, 30 * MIB);
    assert_eq!(actions(&mut allocator), [(SegmentAction::Map, 40 * MIB)], "21 MiB more are needed, two pages");
    take(&mut allocator, 100);
    assert_eq!(actions(&mut allocator), [(SegmentAction::Map, 2 * MIB)], "the small pool has its own");
    assert_eq!(allocator.statistics().segment.all.current, 0);
    assert_eq!(allocator.segments().len(), 2);
}

#[test]
fn emptying_the_cache_unmaps_whole_free_pages_only() {
    let mut allocator = allocator("expandable_segments:True", None);
    let first = take(&mut allocator, 30 * MIB);
    let second = take(&mut allocator, 30 * MIB);
    allocator.free(first);
    actions(&mut allocator);
    allocator.empty_cache();
    assert_eq!(actions(&mut allocator), [(SegmentAction::Unmap, 20 * MIB)]);
    take(&mut allocator, 15 * MIB);
    assert_eq!(actions(&mut allocator), [(SegmentAction::Map, 20 * MIB)], "the gap is filled again");
    allocator.free(second);
}

#[test]
fn a_private_pool_is_separate_and_kept_until_nothing_uses_it() {
    let mut allocator = allocator("", None);
    let pool = MempoolId(0, 5);
    let id = allocator.allocate(20 * MIB, 0, pool).unwrap();
    allocator.free(id);
    take(&mut allocator, 20 * MIB);
    assert_eq!(allocator.reserved_bytes(), 40 * MIB);
    allocator.empty_cache();
    assert_eq!(allocator.reserved_bytes(), 40 * MIB);
    allocator.make_freeable(pool);
    allocator.empty_cache();
    assert_eq!(allocator.reserved_bytes(), 20 * MIB);
}

#[test]
fn a_free_block_of_an_expandable_segment_is_used_before_new_pages() {
    let mut allocator = allocator("expandable_segments:True", None);
    let first = take(&mut allocator, 30 * MIB);
    take(&mut allocator, 30 * MIB);
    let address = allocator.block(first).address;
    allocator.free(first);
    actions(&mut allocator);
    let again = take(&mut allocator, 25 * MIB);
    assert_eq!(allocator.block(again).address, address);
    assert_eq!(actions(&mut allocator), []);
}

#[test]
fn a_block_of_exactly_max_split_size_serves_a_request_of_its_size() {
    let mut allocator = allocator("max_split_size_mb:32", None);
    let first = take(&mut allocator, 32 * MIB);
    allocator.free(first);
    take(&mut allocator, 32 * MIB);
    assert_eq!(allocator.reserved_bytes(), 32 * MIB);
}

#[test]
fn the_gpu_gets_back_exactly_the_pages_that_are_unmapped() {
    let settings = Settings::parse("expandable_segments:True").unwrap();
    let mut allocator = Allocator::new(settings, SimulatedDriver::new(100 * MIB));
    let first = take(&mut allocator, 60 * MIB);
    take(&mut allocator, 40 * MIB);
    allocator.free(first);
    allocator.empty_cache();
    take(&mut allocator, 60 * MIB);
    assert!(allocator.allocate(20 * MIB, 0, MempoolId::DEFAULT).is_err());
}

#[test]
fn garbage_collection_goes_on_with_a_new_mean_age_until_enough_is_given_back() {
    let mut allocator = allocator("garbage_collection_threshold:0.25", Some(400 * MIB));
    let busy = take(&mut allocator, 20 * MIB);
    let [oldest, old, young, youngest] = [60, 62, 64, 66].map(|mib| take(&mut allocator, mib * MIB));
    allocator.free(busy);
    let search = |allocator: &mut Allocator<SimulatedDriver>, times: u64| {
        for _ in 0..times {
            let busy = take(allocator, 20 * MIB);
            allocator.free(busy);
        }
    };
    // The ages at the last request are 132, 32, 8 and 3 searches.
    for (id, searches) in [(oldest, 100), (old, 24), (young, 5), (youngest, 1)] {
        allocator.free(id);
        search(&mut allocator, searches);
    }
    take(&mut allocator, 20 * MIB);
    actions(&mut allocator);
    take(&mut allocator, 120 * MIB);
    assert_eq!(
        actions(&mut allocator),
        [
            (SegmentAction::Free, 60 * MIB),
            (SegmentAction::Free, 62 * MIB),
            (SegmentAction::Free, 64 * MIB),
            (SegmentAction::Allocate, 120 * MIB)
        ]
    );
}

#[test]
fn a_private_pool_that_nothing_uses_gives_back_small_before_large() {
    let mut allocator = allocator("", None);
    let pool = MempoolId(0, 5);
    for size in [20 * MIB, 100] {
        let id = allocator.allocate(size, 0, pool).unwrap();
        allocator.free(id);
    }
    allocator.make_freeable(pool);
    actions(&mut allocator);
    allocator.empty_cache();
    assert_eq!(actions(&mut allocator), [(SegmentAction::Free, 2 * MIB), (SegmentAction::Free, 20 * MIB)]);
}

#[test]
fn a_request_larger_than_the_rest_of_an_address_space_gets_another() {
    let mut allocator = allocator("expandable_segments:True", None);
    let first = take(&mut allocator, 20 * MIB);
    let second = take(&mut allocator, (1 << 40) - 10 * MIB);
    assert_ne!(allocator.block(second).address, allocator.block(first).address + 20 * MIB);
}
