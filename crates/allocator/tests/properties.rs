//! What holds for every sequence of requests, under every setting.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use vramfit_allocator::{Allocator, BlockId, BlockUse, MempoolId, OutOfMemory, Settings, SimulatedDriver};

/// One thing to do with an allocator.
#[derive(Clone, Debug)]
enum Step {
    Allocate { size: u64, stream: u64, pool: u64 },
    Free { which: usize },
    FreeLater { which: usize },
    EmptyCache,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![0u64..2048, 1u64..(1 << 20) + 4096, (1u64 << 20)..(12 << 20), (10u64 << 20)..(200 << 20),];
    prop_oneof![
        6 => (size, 0u64..2, prop_oneof![8 => Just(0u64), 1 => Just(7u64)])
            .prop_map(|(size, stream, pool)| Step::Allocate { size, stream, pool }),
        5 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => any::<usize>().prop_map(|which| Step::FreeLater { which }),
        1 => Just(Step::EmptyCache),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let text = prop_oneof![
        Just(""),
        Just("expandable_segments:True"),
        Just("max_split_size_mb:32"),
        Just("max_split_size_mb:32,max_non_split_rounding_mb:64"),
        Just("roundup_power2_divisions:4"),
        Just("garbage_collection_threshold:0.5"),
        Just("large_segment_size_mb:32"),
        Just("expandable_segments:True,max_split_size_mb:64"),
    ];
    (text, prop_oneof![Just(None), (100u64..2000).prop_map(|mib| Some(mib << 20))])
        .prop_map(|(text, cap)| Settings { cap, ..Settings::parse(text).unwrap() })
}

fn check(allocator: &Allocator<SimulatedDriver>) {
    let statistics = allocator.statistics();
    assert!(allocator.allocated_bytes() <= allocator.reserved_bytes());
    assert!(statistics.requested_bytes.all.current <= statistics.active_bytes.all.current);
    if let Some(cap) = allocator.settings().cap {
        // Pages are larger than what the cap is checked with: an expandable segment may go one page beyond it.
        let slack = if allocator.settings().expandable_segments { 512 << 20 } else { 0 };
        assert!(allocator.reserved_bytes() <= cap + slack);
    }
    assert_eq!(allocator.segment_count(), allocator.segments().len());
    let mut end_of_last = 0;
    for segment in allocator.segments() {
        assert!(segment.address >= end_of_last, "segments do not overlap");
        let mut cursor = segment.address;
        for block in &segment.blocks {
            assert_eq!(block.address, cursor, "blocks tile their segment");
            assert!(block.size > 0 && block.size % 512 == 0);
            cursor += block.size;
        }
        for pair in segment.blocks.windows(2) {
            assert!(pair[0].usage != BlockUse::Free || pair[1].usage != BlockUse::Free, "free neighbours are joined");
        }
        assert_eq!(cursor, segment.address + segment.size);
        end_of_last = cursor;
    }
    check_statistics(allocator);
}

/// Counts blocks and segments anew and compares the current value of every statistic.
fn check_statistics(allocator: &Allocator<SimulatedDriver>) {
    let limit = allocator.settings().max_split_size;
    let mut counted: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    let (mut oversize_allocations, mut oversize_segments) = (0, 0);
    for segment in allocator.segments() {
        let mut add = |name, amount| counted.entry(name).or_default()[usize::from(segment.is_small)] += amount;
        add("reserved_bytes", segment.size);
        if !segment.is_expandable {
            add("segment", 1);
            oversize_segments += u64::from(segment.size >= limit);
        }
        for block in &segment.blocks {
            match block.usage {
                BlockUse::Allocated => {
                    add("allocation", 1);
                    add("allocated_bytes", block.size);
                    oversize_allocations += u64::from(block.size >= limit);
                }
                BlockUse::Free if block.is_split() && !segment.is_expandable => {
                    add("inactive_split", 1);
                    add("inactive_split_bytes", block.size);
                }
                _ => {}
            }
            if matches!(block.usage, BlockUse::Allocated | BlockUse::Pending) {
                add("active", 1);
                add("active_bytes", block.size);
                add("requested_bytes", block.requested);
            }
        }
    }
    let statistics = allocator.statistics();
    for (name, found) in statistics.by_pool() {
        let [large, small] = counted.get(name).copied().unwrap_or_default();
        assert_eq!((found.small_pool.current, found.large_pool.current), (small, large), "{name}");
        assert_eq!(found.all.current, small + large, "{name}");
        assert!(found.all.peak >= found.all.current, "{name}");
    }
    assert_eq!(statistics.oversize_allocations.current, oversize_allocations);
    assert_eq!(statistics.oversize_segments.current, oversize_segments);
}

/// Runs `steps`; what came out, and the allocator with what is still held.
fn run(
    settings: &Settings,
    steps: &[Step],
    is_checked: bool,
) -> (Vec<Result<u64, OutOfMemory>>, Allocator<SimulatedDriver>, Vec<BlockId>) {
    let mut allocator = Allocator::new(settings.clone(), SimulatedDriver::unlimited());
    let mut held: Vec<BlockId> = Vec::new();
    let mut pending = Vec::new();
    let mut addresses = Vec::new();
    for step in steps {
        match *step {
            Step::Allocate { size, stream, pool } => {
                let got = allocator.allocate(size, stream, MempoolId(0, pool));
                addresses.push(got.map(|id| allocator.block(id).address));
                held.extend(got.ok());
            }
            Step::Free { which } if !held.is_empty() => {
                let id = held.swap_remove(which % held.len());
                allocator.free(id);
            }
            Step::FreeLater { which } if !held.is_empty() => {
                let id = held.swap_remove(which % held.len());
                pending.push(allocator.request_free(id));
            }
            Step::EmptyCache => allocator.empty_cache(),
            _ => {}
        }
        if is_checked {
            check(&allocator);
        }
    }
    for free in pending {
        allocator.complete_free(free);
    }
    (addresses, allocator, held)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_partition_their_segments_and_numbers_add_up(settings in settings(), steps in prop::collection::vec(step(), 1..120)) {
        run(&settings, &steps, true);
    }

    #[test]
    fn freeing_all_and_emptying_the_cache_gives_everything_back(settings in settings(), steps in prop::collection::vec(step(), 1..120)) {
        let (_, mut allocator, held) = run(&settings, &steps, false);
        for id in held {
            allocator.free(id);
        }
        prop_assert_eq!(allocator.allocated_bytes(), 0);
        prop_assert_eq!(allocator.statistics().active.all.current, 0);
        prop_assert_eq!(allocator.statistics().inactive_split.all.current, 0);
        prop_assert_eq!(allocator.statistics().inactive_split_bytes.all.current, 0);
        allocator.make_freeable(MempoolId(0, 7));
        allocator.empty_cache();
        prop_assert_eq!(allocator.reserved_bytes(), 0);
        prop_assert_eq!(allocator.segments().len(), 0);
    }

    #[test]
    fn the_same_requests_give_the_same_blocks(settings in settings(), steps in prop::collection::vec(step(), 1..120)) {
        let (first, ..) = run(&settings, &steps, false);
        let (second, ..) = run(&settings, &steps, false);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn a_request_is_refused_only_where_its_segment_would_pass_the_cap(steps in prop::collection::vec(step(), 1..80), mib in 50u64..1500) {
        let (uncapped, ..) = run(&Settings::default(), &steps, false);
        prop_assert!(uncapped.iter().all(Result::is_ok), "an unlimited GPU refuses nothing");
        let cap = mib << 20;
        let (capped, ..) = run(&Settings { cap: Some(cap), ..Settings::default() }, &steps, false);
        for refused in capped.iter().filter_map(|result| result.err()) {
            prop_assert!(refused.reserved + refused.segment > cap, "{refused:?}");
            prop_assert_eq!(refused.cap, Some(cap));
        }
    }
}
