//! Memory reserved and not usable.

use vramfit_trace::snapshot::Snapshot;

use super::{MIB, explained, found, place};
use crate::findings::Details;
use crate::synthetic::Program;

/// Large buffers come and go; small ones made beside them stay, if `stays`, and pin what the large ones leave.
fn program(stays: bool) -> Snapshot {
    let mut program = Program::new();
    let large = program.stack(&[("model.py", 10, "forward"), ("train.py", 5, "main")]);
    let small = program.stack(&[("hooks.py", 3, "collect"), ("train.py", 5, "main")]);
    for round in 0..4u64 {
        let size = (40 + 20 * round) * MIB;
        let buffers: Vec<_> = (0..8).map(|_| program.allocate(size, large)).collect();
        program.free_all(buffers);
        let (mut beside, mut again) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            beside.push(program.allocate(2 * MIB, small));
            again.push(program.allocate(size - 2 * MIB, large));
        }
        program.free_all(again);
        if !stays {
            program.free_all(beside);
        }
        program.empty_cache();
    }
    program.snapshot()
}

#[test]
fn small_blocks_that_stay_pin_what_large_ones_leave() {
    let snapshot = program(true);
    let explanation = explained(&snapshot);
    let [finding] = found(&explanation, "fragmentation")[..] else { panic!("one finding") };
    let Details::Fragmentation(fragmentation) = &finding.details else { panic!("fragmentation") };
    assert_eq!(finding.bytes, explanation.reserved_peak.pinned);
    let pinning = fragmentation
        .pinned
        .by
        .iter()
        .find(|line| place(&snapshot, line.place).as_deref() == Some("hooks.py:3 in collect"));
    let pinning = pinning.expect("the line that pins");
    assert!(pinning.segments >= 3 && pinning.free > 100 * MIB, "{pinning:?}");
    let best = &fragmentation.gains[0];
    assert_eq!(best.text, "expandable_segments:True");
    assert!(best.peak_reserved < fragmentation.replayed);
}

#[test]
fn the_same_program_that_lets_go_of_them_is_not_fragmented() {
    assert!(found(&explained(&program(false)), "fragmentation").is_empty());
}

/// Whole segments that nothing uses: the cache of buffers that vary in size.
#[test]
fn free_segments_are_a_cache_and_no_fragmentation() {
    let mut program = Program::new();
    let large = program.stack(&[("model.py", 10, "forward"), ("train.py", 5, "main")]);
    for round in 0..6u64 {
        let buffers: Vec<_> = (0..2).map(|_| program.allocate((40 + 20 * round) * MIB, large)).collect();
        program.free_all(buffers);
    }
    let explanation = explained(&program.snapshot());
    let peak = explanation.reserved_peak;
    assert!(peak.stranded() > 300 * MIB, "{peak:?}");
    assert_eq!(peak.pinned, 0);
    assert!(found(&explanation, "fragmentation").is_empty());
}
