//! What a simulation relies on: reduced statistics change no answer, and small blocks have exact sizes.

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
