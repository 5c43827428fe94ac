//! Files that CPython's pickler wrote (`tests/data/make.py`).

use vramfit_trace::read::{read_bytes, read_file};
use vramfit_trace::snapshot::{Action, BlockState, PoolId, Setting, Snapshot, StackId};

const BASE: u64 = 0x7f2a_4000_0000;
const TIME: i64 = 1_760_000_000_000_000;

fn data(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> Snapshot {
    read_file(data(name), &mut |_, _| {}).unwrap()
}

fn functions(snapshot: &Snapshot, stack: StackId) -> Vec<&str> {
    snapshot.stacks.frames(stack).map(|frame| snapshot.strings.get(frame.function)).collect()
}

#[test]
fn all_nine_actions_are_read_with_their_numbers() {
    let snapshot = read("protocol4.pickle");
    let events = &snapshot.devices[0].events;
    let rows: Vec<(Action, u64, u64)> = events.iter().map(|event| (event.action, event.address, event.size)).collect();
    assert_eq!(
        rows,
        [
            (Action::SegmentAlloc, BASE, 2 << 20),
            (Action::Alloc, BASE, 1000),
            (Action::Alloc, BASE + 1024, 512),
            (Action::FreeRequested, BASE + 1024, 512),
            (Action::FreeCompleted, BASE + 1024, 512),
            (Action::SegmentMap, BASE + (1 << 30), 20 << 20),
            (Action::SegmentUnmap, BASE + (1 << 30), 20 << 20),
            (Action::Oom, 123_456_789, 8 << 30),
            (Action::SegmentFree, BASE + (2 << 30), 20 << 20),
            (Action::Snapshot, 0, 0),
        ]
    );
    assert!(events.iter().enumerate().all(|(index, event)| event.time_us == TIME + index as i64));
    assert!(snapshot.unknown_actions.is_empty());
}

#[test]
fn stacks_are_read_innermost_first_and_equal_ones_share_an_id() {
    let snapshot = read("protocol4.pickle");
    let events = &snapshot.devices[0].events;
    assert_eq!(
        functions(&snapshot, events[0].stack),
        ["at::detail::empty_cuda(at::TensorBase const&)", "forward", "step", "main"]
    );
    assert_eq!(events[0].stack, events[1].stack);
    assert_eq!(events[0].stack, events[3].stack);
    assert_eq!(functions(&snapshot, events[2].stack).len(), 3);
    assert_eq!(events[5].stack, StackId::NONE);
    assert_eq!(events[6].stack, StackId::NONE);
    let lines: Vec<u32> = snapshot.stacks.frames(events[0].stack).map(|frame| frame.line).collect();
    assert_eq!(lines, [0, 125, 12, 40]);
    let innermost = snapshot.stacks.frames(events[0].stack).next_back().unwrap();
    assert_eq!(snapshot.strings.get(innermost.file), "train.py");
}

#[test]
fn notes_are_joined_and_not_applicable_is_no_note() {
    let snapshot = read("protocol4.pickle");
    let notes: Vec<&str> =
        snapshot.devices[0].events[..6].iter().map(|event| snapshot.strings.get(event.note)).collect();
    assert_eq!(notes, ["", "embedding", "Torch-Compiled Region: 0/0", "", "", "b; a"]);
}

#[test]
fn pools_are_read_of_events_and_segments() {
    let snapshot = read("protocol4.pickle");
    assert_eq!(snapshot.devices[0].events[1].pool, PoolId::DEFAULT);
    assert_eq!(snapshot.devices[0].events[5].pool, PoolId(0, 7));
    assert_eq!(snapshot.devices[0].segments[0].pool, PoolId(0, 7));
}

#[test]
fn segments_come_by_device_and_in_address_order() {
    let snapshot = read("protocol4.pickle");
    assert_eq!(snapshot.devices.len(), 2);
    let first = &snapshot.devices[0].segments;
    assert_eq!(first.iter().map(|segment| segment.address).collect::<Vec<_>>(), [BASE - (1 << 30), BASE]);
    assert!(first[0].is_expandable && !first[0].is_small && first[0].stream == 5);
    assert!(!first[1].is_expandable && first[1].is_small && first[1].stream == 0);
    assert_eq!(functions(&snapshot, first[0].stack).len(), 4);
    assert_eq!(snapshot.devices[1].segments[0].blocks[0].requested_size, 2048);
    assert_eq!(snapshot.devices[1].events.len(), 1);
}

#[test]
fn blocks_are_read_with_their_states() {
    let snapshot = read("protocol4.pickle");
    let blocks = &snapshot.devices[0].segments[1].blocks;
    let rows: Vec<_> = blocks.iter().map(|block| (block.address - BASE, block.size, block.state)).collect();
    assert_eq!(
        rows,
        [
            (0, 1024, BlockState::Allocated),
            (1024, 512, BlockState::PendingFree),
            (1536, (2 << 20) - 1536, BlockState::Free)
        ]
    );
    assert_eq!(blocks[0].requested_size, 1000);
    assert_eq!(blocks[0].stack, snapshot.devices[0].events[0].stack);
    assert_eq!(blocks[1].stack, StackId::NONE);
}

#[test]
fn settings_and_annotations_are_read_as_they_are() {
    let snapshot = read("protocol4.pickle");
    let setting = |name: &str| &snapshot.settings.iter().find(|(known, _)| known == name).unwrap().1;
    assert_eq!(setting("PYTORCH_CUDA_ALLOC_CONF"), &Setting::Text("expandable_segments:True".to_owned()));
    assert_eq!(setting("max_split_size"), &Setting::Int(-1));
    assert_eq!(setting("garbage_collection_threshold"), &Setting::Float(0.5));
    assert_eq!(setting("expandable_segments"), &Setting::Bool(true));
    let divisions = vec![("1".to_owned(), Setting::Int(0)), ("2".to_owned(), Setting::Int(4))];
    assert_eq!(setting("roundup_power2_divisions"), &Setting::Map(divisions));
    let words: Vec<(&str, &str, i64)> = snapshot
        .annotations
        .iter()
        .map(|mark| (snapshot.strings.get(mark.name), snapshot.strings.get(mark.stage), mark.time_us - TIME))
        .collect();
    assert_eq!(words, [("ProfilerStep#1", "START", 0), ("ProfilerStep#1", "END", 9)]);
}

#[test]
fn every_protocol_and_gzip_give_the_same_snapshot() {
    let reference = read("protocol4.pickle");
    for name in ["protocol2.pickle", "protocol3.pickle", "protocol5.pickle", "protocol4.pickle.gz"] {
        let snapshot = read(name);
        assert_eq!(snapshot.devices, reference.devices, "{name}");
        assert_eq!(snapshot.settings, reference.settings, "{name}");
        assert_eq!(snapshot.annotations, reference.annotations, "{name}");
    }
}

#[test]
fn bytes_and_file_give_the_same_snapshot() {
    for name in ["protocol4.pickle", "protocol4.pickle.gz"] {
        let bytes = std::fs::read(data(name)).unwrap();
        assert_eq!(read_bytes(&bytes).unwrap().devices, read(name).devices);
    }
}

#[test]
fn a_bare_list_of_segments_is_a_snapshot_without_traces() {
    let snapshot = read("segments_only.pickle");
    assert_eq!(snapshot.devices[0].segments, read("protocol4.pickle").devices[0].segments);
    assert!(snapshot.devices.iter().all(|device| device.events.is_empty()));
    assert!(snapshot.settings.is_empty() && snapshot.annotations.is_empty());
}

#[test]
fn progress_ends_at_the_length_of_the_file_plain_and_gzip() {
    for name in ["protocol4.pickle", "protocol4.pickle.gz"] {
        let length = std::fs::metadata(data(name)).unwrap().len();
        let mut last = (0, 0);
        read_file(data(name), &mut |done, total| {
            assert!(done >= last.0, "progress goes on");
            last = (done, total);
        })
        .unwrap();
        assert_eq!(last, (length, length));
    }
}
