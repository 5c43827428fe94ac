//! Files made to take for ever or to take all memory. Each would, were its attack not seen to; here each must end at once.

use vramfit_trace::read::{ReadError, read_bytes};

use crate::bad_gzip::compress;

fn text(text: &str) -> Vec<u8> {
    [&[0x8c, text.len() as u8], text.as_bytes()].concat()
}

#[test]
fn a_million_nested_lists_are_no_recursion() {
    let bytes = [b"\x80\x04".as_slice(), &vec![b']'; 1_000_000], &vec![b'a'; 999_999], b"."].concat();
    let error = read_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "snapshot[0]: expected a segment, found list");
}

#[test]
fn a_million_nested_tuples_are_no_recursion() {
    let bytes = [b"\x80\x04)".as_slice(), &vec![0x85; 1_000_000], b"."].concat();
    assert!(matches!(read_bytes(&bytes), Err(ReadError::NotASnapshot { .. })));
}

#[test]
fn a_list_that_holds_itself_ends() {
    let error = read_bytes(b"\x80\x04]q\x00h\x00a.").unwrap_err();
    assert_eq!(error.to_string(), "snapshot[0]: expected a segment, found list");
}

#[test]
fn settings_that_hold_themselves_end() {
    let bytes = [
        b"\x80\x04}(".as_slice(),
        &text("segments"),
        b"]",
        &text("allocator_settings"),
        b"}q\x00",
        &text("self"),
        b"h\x00su.",
    ]
    .concat();
    assert!(matches!(read_bytes(&bytes), Err(ReadError::NestedTooDeeply { .. })));
}

#[test]
fn a_trace_that_holds_itself_ends() {
    let bytes = [b"\x80\x04}".as_slice(), &text("device_traces"), b"]q\x00h\x00as."].concat();
    let error = read_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "device_traces[0][0]: expected a trace entry, found list");
}

#[test]
fn billion_laughs_in_the_settings_end() {
    let mut bytes =
        [b"\x80\x04}(".as_slice(), &text("segments"), b"]", &text("allocator_settings"), b"}", &text("a"), b"]q\x00"]
            .concat();
    for level in 0..14_u8 {
        bytes.extend([b'0', b']', b'q', level + 1, b'(']);
        for _ in 0..10 {
            bytes.extend([b'h', level]);
        }
        bytes.push(b'e');
    }
    bytes.extend(b"su.");
    assert!(matches!(read_bytes(&bytes), Err(ReadError::SettingsTooLarge { .. })));
}

#[test]
fn one_segment_used_a_million_times_ends() {
    let mut bytes =
        [b"\x80\x04](}(".as_slice(), &text("address"), b"K\x00", &text("total_size"), b"M\x10\x27"].concat();
    bytes.extend([text("blocks"), b"](".to_vec()].concat());
    for _ in 0..10_000 {
        bytes.extend(
            [b"}(".to_vec(), text("size"), b"K\x01".to_vec(), text("state"), text("inactive"), b"u".to_vec()].concat(),
        );
    }
    bytes.extend(b"euq\x00");
    bytes.extend(b"h\x00".repeat(1_000_000));
    bytes.extend(b"e.");
    assert!(matches!(read_bytes(&bytes), Err(ReadError::SharedTooOften { .. })));
}

#[test]
fn one_trace_used_for_a_thousand_gpus_ends() {
    // Entries of unknown actions are not condensed, so that each use is a visit.
    let mut bytes = [b"\x80\x04}".as_slice(), &text("device_traces"), b"]("].concat();
    bytes.extend(b"](");
    for _ in 0..10_000 {
        bytes.extend([b"}(".to_vec(), text("action"), text("x"), text("y"), b"Nu".to_vec()].concat());
    }
    bytes.extend(b"eq\x00");
    bytes.extend(b"h\x00".repeat(1000));
    bytes.extend(b"es.");
    assert!(matches!(read_bytes(&bytes), Err(ReadError::SharedTooOften { .. })));
}

#[test]
fn one_entry_used_a_million_times_is_read_without_growing() {
    let mut bytes = [b"\x80\x04}".as_slice(), &text("device_traces"), b"](](}("].concat();
    bytes.extend([text("action"), text("snapshot")].concat());
    bytes.extend(b"uq\x00");
    bytes.extend(b"h\x00".repeat(1_000_000));
    bytes.extend(b"ees.");
    assert_eq!(read_bytes(&bytes).unwrap().devices[0].events.len(), 1_000_001);
}

#[test]
fn a_long_unsound_list_of_frames_shared_by_many_entries_is_tried_once() {
    let frame =
        [b"}(".to_vec(), text("name"), text("f"), text("filename"), text("x"), text("line"), b"K\x01u".to_vec()]
            .concat();
    let mut bytes = [b"\x80\x04}".as_slice(), &text("device_traces"), b"](]("].concat();
    bytes.extend([frame.as_slice(), b"q\x000](", &b"h\x00".repeat(500_000), b"Neq\x010"].concat());
    let entry = [
        b"}(".to_vec(),
        text("action"),
        text("alloc"),
        text("addr"),
        b"K\x01".to_vec(),
        text("size"),
        b"K\x01".to_vec(),
        text("frames"),
        b"h\x01u".to_vec(),
    ]
    .concat();
    bytes.extend(entry.repeat(20_000));
    bytes.extend(b"ees.");
    let error = read_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "device_traces[0][0].frames[500000]: expected a frame, found None");
}

#[test]
fn a_list_of_frames_that_grows_between_its_uses_is_refused() {
    let frame =
        [b"}(".to_vec(), text("name"), text("f"), text("filename"), text("x"), text("line"), b"K\x01u".to_vec()]
            .concat();
    let entry = [b"}(".to_vec(), text("action"), text("snapshot"), text("frames"), b"h\x01u".to_vec()].concat();
    let mut bytes = [b"\x80\x04](".as_slice(), &frame, b"q\x000]q\x010"].concat();
    for _ in 0..100_000 {
        bytes.extend([b"h\x01h\x00a0", entry.as_slice()].concat());
    }
    bytes.extend(b"e.");
    assert!(matches!(read_bytes(&bytes), Err(ReadError::ChangedAfterUse { .. })));
}

#[test]
fn a_million_marks_are_forgotten_one_by_one() {
    let bytes = [b"\x80\x04]".as_slice(), &vec![b'('; 1_000_000], &vec![b'0'; 1_000_000], b"."].concat();
    assert!(read_bytes(&bytes).unwrap().devices.is_empty());
}

#[test]
fn a_million_dups_are_taken_by_one_append() {
    let bytes = [b"\x80\x04](N".as_slice(), &vec![b'2'; 1_000_000], b"e."].concat();
    let error = read_bytes(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "snapshot[0]: expected a segment, found None");
}

#[test]
fn the_same_key_set_a_million_times_ends() {
    let mut bytes = [b"\x80\x04}(".as_slice(), &text("segments"), b"]"].concat();
    bytes.extend([text("x"), b"q\x00".to_vec(), b"N".to_vec()].concat());
    bytes.extend(b"h\x00N".repeat(1_000_000));
    bytes.extend(b"u.");
    assert!(read_bytes(&bytes).unwrap().devices.is_empty());
    let mut one_by_one = [b"\x80\x04}".as_slice(), &text("segments"), b"]s", &text("x"), b"q\x000"].concat();
    one_by_one.extend(b"h\x00Ns".repeat(1_000_000));
    one_by_one.push(b'.');
    assert!(read_bytes(&one_by_one).unwrap().devices.is_empty());
}

#[test]
fn a_memo_entry_replaced_between_uses_ends() {
    let mut bytes = [
        b"\x80\x04](}(".as_slice(),
        &text("name"),
        &text("f"),
        &text("filename"),
        &text("x"),
        &text("line"),
        b"K\x01uq\x000",
    ]
    .concat();
    for _ in 0..200_000 {
        bytes.extend(b"](h\x00h\x00e0h\x00q\x000");
    }
    bytes.extend(b"e.");
    assert!(read_bytes(&bytes).unwrap().devices.is_empty());
}

#[test]
fn a_million_unknown_actions_are_counted_by_word() {
    let mut bytes = [b"\x80\x04}".as_slice(), &text("device_traces"), b"](]("].concat();
    bytes.extend([b"}".to_vec(), text("action"), b"q\x00".to_vec(), text("w0"), b"s".to_vec()].concat());
    for number in 1..50_000 {
        bytes.extend([b"}h\x00".to_vec(), text(&format!("w{number}")), b"s".to_vec()].concat());
    }
    bytes.extend(b"ees.");
    let snapshot = read_bytes(&bytes).unwrap();
    assert_eq!(snapshot.unknown_actions.len(), 50_000);
}

#[test]
fn a_gzip_bomb_of_zeros_is_refused_by_its_first_byte() {
    let bytes = compress(&vec![0; 50_000_000]);
    assert!(matches!(read_bytes(&bytes), Err(ReadError::NotAPickle { .. })));
}

#[test]
fn a_gzip_bomb_of_empty_lists_is_refused_when_it_has_taken_its_share_of_memory() {
    let bomb = [b"\x80\x04".as_slice(), &vec![b']'; 40_000_000]].concat();
    let bytes = compress(&bomb);
    assert!(bytes.len() < 100_000);
    let error = read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::TooMuchMemory { .. }), "{error}");
    assert!(error.to_string().contains("bytes of the file may build"), "{error}");
}
