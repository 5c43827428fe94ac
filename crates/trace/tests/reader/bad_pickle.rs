//! Files that are no sound pickles: one test per way.

use vramfit_trace::read::{ReadError, read_bytes, read_file};

use crate::pickler::snapshot;
use crate::sound::read_any;

/// The error that a pickle with this body gives.
#[track_caller]
fn refuse(body: &[u8]) -> ReadError {
    let bytes = [b"\x80\x04", body].concat();
    let error = read_bytes(&bytes).unwrap_err();
    assert!(error.hint().is_some(), "{error}");
    error
}

#[track_caller]
fn check(body: &[u8], message: &str) {
    assert_eq!(refuse(body).to_string(), message);
}

#[test]
fn a_file_that_does_not_exist_is_an_input_error() {
    let error = read_file("no/such/file", &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, ReadError::Io(_)), "{error}");
    assert!(error.hint().is_none());
}

#[test]
fn a_folder_is_an_input_error() {
    let error = read_file(env!("CARGO_MANIFEST_DIR"), &mut |_, _| {}).unwrap_err();
    assert!(matches!(error, ReadError::Io(_)), "{error}");
}

#[test]
fn an_empty_file_is_said_to_be_empty() {
    assert!(matches!(read_bytes(b""), Err(ReadError::Empty)));
}

#[test]
fn what_is_no_pickle_is_named_by_its_first_bytes() {
    for (bytes, found) in [
        (b"PK\x03\x04rest".as_slice(), "a zip archive, such as torch.save writes"),
        (b"{\"a\": 1}", "text, perhaps JSON"),
        (b"<!DOCTYPE html>", "text, perhaps HTML"),
        (b"\x28\xb5\x2f\xfd\x00", "a zstd file"),
        (b"\x7fELF\x02", "the bytes 7f 45 4c 46"),
        (b"x", "the bytes 78"),
    ] {
        let error = read_bytes(bytes).unwrap_err();
        let expected = format!("byte 0: found {found}; a pickle of protocol 2 to 5 begins with byte 0x80");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_text_protocols_are_refused() {
    let error = read_bytes(b"\x80\x01N.").unwrap_err();
    assert_eq!(error.to_string(), "byte 0: pickle protocol 1; 2 to 5 are read");
    for (opcode, name) in [
        (b'I', "INT"),
        (b'L', "LONG"),
        (b'F', "FLOAT"),
        (b'S', "STRING"),
        (b'V', "UNICODE"),
        (b'g', "GET"),
        (b'p', "PUT"),
    ] {
        let error = refuse(&[b'N', opcode, b'1', b'\n', b'.']);
        assert_eq!(
            error.to_string(),
            format!("byte 3: opcode {name} is of the text protocols 0 and 1; 2 to 5 are read")
        );
    }
}

#[test]
fn every_opcode_that_imports_or_calls_is_refused_by_name_and_offset() {
    for (opcode, name) in [
        (b'c', "GLOBAL"),
        (0x93, "STACK_GLOBAL"),
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x92, "NEWOBJ_EX"),
        (0x82, "EXT1"),
        (0x83, "EXT2"),
        (0x84, "EXT4"),
        (b'P', "PERSID"),
        (b'Q', "BINPERSID"),
        (0x97, "NEXT_BUFFER"),
        (0x98, "READONLY_BUFFER"),
    ] {
        let error = refuse(&[b'N', b'N', opcode, b'o', b's', b'\n', b'.']);
        let expected = format!("byte 4: opcode {name} would import or call code; a snapshot is data only");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_real_exploit_is_refused_where_it_imports() {
    let error =
        read_bytes(b"\x80\x04\x95\x0d\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n(X\x02\x00\x00\x00lstR.").unwrap_err();
    assert!(matches!(error, ReadError::ForbiddenOpcode { offset: 11, opcode: "GLOBAL" }), "{error}");
}

#[test]
fn every_byte_is_an_opcode_that_is_read_or_refused_by_name() {
    for byte in 0..=255_u8 {
        let error = refuse(&[byte]);
        if let ReadError::UnknownOpcode { byte: found, .. } = error {
            assert_eq!(found, byte);
            assert!(!byte.is_ascii_alphanumeric() || !b"FIJKLMNPQRSTUVXabcdeghijloprqstuGBC012".contains(&byte));
        }
    }
    check(b"\xff", "byte 2: 0xff is no pickle opcode");
}

#[test]
fn a_file_truncated_at_any_byte_is_refused_as_truncated() {
    let bytes = snapshot().pickle();
    for length in 1..bytes.len() {
        let error = read_bytes(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, ReadError::NoStop { .. } | ReadError::Truncated { .. } | ReadError::LengthBeyondEnd { .. }),
            "{length}: {error}"
        );
    }
}

#[test]
fn every_protocols_file_truncated_at_any_byte_is_refused() {
    for name in ["protocol2", "protocol3", "protocol4", "protocol5"] {
        let path = format!("{}/tests/data/{name}.pickle", env!("CARGO_MANIFEST_DIR"));
        let bytes = std::fs::read(path).unwrap();
        for length in 0..bytes.len() {
            assert!(read_bytes(&bytes[..length]).is_err(), "{name}: {length}");
        }
    }
}

#[test]
fn a_file_with_any_byte_changed_is_a_sound_snapshot_or_refused() {
    let bytes = snapshot().pickle();
    for index in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[index] ^= flip;
            read_any(&changed);
        }
    }
}

#[test]
fn the_end_of_the_file_is_said_with_the_opcode_it_cuts() {
    check(b"N", "byte 3: the file ends here, without the opcode STOP");
    check(b"J\x01\x02", "byte 5: the file ends here, inside the opcode BININT that begins at byte 2");
    check(b"\x8c\x05abc", "byte 7: the file ends here, inside the opcode SHORT_BINUNICODE that begins at byte 2");
}

#[test]
fn a_length_field_of_ten_gigabytes_is_compared_with_what_is_left() {
    let ten_gigabytes = 10_000_000_000_u64.to_le_bytes();
    for (opcode, name) in [(0x8d, "BINUNICODE8"), (0x8e, "BINBYTES8"), (0x96, "BYTEARRAY8"), (0x95, "FRAME")] {
        let error = refuse(&[[opcode].as_slice(), &ten_gigabytes, b"abc"].concat());
        let expected = format!("byte 2: opcode {name} has a length of 10000000000 bytes; 3 are left in the file");
        assert_eq!(error.to_string(), expected);
    }
    let error = refuse(b"X\xff\xff\xff\xffabc");
    assert!(matches!(error, ReadError::LengthBeyondEnd { length: 0xffff_ffff, remaining: 3, .. }), "{error}");
    let error = refuse(b"\x8b\xff\xff\xff\x7fabc");
    assert!(matches!(error, ReadError::LengthBeyondEnd { length: 0x7fff_ffff, remaining: 3, .. }), "{error}");
    let error = refuse(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc");
    assert!(matches!(error, ReadError::LengthBeyondEnd { length: u64::MAX, .. }), "{error}");
}

#[test]
fn a_length_field_of_ten_gigabytes_inside_gzip_is_refused_too() {
    for length in [10_000_000_000_u64, 64 << 20, u64::MAX] {
        let bytes = [b"\x80\x04\x8d".as_slice(), &length.to_le_bytes(), b"abc"].concat();
        let error = read_bytes(&crate::bad_gzip::compress(&bytes)).unwrap_err();
        assert!(
            matches!(
                error,
                ReadError::ValueTooLong { .. } | ReadError::LengthBeyondEnd { .. } | ReadError::Truncated { .. }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_negative_length_is_refused() {
    check(b"\x8b\xff\xff\xff\xff", "byte 2: opcode LONG4 has the negative length -1");
    check(b"T\xfe\xff\xff\xff", "byte 2: opcode BINSTRING has the negative length -2");
}

#[test]
fn bytes_after_the_end_are_refused() {
    check(b"N.N.", "byte 4: more bytes follow the opcode STOP, which should be the last");
}

#[test]
fn an_opcode_without_the_values_it_takes_is_refused() {
    check(b".", "byte 2: opcode STOP needs 1 values on the stack; 0 are there");
    check(b"0", "byte 2: opcode POP needs 1 values on the stack; 0 are there");
    check(b"2", "byte 2: opcode DUP needs 1 values on the stack; 0 are there");
    check(b"\x94", "byte 2: opcode MEMOIZE needs 1 values on the stack; 0 are there");
    check(b"q\x00", "byte 2: opcode BINPUT needs 1 values on the stack; 0 are there");
    check(b"]a", "byte 3: opcode APPEND needs 2 values on the stack; 1 are there");
    check(b"}Ns", "byte 4: opcode SETITEM needs 3 values on the stack; 2 are there");
    check(b"N\x86", "byte 3: opcode TUPLE2 needs 2 values on the stack; 1 are there");
    check(b"(Ne", "byte 4: opcode APPENDS needs 1 values on the stack; 0 are there");
    check(b"(u", "byte 3: opcode SETITEMS needs 1 values on the stack; 0 are there");
}

#[test]
fn values_below_a_mark_are_out_of_reach() {
    check(b"](Na", "byte 5: opcode APPEND needs 2 values on the stack; 1 are there");
    check(b"N(.", "byte 4: opcode STOP needs 1 values on the stack; 0 are there");
    check(b"N(2", "byte 4: opcode DUP needs 1 values on the stack; 0 are there");
    check(b"]((Nee", "byte 6: opcode APPENDS needs 1 values on the stack; 0 are there");
    let frame = b"}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01x\x8c\x04lineK\x01uq\x000";
    let message = refuse(&[frame.as_slice(), b"]((h\x00ee."].concat()).to_string();
    assert!(message.ends_with("opcode APPENDS needs 1 values on the stack; 0 are there"), "{message}");
}

#[test]
fn an_opcode_without_its_mark_is_refused() {
    for (opcode, name) in [
        (b'e', "APPENDS"),
        (b'u', "SETITEMS"),
        (b't', "TUPLE"),
        (b'l', "LIST"),
        (b'd', "DICT"),
        (b'1', "POP_MARK"),
        (0x90, "ADDITEMS"),
        (0x91, "FROZENSET"),
    ] {
        let error = refuse(&[b'N', opcode]);
        assert_eq!(error.to_string(), format!("byte 3: opcode {name} needs a MARK before it; there is none"));
    }
}

#[test]
fn adding_to_what_is_no_container_is_refused() {
    check(b"NNa", "byte 4: opcode APPEND adds to a list; found None");
    check(b"}(Ne", "byte 5: opcode APPENDS adds to a list; found dict");
    check(b"]NNs", "byte 5: opcode SETITEM adds to a dict; found list");
    check(b"K\x01(NNu", "byte 7: opcode SETITEMS adds to a dict; found int");
    check(b"](N\x90", "byte 5: opcode ADDITEMS adds to a set; found list");
}

#[test]
fn a_key_without_a_value_is_refused() {
    check(b"}(NNNu", "byte 7: opcode SETITEMS needs pairs of key and value; found 3 values");
    check(b"(Nd", "byte 4: opcode DICT needs pairs of key and value; found 1 values");
}

#[test]
fn a_memo_entry_that_was_not_stored_is_refused() {
    check(b"h\x05", "byte 2: opcode BINGET needs memo entry 5, which was not stored");
    check(b"j\x05\x00\x00\x80", "byte 2: opcode LONG_BINGET needs memo entry 2147483653, which was not stored");
    let frame = b"}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01x\x8c\x04lineK\x01uq\x00";
    let error = refuse(&[frame.as_slice(), b"](h\x00h\x07e."].concat());
    assert!(matches!(error, ReadError::NoMemoEntry { opcode: "BINGET", index: 7, .. }), "{error}");
    check(b"](h\x07h\x07e", "byte 4: opcode BINGET needs memo entry 7, which was not stored");
}

#[test]
fn a_string_that_is_not_utf_8_is_refused() {
    check(b"\x8c\x03ab\xff", "byte 2: opcode SHORT_BINUNICODE: the string is not UTF-8 after its first 2 bytes");
}

#[test]
fn a_frame_or_trace_entry_changed_after_it_is_complete_is_refused() {
    let frame = b"}(\x8c\x04name\x8c\x01f\x8c\x08filename\x8c\x01x\x8c\x04lineK\x01u";
    let error = refuse(&[frame.as_slice(), b"K\x01K\x02s."].concat());
    assert!(matches!(error, ReadError::ChangedAfterUse { opcode: "SETITEM", found: "frame", .. }), "{error}");
    let stack = [b"](".as_slice(), frame, b"eNa."].concat();
    let error = refuse(&stack);
    assert!(matches!(error, ReadError::ChangedAfterUse { opcode: "APPEND", found: "list of frames", .. }), "{error}");
    let entry = b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02u(NNu.";
    let error = refuse(entry);
    assert!(matches!(error, ReadError::ChangedAfterUse { opcode: "SETITEMS", found: "trace entry", .. }), "{error}");
}
