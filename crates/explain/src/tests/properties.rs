//! What holds of any recording, however odd.

use proptest::collection::vec;
use proptest::prelude::*;
use vramfit_allocator::Settings;
use vramfit_trace::snapshot::{
    Action, Block, BlockState, Device, Event, Frame, PoolId, Segment, Snapshot, StackId, StringId,
};

use super::explained;
use crate::history::OUTSIDE;
use crate::synthetic::Program;
use crate::{Explanation, explain};

const FILES: [&str; 7] = [
    "train.py",
    "model.py",
    "site-packages/torch/nn/modules/module.py",
    "site-packages/torch/optim/adam.py",
    "site-packages/torch/autograd/graph.py",
    "site-packages/transformers/trainer.py",
    "??",
];
const FUNCTIONS: [&str; 5] = ["main", "_call_impl", "step", "_engine_run_backward", "forward"];

#[derive(Clone, Debug)]
enum Deed {
    Allocate(u64, usize),
    Free(usize),
    EmptyCache,
    StartRecording,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        6 => (1u64..(40 << 20), 0usize..12).prop_map(|(size, stack)| Deed::Allocate(size, stack)),
        5 => (0usize..64).prop_map(Deed::Free),
        1 => Just(Deed::EmptyCache),
        1 => Just(Deed::StartRecording),
    ];
    vec(deed, 0..200)
}

fn stacks() -> impl Strategy<Value = Vec<Vec<(usize, u32, usize)>>> {
    vec(vec((0..FILES.len(), 1u32..5, 0..FUNCTIONS.len()), 0..6), 12)
}

fn play(deeds: &[Deed], stacks: &[Vec<(usize, u32, usize)>], repeats: usize, cap: Option<u64>) -> Snapshot {
    let mut program = Program::under(Settings { cap, ..Settings::default() });
    let ids: Vec<StackId> = stacks
        .iter()
        .map(|frames| {
            let places: Vec<_> =
                frames.iter().map(|&(file, line, function)| (FILES[file], line, FUNCTIONS[function])).collect();
            program.stack(&places)
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..repeats {
        for deed in deeds {
            match *deed {
                Deed::Allocate(size, stack) => held.extend(program.try_allocate(size, ids[stack])),
                Deed::Free(index) if !held.is_empty() => {
                    let index = index % held.len();
                    program.free(held.swap_remove(index));
                }
                Deed::Free(_) => {}
                Deed::EmptyCache => program.empty_cache(),
                Deed::StartRecording => program.start_recording(),
            }
        }
    }
    program.snapshot()
}

fn check(explanation: &Explanation) {
    let peak = &explanation.peak;
    let held: u64 = peak.holders.iter().map(|holder| holder.bytes).sum();
    assert_eq!(held, peak.allocated, "the holders hold the peak");
    assert!(explanation.history.allocated.iter().all(|&level| level <= peak.allocated));
    assert_eq!(explanation.roles.len(), explanation.history.lifetimes.len());
    assert!(explanation.steps.list.is_sorted_by_key(|step| step.first));
    assert!(explanation.steps.list.iter().all(|step| step.first < step.end));
    assert!(explanation.steps.list.windows(2).all(|pair| pair[0].end <= pair[1].first));
    for finding in &explanation.findings {
        assert!(finding.bytes > 0, "{finding:?}");
        assert!(finding.allocations.iter().all(|&index| (index as usize) < explanation.history.lifetimes.len()));
    }
    for lifetime in &explanation.history.lifetimes {
        assert!(lifetime.birth == OUTSIDE || lifetime.death > lifetime.birth);
    }
}

/// Events that no allocator ever wrote.
fn odd_event() -> impl Strategy<Value = Event> {
    (0..Action::ALL.len(), 0u64..40, 0u64..(64 << 20), 0u64..3, 0u32..6).prop_map(
        |(action, place, size, stream, stack)| Event {
            action: Action::ALL[action],
            address: place << 21,
            size,
            stream,
            pool: PoolId::DEFAULT,
            time_us: 0,
            stack: StackId(stack),
            note: StringId(0),
        },
    )
}

fn odd_snapshot() -> impl Strategy<Value = Snapshot> {
    let segment = (0u64..40, 1u64..20, vec((1u64..10, 0u8..3), 0..5));
    (vec(odd_event(), 0..200), vec(segment, 0..6)).prop_map(|(events, segments)| {
        let mut snapshot = Snapshot::default();
        for line in 0..5 {
            let file = snapshot.strings.intern(FILES[line as usize]);
            let function = snapshot.strings.intern(FUNCTIONS[line as usize]);
            let frame = snapshot.stacks.intern_frame(Frame { file, line, function });
            snapshot.stacks.intern_stack(&[frame]);
        }
        let mut laid: Vec<Segment> = Vec::new();
        let mut address = 0;
        for (gap, size, blocks) in segments {
            address += gap << 21;
            laid.push(odd_segment(address, size << 21, &blocks));
            address += size << 21;
        }
        snapshot.devices = vec![Device { events, segments: laid }];
        snapshot
    })
}

fn odd_segment(address: u64, total_size: u64, blocks: &[(u64, u8)]) -> Segment {
    let mut at = address;
    let mut laid = Vec::new();
    for &(share, state) in blocks {
        let size = (total_size / 10 * share / 512 * 512).max(512).min(address + total_size - at);
        if size == 0 {
            break;
        }
        let state = [BlockState::Allocated, BlockState::PendingFree, BlockState::Free][state as usize];
        laid.push(Block { address: at, size, requested_size: size, state, stack: StackId(0) });
        at += size;
    }
    Segment {
        address,
        total_size,
        stream: 0,
        is_small: false,
        is_expandable: false,
        pool: PoolId::DEFAULT,
        stack: StackId(0),
        blocks: laid,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_program_is_explained(deeds in deeds(), stacks in stacks(), repeats in 1usize..5) {
        let snapshot = play(&deeds, &stacks, repeats, None);
        let explanation = explained(&snapshot);
        if !deeds.iter().any(|deed| matches!(deed, Deed::StartRecording)) {
            prop_assert_eq!(explanation.history.mismatches, 0);
        }
        check(&explanation);
    }

    #[test]
    fn any_program_that_runs_out_of_memory_is_explained(deeds in deeds(), stacks in stacks(), cap in (20u64 << 20)..(200 << 20)) {
        let snapshot = play(&deeds, &stacks, 2, Some(cap));
        check(&explained(&snapshot));
        check(&explain(&snapshot, 0, &Settings::default(), Some(cap)));
    }

    #[test]
    fn events_that_make_no_sense_are_survived(snapshot in odd_snapshot()) {
        check(&explained(&snapshot));
    }

    #[test]
    fn explaining_twice_finds_the_same(deeds in deeds(), stacks in stacks()) {
        let snapshot = play(&deeds, &stacks, 3, None);
        let findings = |explanation: &Explanation| format!("{:?}", explanation.findings);
        prop_assert_eq!(findings(&explained(&snapshot)), findings(&explained(&snapshot)));
    }
}
