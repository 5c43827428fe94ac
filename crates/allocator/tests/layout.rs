//! Starting from memory that is already in use, and releasing what a recording shows as released.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use vramfit_allocator::{
    Allocator, BlockUse, LayoutPiece, LayoutSegment, LayoutUse, MempoolId, RestoredBlock, SegmentAction, Settings,
    SimulatedDriver,
};

const MIB: u64 = 1 << 20;
const BASE: u64 = 1 << 40;

fn allocated(mib: u64) -> LayoutPiece {
    LayoutPiece { size: mib * MIB, usage: LayoutUse::Allocated { requested: mib * MIB - 100 } }
}

fn pending(mib: u64) -> LayoutPiece {
    LayoutPiece { size: mib * MIB, usage: LayoutUse::Pending { requested: mib * MIB - 100 } }
}

fn free(mib: u64) -> LayoutPiece {
    LayoutPiece { size: mib * MIB, usage: LayoutUse::Free }
}

fn segment(address: u64, is_expandable: bool, pieces: &[LayoutPiece]) -> LayoutSegment {
    LayoutSegment {
        address,
        stream: 0,
        pool: MempoolId::DEFAULT,
        is_small: false,
        is_expandable,
        pieces: pieces.to_vec(),
    }
}

fn restore(conf: &str, segments: &[LayoutSegment]) -> (Allocator<SimulatedDriver>, Vec<RestoredBlock>) {
    Allocator::with_layout(Settings::parse(conf).unwrap(), SimulatedDriver::unlimited(), segments)
}

/// Address, size in MiB and use of all blocks.
fn blocks(allocator: &Allocator<SimulatedDriver>) -> Vec<(u64, u64, BlockUse)> {
    let segments = allocator.segments();
    let blocks = segments.iter().flat_map(|segment| &segment.blocks);
    blocks.map(|block| (block.address, block.size / MIB, block.usage)).collect()
}

#[test]
fn the_layout_is_there_and_the_statistics_begin_with_it() {
    let pieces = [free(3), allocated(4), pending(5), free(8)];
    let (allocator, handles) = restore("", &[segment(BASE, false, &pieces)]);
    assert_eq!(
        blocks(&allocator),
        [
            (BASE, 3, BlockUse::Free),
            (BASE + 3 * MIB, 4, BlockUse::Allocated),
            (BASE + 7 * MIB, 5, BlockUse::Pending),
            (BASE + 12 * MIB, 8, BlockUse::Free)
        ]
    );
    assert!(matches!(handles[..], [RestoredBlock::Held(_), RestoredBlock::Pending(_)]));
    let statistics = allocator.statistics();
    for (name, current) in [
        ("allocation", 1),
        ("active", 2),
        ("segment", 1),
        ("inactive_split", 2),
        ("allocated_bytes", 4 * MIB),
        ("active_bytes", 9 * MIB),
        ("requested_bytes", 9 * MIB - 200),
        ("reserved_bytes", 20 * MIB),
        ("inactive_split_bytes", 11 * MIB),
    ] {
        let (_, found) = statistics.by_pool().into_iter().find(|(found, _)| *found == name).unwrap();
        let numbers = (found.all.current, found.all.peak, found.all.freed(), found.large_pool.current);
        assert_eq!(numbers, (current, current, 0, current), "{name}");
    }
    assert_eq!(statistics.device_alloc, 0);
}

#[test]
fn restored_blocks_are_freed_and_reused_like_others() {
    let pieces = [free(3), allocated(4), pending(5), free(8)];
    let (mut allocator, handles) = restore("", &[segment(BASE, false, &pieces)]);
    assert!(allocator.take_changes().is_empty());
    let reused = allocator.allocate(3 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(reused).address, BASE);
    let [RestoredBlock::Held(held), RestoredBlock::Pending(pending)] = handles[..] else { panic!("two handles") };
    assert_eq!((allocator.block(held).address, allocator.block(held).requested), (BASE + 3 * MIB, 4 * MIB - 100));
    for id in [reused, held] {
        allocator.free(id);
    }
    assert_eq!(blocks(&allocator).len(), 3);
    allocator.complete_free(pending);
    assert_eq!(blocks(&allocator), [(BASE, 20, BlockUse::Free)]);
    allocator.empty_cache();
    assert_eq!((allocator.reserved_bytes(), allocator.statistics().segment.all.current), (0, 0));
}

#[test]
fn a_small_segment_is_counted_in_the_small_pool() {
    let mut small = segment(BASE, false, &[allocated(1), free(1)]);
    small.is_small = true;
    let (allocator, _) = restore("max_split_size_mb:32", &[small, segment(BASE + 64 * MIB, false, &[allocated(40)])]);
    let statistics = allocator.statistics();
    assert_eq!((statistics.allocated_bytes.small_pool.current, statistics.segment.small_pool.current), (MIB, 1));
    assert_eq!((statistics.oversize_allocations.current, statistics.oversize_segments.peak), (1, 1));
    assert!(allocator.segments()[0].is_small);
}

#[test]
fn ranges_of_one_expandable_segment_share_its_address_space() {
    let ranges = [segment(BASE, true, &[allocated(20)]), segment(BASE + 40 * MIB, true, &[allocated(15), free(5)])];
    let (mut allocator, handles) = restore("expandable_segments:True", &ranges);
    assert_eq!((allocator.reserved_bytes(), allocator.statistics().segment.all.current), (40 * MIB, 0));
    assert_eq!(allocator.segments().len(), 2);
    let fills_gap = allocator.allocate(12 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(fills_gap).address, BASE + 20 * MIB);
    let [change] = allocator.take_changes()[..] else { panic!("one change") };
    assert_eq!((change.action, change.address, change.size), (SegmentAction::Map, BASE + 20 * MIB, 20 * MIB));
    assert_eq!(allocator.segments().len(), 1, "the gap is closed");
    let at_end = allocator.allocate(11 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(at_end).address, BASE + 55 * MIB, "grows into the unmapped rest");
    for handle in handles {
        let RestoredBlock::Held(id) = handle else { panic!("both are held") };
        allocator.free(id);
    }
    allocator.free(fills_gap);
    allocator.free(at_end);
    allocator.empty_cache();
    assert_eq!((allocator.reserved_bytes(), allocator.segments().len()), (0, 0));
}

#[test]
fn ranges_of_different_streams_do_not_share_address_space() {
    let mut other = segment(BASE + 40 * MIB, true, &[allocated(20)]);
    other.stream = 7;
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &[allocated(20)]), other]);
    let id = allocator.allocate(20 * MIB, 7, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(id).address, BASE + 60 * MIB);
}

#[test]
fn only_a_wholly_free_segment_of_that_size_is_released() {
    let segments = [
        segment(BASE, false, &[allocated(10), free(10)]),
        segment(BASE + 64 * MIB, false, &[free(30)]),
        segment(BASE + 128 * MIB, true, &[free(20)]),
    ];
    let (mut allocator, _) = restore("", &segments);
    assert!(!allocator.release_segment_at(BASE + 10 * MIB, 10 * MIB, 0), "part of a segment");
    assert!(!allocator.release_segment_at(BASE + 64 * MIB, 20 * MIB, 0), "another size");
    assert!(!allocator.release_segment_at(BASE + 64 * MIB, 30 * MIB, 1), "another stream");
    assert!(!allocator.release_segment_at(BASE + 128 * MIB, 20 * MIB, 0), "pages are unmapped instead");
    assert_eq!(allocator.reserved_bytes(), 70 * MIB);
}

#[test]
fn a_released_segment_goes_back_to_the_driver() {
    let mut allocator = Allocator::new(Settings::default(), SimulatedDriver::new(40 * MIB));
    let id = allocator.allocate(30 * MIB, 0, MempoolId::DEFAULT).unwrap();
    let address = allocator.block(id).address;
    allocator.free(id);
    assert!(allocator.release_segment_at(address, 30 * MIB, 0));
    assert_eq!((allocator.reserved_bytes(), allocator.statistics().device_free), (0, 1));
    assert!(allocator.allocate(40 * MIB, 0, MempoolId::DEFAULT).is_ok(), "the driver has its memory back");
}

#[test]
fn only_the_whole_pages_of_a_free_block_are_unmapped() {
    let pieces = [allocated(5), free(55)];
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &pieces)]);
    assert!(!allocator.unmap_at(BASE, 20 * MIB, 0), "in use");
    assert!(!allocator.unmap_at(BASE + 20 * MIB, 60 * MIB, 0), "more than there is");
    assert_eq!(allocator.reserved_bytes(), 60 * MIB);
    assert!(allocator.unmap_at(BASE + 20 * MIB, 40 * MIB, 0));
    assert_eq!(allocator.reserved_bytes(), 20 * MIB);
    let segments = allocator.segments();
    assert_eq!((segments.len(), segments[0].size), (1, 20 * MIB));
    assert!(!allocator.unmap_at(BASE + 5 * MIB, 15 * MIB, 0), "no whole page");
}

#[test]
fn unmapping_fewer_pages_than_the_block_has_is_reported() {
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &[allocated(20), free(40)])]);
    assert!(!allocator.unmap_at(BASE + 20 * MIB, 20 * MIB, 0));
}

#[test]
fn among_expandable_blocks_the_one_that_could_grow_least_is_used() {
    let pieces = [allocated(20), free(30), allocated(10), free(20)];
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &pieces)]);
    let id = allocator.allocate(15 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(id).address, BASE + 20 * MIB, "the smaller block at the end could grow");
}

#[test]
fn among_expandable_blocks_that_could_grow_equally_the_lowest_is_used() {
    let pieces = [allocated(10), free(20), allocated(10), free(20), allocated(20)];
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &pieces)]);
    let id = allocator.allocate(15 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(id).address, BASE + 10 * MIB);
}

#[test]
fn restored_expandable_segments_serve_nothing_where_the_setting_is_off() {
    let segments = [segment(BASE, true, &[free(20)]), segment(BASE + 64 * MIB, false, &[free(30)])];
    let (mut allocator, _) = restore("", &segments);
    let id = allocator.allocate(20 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(id).address, BASE + 64 * MIB);
    assert!(allocator.take_changes().is_empty());
}

#[test]
fn a_restored_expandable_segment_grows_at_its_end() {
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &[free(20)])]);
    let id = allocator.allocate(30 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(id).address, BASE);
    let changes: Vec<_> = allocator.take_changes().iter().map(|change| (change.address, change.size)).collect();
    assert_eq!(changes, [(BASE + 20 * MIB, 20 * MIB)]);
}

#[test]
fn a_request_beyond_the_address_space_of_a_restored_segment_gets_its_own() {
    let (mut allocator, _) = restore("expandable_segments:True", &[segment(BASE, true, &[allocated(20)])]);
    let id = allocator.allocate((1 << 44) - 10 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_ne!(allocator.block(id).address, BASE + 20 * MIB);
}

#[test]
fn a_range_behind_the_address_space_of_another_has_its_own() {
    let second = BASE + (1 << 44);
    let ranges = [segment(BASE, true, &[allocated(1 << 23)]), segment(second, true, &[free(20)])];
    let (mut allocator, _) = restore("expandable_segments:True", &ranges);
    let id = allocator.allocate((1 << 43) + 40 * MIB, 0, MempoolId::DEFAULT).unwrap();
    assert_eq!(allocator.block(id).address, second);
}
