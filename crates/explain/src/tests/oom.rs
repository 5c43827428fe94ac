//! Allocations that failed, and what would have helped.

use vramfit_allocator::Settings;
use vramfit_trace::snapshot::Snapshot;

use super::{MIB, explained, found, kinds, place, recorded};
use crate::explain;
use crate::findings::{Cause, Details, OutOfMemory};
use crate::synthetic::{Program, Training};
use crate::{Explanation, Finding};

const CAP: u64 = 600 * MIB;

/// Fills the cap with pieces of 60 MiB, cuts a small block off each that stays, and requests more than one piece.
fn pinned() -> Snapshot {
    let mut program = Program::under(Settings { cap: Some(CAP), ..Settings::default() });
    let large = program.stack(&[("model.py", 10, "forward"), ("train.py", 5, "main")]);
    let small = program.stack(&[("hooks.py", 3, "collect"), ("train.py", 5, "main")]);
    let buffers: Vec<_> = (0..10).map(|_| program.allocate(60 * MIB, large)).collect();
    program.free_all(buffers);
    let mut rests = Vec::new();
    for _ in 0..10 {
        program.allocate(2 * MIB, small);
        rests.push(program.allocate(58 * MIB, large));
    }
    program.free_all(rests);
    assert!(program.try_allocate(128 * MIB, large).is_none(), "it is refused");
    program.snapshot()
}

fn oom(explanation: &Explanation) -> (&Finding, &OutOfMemory) {
    let [finding] = found(explanation, "oom")[..] else { panic!("one, found {:?}", kinds(explanation)) };
    let Details::Oom(oom) = &finding.details else { panic!("out of memory") };
    (finding, oom)
}

#[test]
fn a_refusal_for_want_of_one_piece_names_who_pins_and_what_would_help() {
    let snapshot = pinned();
    let explanation = explained(&snapshot);
    let (finding, oom) = oom(&explanation);
    assert_eq!((finding.bytes, oom.cause, oom.is_reproduced), (128 * MIB, Cause::Fragmented, true));
    assert_eq!((oom.limit.least, oom.limit.most), (CAP, CAP + 128 * MIB - 1));
    assert_eq!(oom.pinned.largest_hole, 58 * MIB);
    assert_eq!(place(&snapshot, oom.pinned.by[0].place).as_deref(), Some("hooks.py:3 in collect"));
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("model.py:10 in forward"));
    let served: Vec<&str> =
        oom.attempts.iter().filter(|attempt| attempt.is_served).map(|attempt| attempt.text.as_str()).collect();
    assert!(served.contains(&"expandable_segments:True"), "{served:?}");
}

#[test]
fn a_given_cap_replaces_the_bracket() {
    let explanation = explain(&pinned(), 0, &Settings::default(), Some(CAP));
    let (_, oom) = oom(&explanation);
    assert_eq!((oom.limit.least, oom.limit.most, oom.limit.is_given), (CAP, CAP, true));
}

#[test]
fn where_too_much_is_held_no_setting_helps() {
    let mut program = Program::under(Settings { cap: Some(CAP), ..Settings::default() });
    let stack = program.stack(&[("train.py", 5, "main")]);
    while program.try_allocate(60 * MIB, stack).is_some() {}
    let explanation = explained(&program.snapshot());
    let (_, oom) = oom(&explanation);
    assert_eq!((oom.cause, oom.allocated, oom.reserved), (Cause::TooMuch, CAP, CAP));
    assert!(oom.attempts.iter().all(|attempt| !attempt.is_served), "{:?}", oom.attempts);
}

#[test]
fn a_full_device_is_the_limit_itself() {
    let mut program = Program::under(Settings { cap: Some(CAP), ..Settings::default() });
    program.device_free = 3 * MIB;
    let stack = program.stack(&[("train.py", 5, "main")]);
    while program.try_allocate(60 * MIB, stack).is_some() {}
    let explanation = explained(&program.snapshot());
    let (_, oom) = oom(&explanation);
    assert_eq!((oom.limit.least, oom.limit.most), (CAP + 3 * MIB, CAP + 3 * MIB));
}

#[test]
fn a_run_that_went_well_has_none_unless_a_cap_says_so() {
    let training = recorded(&Training::default());
    assert!(found(&explained(&training), "oom").is_empty());
    let explanation = explain(&training, 0, &Settings::default(), Some(60 * MIB));
    let (_, oom) = oom(&explanation);
    assert_eq!((oom.device_free, oom.count), (None, 0));
}
