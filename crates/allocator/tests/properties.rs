//! What holds for every sequence of requests, under every setting.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use vramfit_allocator::{Allocator, BlockId, BlockUse, MempoolId, Settings, SimulatedDriver};

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
    let mut reserved = 0;
    let mut allocated = 0;
    let mut end_of_last = 0;
    for segment in allocator.segments() {
        assert!(segment.address >= end_of_last, "segments do not overlap");
        let mut cursor = segment.address;
        for block in &segment.blocks {
            assert_eq!(block.address, cursor, "blocks tile their segment");
            assert!(block.size > 0 && block.size % 512 == 0);
            cursor += block.size;
            if block.usage == BlockUse::Allocated {
                allocated += block.size;
            }
        }
        for pair in segment.blocks.windows(2) {
            assert!(pair[0].usage != BlockUse::Free || pair[1].usage != BlockUse::Free, "free neighbours are joined");
        }
        assert_eq!(cursor, segment.address + segment.size);
        end_of_last = cursor;
        reserved += segment.size;
    }
    assert_eq!(reserved, allocator.reserved_bytes());
    assert_eq!(allocated, allocator.allocated_bytes());
}

/// Runs `steps`; what came out, and the allocator with what is still held.
fn run(
    settings: &Settings,
    steps: &[Step],
    is_checked: bool,
) -> (Vec<Option<u64>>, Allocator<SimulatedDriver>, Vec<BlockId>) {
    let mut allocator = Allocator::new(settings.clone(), SimulatedDriver::unlimited());
    let mut held: Vec<BlockId> = Vec::new();
    let mut pending = Vec::new();
    let mut addresses = Vec::new();
    for step in steps {
        match *step {
            Step::Allocate { size, stream, pool } => {
                let got = allocator.allocate(size, stream, MempoolId(0, pool));
                addresses.push(got.ok().map(|id| allocator.block(id).address));
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
    fn more_room_never_refuses_sooner(steps in prop::collection::vec(step(), 1..80), mib in 50u64..1500) {
        let refusals = |cap: Option<u64>| {
            let (got, ..) = run(&Settings { cap, ..Settings::default() }, &steps, false);
            got.iter().position(Option::is_none).unwrap_or(usize::MAX)
        };
        prop_assert!(refusals(Some(mib << 20)) <= refusals(None));
    }
}
