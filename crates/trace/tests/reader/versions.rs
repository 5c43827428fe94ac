//! Files as other versions of PyTorch write them: keys left out, keys added, older shapes.

use vramfit_trace::read::read_bytes;
use vramfit_trace::snapshot::{Action, BlockState, PoolId, Snapshot, StackId};

use crate::pickler::{BASE, Python, block, dict, entry, frame, list, segment, snapshot};

#[track_caller]
fn read(python: &Python) -> Snapshot {
    match read_bytes(&python.pickle()) {
        Ok(snapshot) => snapshot,
        Err(error) => panic!("{error}"),
    }
}

/// The snapshot, with `change` made to every trace entry.
fn with_entries(change: impl Fn(&mut Python)) -> Snapshot {
    let mut python = snapshot();
    let Python::List(entries) = python.at("device_traces").item(0) else { unreachable!() };
    entries.iter_mut().for_each(change);
    read(&python)
}

#[test]
fn the_unaltered_file_is_read() {
    let read = read(&snapshot());
    assert_eq!(read.devices[0].events.len(), 7);
    assert_eq!(read.devices[0].events[5].address, 123);
    assert_eq!(read.devices[0].segments[0].blocks.len(), 2);
    assert_eq!(read.stacks.len(), 3);
}

#[test]
fn torch_2_1_without_annotations_times_contexts_and_pools_is_read() {
    let mut python = snapshot();
    python.remove("external_annotations");
    python.walk(&mut |value| {
        if matches!(value, Python::Dict(_)) {
            for key in ["time_us", "compile_context", "user_metadata", "pool_id"] {
                value.remove(key);
            }
        }
    });
    let read = read(&python);
    assert_eq!(read.devices[0].events.len(), 7);
    assert!(read.devices[0].events.iter().all(|event| event.time_us == 0 && event.pool == PoolId::DEFAULT));
    assert!(read.annotations.is_empty());
}

#[test]
fn torch_2_0_blocks_without_addresses_lie_one_after_the_other_and_their_history_gives_size_and_frames() {
    let history =
        list([dict([("addr", BASE.into()), ("real_size", 321.into()), ("frames", list([frame("old.py", "old", 3)]))])]);
    let mut used = dict([("size", 512.into()), ("state", "active_allocated".into())]);
    used.add("history", history);
    let free = dict([("size", ((2 << 20) - 512).into()), ("state", "inactive".into())]);
    let mut python = snapshot();
    *python.at("segments").item(0).at("blocks") = list([used, free]);
    let read = read(&python);
    let blocks = &read.devices[0].segments[0].blocks;
    assert_eq!((blocks[0].address, blocks[0].requested_size), (BASE as u64, 321));
    assert_eq!((blocks[1].address, blocks[1].requested_size), (BASE as u64 + 512, (2 << 20) - 512));
    assert_eq!(read.stacks.frames(blocks[0].stack).next().unwrap().line, 3);
    assert_eq!(blocks[1].stack, StackId::NONE);
}

#[test]
fn the_oldest_segments_with_device_address_sizes_and_type_alone_are_read() {
    let oldest = dict([
        ("device", 1.into()),
        ("address", BASE.into()),
        ("total_size", (20 << 20).into()),
        ("allocated_size", 0.into()),
        ("active_size", 0.into()),
        ("segment_type", "large".into()),
        ("blocks", list([dict([("size", (20 << 20).into()), ("state", "inactive".into())])])),
    ]);
    let read = read(&list([oldest]));
    assert_eq!(read.devices.len(), 2);
    let segment = &read.devices[1].segments[0];
    assert_eq!((segment.stream, segment.pool, segment.is_expandable), (0, PoolId::DEFAULT, false));
    assert_eq!(segment.stack, StackId::NONE);
}

#[test]
fn a_segment_without_a_type_is_small_when_it_has_the_small_size() {
    let mut small = segment(BASE, 2 << 20, vec![]);
    let mut large = segment(BASE + (1 << 30), 20 << 20, vec![]);
    small.remove("segment_type");
    large.remove("segment_type");
    let read = read(&list([small, large]));
    let are_small: Vec<bool> = read.devices[0].segments.iter().map(|segment| segment.is_small).collect();
    assert_eq!(are_small, [true, false]);
}

#[test]
fn a_segment_without_blocks_or_with_none_is_read() {
    let mut without = segment(BASE, 2 << 20, vec![]);
    without.remove("blocks");
    let with_none = segment(BASE + (4 << 20), 2 << 20, vec![]);
    let read = read(&list([without, with_none]));
    assert!(read.devices[0].segments.iter().all(|segment| segment.blocks.is_empty()));
}

#[test]
fn active_awaiting_free_is_another_word_for_pending() {
    let read = read(&list([segment(BASE, 512, vec![block(BASE, 512, "active_awaiting_free")])]));
    assert_eq!(read.devices[0].segments[0].blocks[0].state, BlockState::PendingFree);
}

#[test]
fn unknown_keys_are_passed_over_everywhere() {
    let mut python = snapshot();
    python.walk(&mut |value| {
        if let Python::Dict(_) = value {
            value.add("added_in_2_15", list([dict([("deep", Python::Float(0.5))]), Python::None]));
        }
    });
    let read = read(&python);
    assert_eq!(read.devices[0].events.len(), 7);
    assert_eq!(read.devices[0].segments[0].blocks.len(), 2);
    assert_eq!(read.stacks.len(), 3);
    assert_eq!(read.settings.len(), 3);
    assert_eq!(read.annotations.len(), 1);
}

#[test]
fn keys_that_are_no_strings_are_passed_over() {
    let mut python = snapshot();
    python.walk(&mut |value| {
        if let Python::Dict(entries) = value {
            entries.push((Python::Int(1), Python::Int(2)));
            entries.push((Python::None, Python::Int(2)));
            entries.push((Python::Tuple(vec![]), Python::Int(2)));
        }
    });
    assert_eq!(read(&python).devices[0].events.len(), 7);
}

#[test]
fn forward_frames_and_fx_fields_are_passed_over() {
    let read = with_entries(|entry| {
        entry.add("forward_frames", list(["  File \"train.py\", line 3".into()]));
        entry.at("frames").item(0).add("fx_node_name", "linear_1");
        entry.at("frames").item(0).add("fx_original_trace", "trace");
    });
    assert_eq!(read.devices[0].events.len(), 7);
    assert_eq!(read.stacks.len(), 3);
}

#[test]
fn entries_without_frames_with_none_and_with_an_empty_list_have_the_empty_stack() {
    for change in [
        (|entry: &mut Python| entry.remove("frames")) as fn(&mut Python),
        |entry| *entry.at("frames") = Python::None,
        |entry| *entry.at("frames") = list([]),
    ] {
        let read = with_entries(change);
        assert!(read.devices[0].events.iter().all(|event| event.stack == StackId::NONE));
    }
}

#[test]
fn keys_in_another_order_give_the_same_snapshot() {
    let mut python = snapshot();
    let reference = read(&python);
    python.walk(&mut |value| {
        if let Python::Dict(entries) = value {
            entries.reverse();
        }
    });
    let reversed = read(&python);
    assert_eq!(reversed.devices[0].events.len(), reference.devices[0].events.len());
    for (event, expected) in reversed.devices[0].events.iter().zip(&reference.devices[0].events) {
        assert_eq!((event.action, event.address, event.size), (expected.action, expected.address, expected.size));
    }
}

#[test]
fn a_key_written_twice_has_its_last_value() {
    let read = with_entries(|entry| entry.add("size", 77));
    assert!(read.devices[0].events.iter().all(|event| event.size == 77));
}

#[test]
fn a_snapshot_entry_needs_neither_address_nor_size() {
    let bare = dict([("action", "snapshot".into())]);
    let read = read(&dict([("device_traces", list([list([bare])]))]));
    assert_eq!((read.devices[0].events[0].action, read.devices[0].events[0].size), (Action::Snapshot, 0));
}

#[test]
fn an_unknown_action_is_left_out_and_counted() {
    let read = read(&dict([(
        "device_traces",
        list([list([
            entry("alloc", BASE, 1),
            entry("workspace_snapshot", BASE, 1),
            entry("workspace_snapshot", BASE, 2),
            entry("free_requested", BASE, 1),
        ])]),
    )]));
    assert_eq!(read.devices[0].events.len(), 2);
    assert_eq!(read.unknown_actions, [("workspace_snapshot".to_owned(), 2)]);
}

#[test]
fn addresses_and_streams_cast_to_signed_numbers_are_read() {
    let read = with_entries(|entry| *entry.at("stream") = (-2).into());
    assert!(read.devices[0].events.iter().all(|event| event.stream == u64::MAX - 1));
}

#[test]
fn pools_may_be_lists_or_none() {
    let read_list = with_entries(|entry| *entry.at("pool_id") = list([1.into(), 2.into()]));
    assert!(read_list.devices[0].events.iter().all(|event| event.pool == PoolId(1, 2)));
    let read_none = with_entries(|entry| *entry.at("pool_id") = Python::None);
    assert!(read_none.devices[0].events.iter().all(|event| event.pool == PoolId::DEFAULT));
}

#[test]
fn a_frame_without_a_line_or_with_a_negative_one_has_line_zero() {
    let read = with_entries(|entry| {
        entry.at("frames").item(0).remove("line");
        *entry.at("frames").item(1).at("line") = (-1).into();
    });
    let lines: Vec<u32> = read.stacks.frames(read.devices[0].events[0].stack).map(|frame| frame.line).collect();
    assert_eq!(lines, [0, 0]);
}

#[test]
fn sections_that_are_missing_are_empty() {
    let only_segments = read(&dict([("segments", list([]))]));
    assert!(only_segments.devices.is_empty());
    let only_traces = read(&dict([("device_traces", list([list([]), list([])]))]));
    assert_eq!(only_traces.devices.len(), 2);
}

#[test]
fn sections_that_are_none_are_empty() {
    let read = read(&dict([
        ("segments", list([])),
        ("device_traces", Python::None),
        ("allocator_settings", Python::None),
        ("external_annotations", Python::None),
    ]));
    assert!(read.devices.is_empty() && read.settings.is_empty() && read.annotations.is_empty());
}

#[test]
fn a_gpu_that_only_has_segments_gets_its_place() {
    let mut third = segment(BASE, 2 << 20, vec![]);
    *third.at("device") = 3.into();
    let mut python = snapshot();
    let Python::List(segments) = python.at("segments") else { unreachable!() };
    segments.push(third);
    let read = read(&python);
    assert_eq!(read.devices.len(), 4);
    assert_eq!(read.devices[3].segments.len(), 1);
    assert!(read.devices[1].segments.is_empty() && read.devices[1].events.is_empty());
}

#[test]
fn a_stack_of_three_thousand_frames_in_several_batches_is_read_whole() {
    let mut bytes =
        b"\x80\x04}(\x8c\x0ddevice_traces]](}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02".to_vec();
    bytes.extend(b"\x8c\x06frames]");
    for batch in 0..3 {
        bytes.push(b'(');
        for line in 0..1000_u16 {
            bytes.extend(b"}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01x\x8c\x04lineM");
            bytes.extend((batch * 1000 + line).to_le_bytes());
            bytes.push(b'u');
        }
        bytes.push(b'e');
    }
    bytes.extend(b"ueau.");
    let read = read_bytes(&bytes).unwrap();
    let lines: Vec<u32> = read.stacks.frames(read.devices[0].events[0].stack).map(|frame| frame.line).collect();
    assert!(lines.iter().copied().eq(0..3000));
}

#[test]
fn settings_of_every_type_are_kept() {
    use vramfit_trace::snapshot::Setting;
    let mut python = snapshot();
    *python.at("allocator_settings") = dict([
        ("nothing", Python::None),
        ("list", list([1.into(), "two".into()])),
        ("tuple", Python::Tuple(vec![true.into()])),
    ]);
    let read = read(&python);
    assert_eq!(
        read.settings,
        [
            ("nothing".to_owned(), Setting::None),
            ("list".to_owned(), Setting::List(vec![Setting::Int(1), Setting::Text("two".to_owned())])),
            ("tuple".to_owned(), Setting::List(vec![Setting::Bool(true)])),
        ]
    );
}
