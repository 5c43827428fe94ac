//! Sound pickles that are no sound snapshots: one test per way, each error saying where.

use vramfit_trace::read::read_bytes;

use crate::pickler::{BASE, Python, block, dict, entry, frame, list, segment, snapshot};

#[track_caller]
fn check(python: &Python, message: &str) {
    let error = read_bytes(&python.pickle()).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(error.hint().is_some());
}

/// The error after a change to the sound snapshot.
#[track_caller]
fn check_changed(change: impl FnOnce(&mut Python), message: &str) {
    let mut python = snapshot();
    change(&mut python);
    check(&python, message);
}

const NEEDED: &str = "a dict with `segments` or `device_traces`, or a list of segments, was needed";

#[test]
fn another_pickle_is_no_snapshot() {
    check(&1.into(), &format!("the pickle holds int; {NEEDED}"));
    check(&"x".into(), &format!("the pickle holds str; {NEEDED}"));
    check(&dict([]), &format!("the pickle holds an empty dict; {NEEDED}"));
    let state = dict([("model", 1.into()), ("optimizer", 2.into())]);
    check(&state, &format!("the pickle holds a dict with the keys `model`, `optimizer`; {NEEDED}"));
    check(&entry("alloc", 1, 2), &format!("the pickle holds a single trace entry or frame; {NEEDED}"));
    let many = Python::Dict((0..9).map(|number| (Python::Int(number), Python::None)).collect());
    check(&many, &format!("the pickle holds a dict with the keys int, int, int, int, int and others; {NEEDED}"));
}

#[test]
fn sections_of_the_wrong_type_are_named() {
    check_changed(|python| *python.at("segments") = 5.into(), "segments: expected a list, found int");
    check_changed(|python| *python.at("device_traces") = "x".into(), "device_traces: expected a list, found str");
    check_changed(
        |python| *python.at("device_traces").item(0) = dict([]),
        "device_traces[0]: expected a list, found dict",
    );
    check_changed(
        |python| *python.at("allocator_settings") = 5.into(),
        "allocator_settings: expected a dict, found int",
    );
    check_changed(
        |python| *python.at("external_annotations") = 5.into(),
        "external_annotations: expected a list, found int",
    );
    check_changed(
        |python| *python.at("external_annotations").item(0) = 5.into(),
        "external_annotations[0]: expected an annotation, found int",
    );
}

#[test]
fn items_of_the_wrong_type_are_named() {
    check_changed(|python| *python.at("segments").item(0) = 5.into(), "segments[0]: expected a segment, found int");
    check_changed(
        |python| *python.at("segments").item(0) = entry("alloc", 1, 2),
        "segments[0]: expected a segment, found trace entry",
    );
    check_changed(
        |python| *python.at("segments").item(0).at("blocks").item(1) = Python::None,
        "segments[0].blocks[1]: expected a block, found None",
    );
    check_changed(
        |python| *python.at("device_traces").item(0).item(3) = Python::None,
        "device_traces[0][3]: expected a trace entry, found None",
    );
    check_changed(
        |python| *python.at("device_traces").item(0).item(3) = frame("a", "b", 1),
        "device_traces[0][3]: expected a trace entry, found frame",
    );
    check_changed(
        |python| *python.at("device_traces").item(0) = list([frame("a", "b", 1)]),
        "device_traces[0]: expected a list, found list of frames",
    );
}

#[test]
fn a_field_of_a_trace_entry_of_the_wrong_type_is_named() {
    let change = |key: &'static str, value: Python, message: &str| {
        check_changed(|python| *python.at("device_traces").item(0).item(2).at(key) = value, message);
    };
    change("size", "big".into(), "device_traces[0][2].size: expected a whole number, found str");
    change("size", (-1).into(), "device_traces[0][2].size: found -1, expected a number of bytes, 0 or more");
    change("addr", Python::Float(0.5), "device_traces[0][2].addr: expected a whole number, found float");
    change("stream", Python::None, "device_traces[0][2].stream: expected a whole number, found None");
    change("time_us", list([]), "device_traces[0][2].time_us: expected a whole number, found list");
    change("action", 1.into(), "device_traces[0][2].action: expected a str, found int");
    change("compile_context", 1.into(), "device_traces[0][2].compile_context: expected a str, found int");
    change("user_metadata", true.into(), "device_traces[0][2].user_metadata: expected a str, found bool");
    change("pool_id", 1.into(), "device_traces[0][2].pool_id: expected a pair of whole numbers, found int");
    change("pool_id", list([1.into()]), "device_traces[0][2].pool_id: found 1, expected 2 items");
    change(
        "pool_id",
        Python::Tuple(vec![0.into(), "x".into()]),
        "device_traces[0][2].pool_id[1]: expected a whole number, found str",
    );
    change("frames", 1.into(), "device_traces[0][2].frames: expected a list of frames, found int");
    change("frames", list([1.into()]), "device_traces[0][2].frames[0]: expected a frame, found int");
    change(
        "frames",
        list([frame("a", "b", 1), dict([("line", "x".into())])]),
        "device_traces[0][2].frames[1].line: expected a whole number, found str",
    );
}

#[test]
fn a_trace_entry_without_what_it_needs_is_refused() {
    for key in ["action", "addr", "size"] {
        check_changed(
            |python| python.at("device_traces").item(0).item(1).remove(key),
            &format!("device_traces[0][1]: the key `{key}` is missing"),
        );
    }
}

#[test]
fn the_first_bad_entry_is_named_though_sound_ones_follow() {
    check_changed(
        |python| {
            *python.at("device_traces").item(0).item(1).at("size") = "x".into();
            *python.at("device_traces").item(0).item(4).at("size") = "x".into();
        },
        "device_traces[0][1].size: expected a whole number, found str",
    );
}

#[test]
fn a_field_of_a_segment_of_the_wrong_type_is_named() {
    let change = |key: &'static str, value: Python, message: &str| {
        check_changed(|python| *python.at("segments").item(0).at(key) = value, message);
    };
    change("device", "cuda:0".into(), "segments[0].device: expected a whole number, found str");
    change("address", Python::None, "segments[0].address: expected a whole number, found None");
    change("total_size", "x".into(), "segments[0].total_size: expected a whole number, found str");
    change("stream", "x".into(), "segments[0].stream: expected a whole number, found str");
    change("is_expandable", 1.into(), "segments[0].is_expandable: expected a bool, found int");
    change("segment_type", 1.into(), "segments[0].segment_type: expected a str, found int");
    change("segment_type", "tiny".into(), "segments[0].segment_type: found `tiny`, expected `small` or `large`");
    change("blocks", 1.into(), "segments[0].blocks: expected a list, found int");
    change("frames", 1.into(), "segments[0].frames: expected a list of frames, found int");
}

#[test]
fn a_segment_without_address_or_size_is_refused() {
    for key in ["address", "total_size"] {
        check_changed(
            |python| python.at("segments").item(0).remove(key),
            &format!("segments[0]: the key `{key}` is missing"),
        );
    }
}

#[test]
fn a_gpu_number_that_cannot_be_is_refused() {
    for device in [-1, 1024, i64::MAX] {
        check_changed(
            |python| *python.at("segments").item(0).at("device") = device.into(),
            &format!("segments[0].device: found {device}, expected the number of a GPU, 0 to 1023"),
        );
    }
    let traces = Python::List(vec![list([]); 1025]);
    let expected = "device_traces: found 1025, expected a list for each GPU, at most 1024";
    check(&dict([("device_traces", traces)]), expected);
    let traces = Python::List(vec![list([]); 1024]);
    assert_eq!(read_bytes(&dict([("device_traces", traces)]).pickle()).unwrap().devices.len(), 1024);
}

#[test]
fn entries_are_in_the_order_of_their_list_and_not_in_that_of_the_pickle() {
    for count in [2i64, 3] {
        let entries: Vec<Python> = (0..count).map(|number| entry("alloc", 4096 + 512 * number, 512)).collect();
        let python = dict([("device_traces", vec![entries.into()].into())]);
        let snapshot = read_bytes(&python.pickle_with_entries_made_backwards()).unwrap();
        let addresses: Vec<i64> = snapshot.devices[0].events.iter().map(|event| event.address as i64).collect();
        assert_eq!(addresses, (0..count).map(|number| 4096 + 512 * number).collect::<Vec<_>>());
    }
}

#[test]
fn a_field_of_a_block_that_is_wrong_is_named() {
    let change = |key: &'static str, value: Python, message: &str| {
        check_changed(|python| *python.at("segments").item(0).at("blocks").item(1).at(key) = value, message);
    };
    change("size", "x".into(), "segments[0].blocks[1].size: expected a whole number, found str");
    change("requested_size", "x".into(), "segments[0].blocks[1].requested_size: expected a whole number, found str");
    change("state", 1.into(), "segments[0].blocks[1].state: expected a str, found int");
    change(
        "state",
        "lost".into(),
        "segments[0].blocks[1].state: found `lost`, expected `active_allocated`, `active_pending_free` or `inactive`",
    );
    for key in ["size", "state"] {
        check_changed(
            |python| python.at("segments").item(0).at("blocks").item(1).remove(key),
            &format!("segments[0].blocks[1]: the key `{key}` is missing"),
        );
    }
    check_changed(
        |python| python.at("segments").item(0).at("blocks").item(1).add("history", list([1.into()])),
        "segments[0].blocks[1].history[0]: expected a dict, found int",
    );
}

#[test]
fn blocks_that_leave_a_gap_overlap_or_do_not_fill_the_segment_are_refused() {
    let check_blocks = |blocks: Vec<Python>, message: &str| check(&list([segment(4096, 1024, blocks)]), message);
    let rule = "blocks must fill a segment";
    check_blocks(
        vec![block(4096, 256, "inactive"), block(5000, 120, "inactive")],
        &format!("snapshot[0].blocks[1]: the block begins or ends at address 0x1388, expected 0x1100: {rule}"),
    );
    check_blocks(
        vec![block(4096, 512, "inactive"), block(4096, 512, "inactive")],
        &format!("snapshot[0].blocks[1]: the block begins or ends at address 0x1000, expected 0x1200: {rule}"),
    );
    check_blocks(
        vec![block(4096, 512, "inactive")],
        &format!("snapshot[0].blocks[0]: the block begins or ends at address 0x1200, expected 0x1400: {rule}"),
    );
    check_blocks(
        vec![block(4096, 2048, "inactive")],
        &format!("snapshot[0].blocks[0]: the block begins or ends at address 0x1800, expected 0x1400: {rule}"),
    );
    check_blocks(
        vec![block(4096, 2048, "inactive"), block(6144, 512, "inactive")],
        &format!("snapshot[0].blocks[0]: the block begins or ends at address 0x1800, expected 0x1400: {rule}"),
    );
}

#[test]
fn a_segment_beyond_the_address_space_is_refused() {
    let python = list([segment(-4096, 8192, vec![])]);
    check(&python, "snapshot[0]: address 0xfffffffffffff000 and size 8192 pass the end of the address space");
}

#[test]
fn a_number_beyond_sixty_four_bits_is_refused_where_it_is_used() {
    let mut bytes = snapshot().pickle();
    let needle = [0x8a, 8].into_iter().chain((1_i64 << 40).to_le_bytes()).collect::<Vec<u8>>();
    let position = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    let huge = [[0x8a, 10].as_slice(), &[0xff; 9], &[0x00]].concat();
    bytes.splice(position..position + needle.len(), huge);
    let error = read_bytes(&bytes).unwrap_err();
    let expected = "device_traces[0][5].size: expected a whole number of 64 bits, found an int beyond 64 bits";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn settings_that_nest_too_deeply_are_refused() {
    let mut deep = Python::None;
    for _ in 0..100 {
        deep = list([deep]);
    }
    let mut python = snapshot();
    python.at("allocator_settings").add("deep", deep);
    let error = read_bytes(&python.pickle()).unwrap_err();
    let path = format!("allocator_settings.deep{}", "[0]".repeat(15));
    assert_eq!(error.to_string(), format!("{path}: more than 16 levels deep"));
}

#[test]
fn settings_that_are_too_large_are_refused() {
    let expected = "allocator_settings.long: the settings hold more than 16384 values or bytes of text";
    let mut python = snapshot();
    python.at("allocator_settings").add("long", "x".repeat(20_000).as_str());
    check(&python, expected);
    let mut python = snapshot();
    python.at("allocator_settings").add("long", Python::List(vec![Python::None; 20_000]));
    let error = read_bytes(&python.pickle()).unwrap_err();
    assert!(error.to_string().starts_with("allocator_settings.long["), "{error}");
}

#[test]
fn base_addresses_are_as_torch_gives_them() {
    assert_eq!(read_bytes(&snapshot().pickle()).unwrap().devices[0].segments[0].address, BASE as u64);
}

#[test]
fn sizes_that_no_gpu_has_are_refused() {
    let traces = |event: Python| dict([("device_traces", list([list([event])]))]);
    let expected = "expected bytes below 2^44 that end within the address space";
    check(
        &traces(entry("alloc", BASE, 1 << 62)),
        &format!("device_traces[0][0].size: found {}, {expected}", 1_i64 << 62),
    );
    check(
        &traces(entry("oom", BASE, 1 << 44)),
        &format!("device_traces[0][0].size: found {}, {expected}", 1_i64 << 44),
    );
}
