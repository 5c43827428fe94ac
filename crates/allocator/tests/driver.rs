//! The simulated GPU: memory that runs out, and the addresses a process sees.

use vramfit_allocator::{Driver, SimulatedDriver};

const MIB: u64 = 1 << 20;

#[test]
fn memory_runs_out_and_comes_back() {
    let mut driver = SimulatedDriver::new(100 * MIB);
    let address = driver.allocate(60 * MIB).unwrap();
    assert_eq!(driver.allocate(41 * MIB), None);
    assert!(driver.map(0, 40 * MIB));
    assert!(!driver.map(0, 2 * MIB));
    driver.unmap(0, 40 * MIB);
    driver.free(address, 60 * MIB);
    assert!(driver.allocate(100 * MIB).is_some());
}

#[test]
fn a_refused_request_takes_nothing() {
    let mut driver = SimulatedDriver::unlimited();
    assert_eq!(driver.allocate((1 << 62) + 1), None, "no such address");
    assert_eq!(driver.allocate(u64::MAX - 1), None);
    assert!(driver.allocate(20 * MIB).is_some());
    let capacity = 3 << 61;
    let mut driver = SimulatedDriver::new(capacity);
    assert_eq!(driver.allocate((1 << 62) + 1), None, "no such address, though there is memory");
    assert!(driver.map(0, capacity), "all of the memory is still there");
}

#[test]
fn segments_begin_at_multiples_of_two_mebibytes() {
    let mut driver = SimulatedDriver::unlimited();
    let first = driver.allocate(3 * MIB).unwrap();
    assert_eq!(driver.allocate(2 * MIB), Some(first + 4 * MIB));
    driver.free(first, 3 * MIB);
    assert_eq!(driver.allocate(4 * MIB), Some(first), "all of the 4 MiB are free again");
}

#[test]
fn an_expandable_segment_gets_an_eighth_more_addresses_than_the_gpu_has_memory() {
    let mut driver = SimulatedDriver::new(80 << 30);
    let (first, span) = driver.reserve_addresses(20 * MIB);
    assert_eq!(span, (90u64 << 30).next_multiple_of(20 * MIB));
    let (second, _) = driver.reserve_addresses(2 * MIB);
    assert!(second + (90 << 30) <= first, "address spaces do not overlap");
    assert_eq!(SimulatedDriver::unlimited().reserve_addresses(2 * MIB).1, 1 << 40);
    assert_eq!(SimulatedDriver::unlimited().reserve_addresses(0).1, 1 << 40);
    assert_eq!(SimulatedDriver::new(1 << 40).reserve_addresses(2 * MIB).1, 1 << 40);
}

#[test]
fn a_new_process_has_two_holes_in_the_chunks_of_its_context() {
    let mut driver = SimulatedDriver::in_process(80 << 30);
    let first = driver.allocate(2 * MIB).unwrap();
    let second = driver.allocate(24 * MIB).unwrap();
    assert_eq!(second - first, (2 + 96 - 24) * MIB, "at the ends of the first and the second chunk");
    let third = driver.allocate(2 * MIB).unwrap();
    assert_eq!(first - third, (414 + 32) * MIB, "a new chunk is below the context");
}

#[test]
fn grown_local_memory_leaves_its_old_place_free() {
    let mut driver = SimulatedDriver::in_process(80 << 30);
    let hole = driver.allocate(2 * MIB).unwrap();
    driver.grow_local_memory();
    assert_eq!(driver.allocate(6 * MIB), Some(hole - 420 * MIB), "it takes 506 MiB of a chunk of 512");
    assert_eq!(driver.allocate(40 * MIB), Some(hole - 414 * MIB), "the lowest hole that fits is the old one");
}

#[test]
fn what_a_library_takes_is_not_counted_and_moves_later_segments() {
    let mut driver = SimulatedDriver::in_process(80 << 30);
    let mut other = driver.clone();
    other.library_takes(MIB);
    let first = driver.allocate(2 * MIB).unwrap();
    assert_eq!(other.allocate(2 * MIB), Some(first + (2 + 96 - 24) * MIB), "the library has the first hole, rounded");
}

#[test]
fn addresses_of_large_freed_host_tensors_are_used_for_new_chunks() {
    let fill = |driver: &mut SimulatedDriver| {
        driver.library_takes(2 * MIB);
        driver.library_takes(24 * MIB);
    };
    let mut driver = SimulatedDriver::in_process(80 << 30);
    fill(&mut driver);
    let mut small = driver.clone();
    small.host_frees(63 * MIB);
    let mut large = driver.clone();
    large.host_frees(512 * MIB);
    let below_context = driver.allocate(20 * MIB).unwrap();
    assert_eq!(small.allocate(20 * MIB), Some(below_context), "a chunk needs 32 MiB more room");
    assert_eq!(large.allocate(20 * MIB), Some((1 << 61) - 32 * MIB), "the gap is used from above");
}

#[test]
fn small_pinned_blocks_share_a_slab_and_large_ones_have_their_own_place() {
    let mut driver = SimulatedDriver::in_process(80 << 30);
    let mut other = driver.clone();
    driver.pins_host_memory(4);
    driver.pins_host_memory(MIB);
    driver.pins_host_memory(4 * MIB);
    driver.pins_host_memory(MIB - 512);
    other.library_takes(2 * MIB);
    other.library_takes(4 * MIB);
    assert_eq!(driver.allocate(2 * MIB), other.allocate(2 * MIB));
    driver.pins_host_memory(1);
    other.library_takes(2 * MIB);
    assert_eq!(driver.allocate(2 * MIB), other.allocate(2 * MIB), "the first slab is full");
}

#[test]
fn revealed_address_space_is_used_from_below() {
    let mut driver = SimulatedDriver::unlimited();
    driver.reveal(1 << 40, (1 << 40) + 64 * MIB);
    assert_eq!(driver.allocate(20 * MIB), Some(1 << 40));
    driver.reveal((1 << 40) - 32 * MIB, (1 << 40) + 96 * MIB);
    assert_eq!(driver.allocate(30 * MIB), Some((1 << 40) - 32 * MIB), "what is used already is not free again");
    assert_eq!(driver.allocate(44 * MIB), Some((1 << 40) + 20 * MIB));
    assert_eq!(driver.allocate(64 * MIB), Some((1 << 40) - 96 * MIB), "then below the lowest");
}
