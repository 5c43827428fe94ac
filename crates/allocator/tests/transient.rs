//! Reduced statistics, and allocations that are freed before the next request.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use vramfit_allocator::{Allocator, BlockId, MempoolId, Settings, SimulatedDriver};

const MIB: u64 = 1 << 20;

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..4096, 1u64..(2 << 20), (1u64 << 20)..(40 << 20)]
}

fn settings() -> impl Strategy<Value = Settings> {
    let conf = prop_oneof![
        Just(""),
        Just("max_split_size_mb:32"),
        Just("roundup_power2_divisions:4"),
        Just("garbage_collection_threshold:0.5")
    ];
    conf.prop_map(|conf| Settings::parse(conf).unwrap())
}

/// Allocates each size, and frees the block with this number where there is one.
fn run(allocator: &mut Allocator<SimulatedDriver>, requests: &[(u64, usize)]) -> Vec<u64> {
    let mut held: Vec<BlockId> = Vec::new();
    let mut addresses = Vec::new();
    for &(size, freed) in requests {
        let id = allocator.allocate(size, 0, MempoolId::DEFAULT).unwrap();
        addresses.push(allocator.block(id).address);
        held.push(id);
        if freed < held.len() {
            allocator.free(held.swap_remove(freed));
        }
    }
    addresses
}

fn layout(allocator: &Allocator<SimulatedDriver>) -> Vec<(u64, u64, vramfit_allocator::BlockUse)> {
    let segments = allocator.segments();
    segments.iter().flat_map(|s| &s.blocks).map(|block| (block.address, block.size, block.usage)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reduced_statistics_change_no_answer(
        settings in settings(),
        requests in prop::collection::vec((size(), 0usize..12), 1..80),
    ) {
        let mut full = Allocator::new(settings.clone(), SimulatedDriver::unlimited());
        let mut reduced = Allocator::with_reduced_statistics(settings, SimulatedDriver::unlimited());
        prop_assert_eq!(run(&mut full, &requests), run(&mut reduced, &requests));
        prop_assert_eq!(layout(&full), layout(&reduced));
        prop_assert_eq!(full.allocated_bytes(), reduced.allocated_bytes());
        let peaks = |allocator: &Allocator<SimulatedDriver>| {
            (allocator.statistics().allocated_bytes.all.peak, allocator.statistics().reserved_bytes)
        };
        prop_assert_eq!(peaks(&full), peaks(&reduced));
    }

    #[test]
    fn a_peeked_block_is_the_one_that_allocating_returns_and_freeing_it_restores_the_layout(
        settings in settings(),
        requests in prop::collection::vec((size(), 0usize..12), 1..80),
        transient in size(),
    ) {
        let mut allocator = Allocator::with_reduced_statistics(settings, SimulatedDriver::unlimited());
        run(&mut allocator, &requests);
        let before = (layout(&allocator), allocator.reserved_bytes());
        let peeked = allocator.peek_transient(transient);
        let id = allocator.allocate(transient, 0, MempoolId::DEFAULT).unwrap();
        if let Some(size) = peeked {
            prop_assert_eq!(size, allocator.block(id).size);
            allocator.free(id);
            prop_assert_eq!((layout(&allocator), allocator.reserved_bytes()), before);
        } else {
            prop_assert!(allocator.reserved_bytes() > before.1, "no free block fits");
        }
    }
}

#[test]
fn nothing_is_peeked_where_allocating_would_leave_more_than_bytes() {
    let peek = |settings: Settings, is_reduced: bool| {
        let driver = SimulatedDriver::unlimited();
        let mut allocator = match is_reduced {
            true => Allocator::with_reduced_statistics(settings, driver),
            false => Allocator::new(settings, driver),
        };
        let id = allocator.allocate(5 * MIB, 0, MempoolId::DEFAULT).unwrap();
        allocator.free(id);
        allocator.peek_transient(3 * MIB)
    };
    assert_eq!(peek(Settings::default(), true), Some(3 * MIB));
    assert_eq!(peek(Settings::default(), false), None, "all statistics are kept");
    assert_eq!(peek(Settings::parse("expandable_segments:True").unwrap(), true), None);
    let collecting = Settings { cap: Some(100 * MIB), ..Settings::parse("garbage_collection_threshold:0.5").unwrap() };
    assert_eq!(peek(collecting, true), None, "garbage collection counts requests");
}

#[test]
fn small_blocks_are_exact_unless_a_setting_says_otherwise() {
    let is_exact = |conf: &str, cap: Option<u64>| {
        let settings = Settings { cap, ..Settings::parse(conf).unwrap() };
        Allocator::new(settings, SimulatedDriver::unlimited()).has_exact_small_blocks()
    };
    assert!(is_exact("", None));
    assert!(is_exact("garbage_collection_threshold:0.5", None), "it acts only under a cap");
    assert!(!is_exact("garbage_collection_threshold:0.5", Some(MIB)));
    assert!(!is_exact("expandable_segments:True", None));
    assert!(!is_exact("roundup_power2_divisions:4", None));
}
