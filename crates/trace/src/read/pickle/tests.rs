//! What each group of opcodes builds.

use super::heap::Container;
use super::machine::Budget;
use super::*;
use crate::intern::Strings;
use crate::read::error::ReadError;
use crate::read::input::{Input, Source};

/// Condenses nothing.
struct Keep;

impl Condense for Keep {
    type Record = ();

    fn dict(&mut self, _entries: &[Value], _heap: &mut Heap<()>) -> Option<()> {
        None
    }

    fn list(&mut self, _items: &[Value], _heap: &Heap<()>) -> Option<()> {
        None
    }

    fn kind((): ()) -> &'static str {
        "record"
    }

    fn memory(&self) -> usize {
        0
    }
}

/// What the pickle holds, as Python would print it; `…` for what is deeper than ten levels.
fn load_and_print(bytes: &[u8]) -> Result<String, ReadError> {
    let source = Source { reader: Box::new(bytes), is_gzip: false, length: Some(bytes.len() as u64), limit: 1 << 30 };
    let budget = Budget { fixed: 1 << 30, per_byte: 0, stored: Default::default() };
    let loaded = load(&mut Input::new(source), Strings::default(), Keep, budget)?;
    Ok(print(loaded.root, &loaded.heap, 10))
}

fn print(value: Value, heap: &Heap<()>, depth: usize) -> String {
    if depth == 0 {
        return "…".to_owned();
    }
    let print_all = |values: &[Value]| values.iter().map(|&value| print(value, heap, depth - 1)).collect::<Vec<_>>();
    match heap.kind(value) {
        Kind::None => "None".to_owned(),
        Kind::Bool(truth) => if truth { "True" } else { "False" }.to_owned(),
        Kind::Int(number) => number.to_string(),
        Kind::Large(number) => number.to_string(),
        Kind::Huge => "huge".to_owned(),
        Kind::Float(number) => format!("{number:?}"),
        Kind::Text(id) => format!("'{}'", heap.strings.get(id)),
        Kind::Bytes => "bytes".to_owned(),
        Kind::Set => "set".to_owned(),
        Kind::Tuple { start, length } => format!("({})", print_all(heap.tuple(start, length)).join(", ")),
        Kind::List(list) => match heap.list(list) {
            Container::Values(items) => format!("[{}]", print_all(items).join(", ")),
            Container::Record(()) => "record".to_owned(),
        },
        Kind::Dict(dict) => match heap.dict(dict) {
            Container::Values(entries) => {
                let pairs: Vec<String> =
                    print_all(entries).chunks(2).map(|pair| format!("{}: {}", pair[0], pair[1])).collect();
                format!("{{{}}}", pairs.join(", "))
            }
            Container::Record(()) => "record".to_owned(),
        },
    }
}

#[track_caller]
fn check(body: &[u8], expected: &str) {
    let bytes = [b"\x80\x04", body, b"."].concat();
    assert_eq!(load_and_print(&bytes).unwrap(), expected);
}

#[test]
fn constants_are_read() {
    check(b"N", "None");
    check(b"\x88", "True");
    check(b"\x89", "False");
}

#[test]
fn whole_numbers_of_every_width_are_read() {
    check(b"K\xff", "255");
    check(b"M\xff\xff", "65535");
    check(b"J\xff\xff\xff\xff", "-1");
    check(b"J\x00\x00\x00\x80", "-2147483648");
    check(b"\x8a\x06\x00\x00\x00\x40\x2a\x7f", "139819439095808");
    check(b"\x8a\x00", "0");
    check(b"\x8b\x02\x00\x00\x00\x00\x80", "-32768");
    check(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", "18446744073709551615");
    check(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x7f", "huge");
}

#[test]
fn real_numbers_are_read() {
    check(b"G\x3f\xe0\x00\x00\x00\x00\x00\x00", "0.5");
}

#[test]
fn strings_of_every_length_field_are_read() {
    check(b"\x8c\x02hi", "'hi'");
    check(b"X\x02\x00\x00\x00hi", "'hi'");
    check(b"\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi", "'hi'");
    check(b"U\x02hi", "'hi'");
    check(b"T\x02\x00\x00\x00hi", "'hi'");
    check(b"\x8c\x00", "''");
    let long = [b"X\x2c\x01\x00\x00".as_slice(), &[b'x'; 300]].concat();
    check(&long, &format!("'{}'", "x".repeat(300)));
}

#[test]
fn bytes_of_every_length_field_are_passed_over() {
    check(b"C\x01\xff", "bytes");
    check(b"B\x01\x00\x00\x00\xff", "bytes");
    check(b"\x8e\x01\x00\x00\x00\x00\x00\x00\x00\xff", "bytes");
    check(b"\x96\x01\x00\x00\x00\x00\x00\x00\x00\xff", "bytes");
}

#[test]
fn tuples_are_read() {
    check(b")", "()");
    check(b"K\x01\x85", "(1)");
    check(b"K\x01K\x02\x86", "(1, 2)");
    check(b"K\x01K\x02K\x03\x87", "(1, 2, 3)");
    check(b"(K\x01K\x02K\x03K\x04t", "(1, 2, 3, 4)");
    check(b"(t", "()");
}

#[test]
fn equal_tuples_one_after_the_other_stay_apart_from_the_next() {
    check(b"(K\x00K\x00\x86K\x00K\x00\x86K\x00K\x01\x86K\x01\x85t", "((0, 0), (0, 0), (0, 1), (1))");
}

#[test]
fn lists_are_read() {
    check(b"]", "[]");
    check(b"]K\x01a", "[1]");
    check(b"](K\x01K\x02eK\x03a", "[1, 2, 3]");
    check(b"](e", "[]");
    check(b"(K\x01K\x02l", "[1, 2]");
}

#[test]
fn dicts_are_read() {
    check(b"}", "{}");
    check(b"}K\x01K\x02s", "{1: 2}");
    check(b"}(K\x01K\x02K\x03K\x04uK\x05K\x06s", "{1: 2, 3: 4, 5: 6}");
    check(b"(K\x01K\x02d", "{1: 2}");
    check(b"}(u", "{}");
}

#[test]
fn sets_are_passed_over() {
    check(b"\x8f(K\x01K\x02\x90", "set");
    check(b"(K\x01K\x02\x91", "set");
}

#[test]
fn the_memo_gives_back_what_was_stored() {
    check(b"K\x07\x940h\x00", "7");
    check(b"K\x07q\x050h\x05", "7");
    check(b"K\x07r\x05\x00\x00\x000j\x05\x00\x00\x00", "7");
    check(b"K\x07\x94K\x08\x94\x86h\x00h\x01\x87", "((7, 8), 7, 8)");
    check(b"K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xff", "7");
}

#[test]
fn a_replaced_memo_entry_gives_the_new_value() {
    check(b"K\x01q\x000K\x02q\x000h\x00", "2");
    check(b"(K\x01q\x00](h\x00h\x00eK\x02q\x00](h\x00h\x00et", "(1, [1, 1], 2, [2, 2])");
}

#[test]
fn a_list_changed_after_it_was_stored_is_changed_everywhere() {
    check(b"(]q\x00h\x00K\x01ah\x00(K\x02K\x03et", "([1, 2, 3], [1, 2, 3], [1, 2, 3])");
    check(b"(}q\x00h\x00K\x01K\x02st", "({1: 2}, {1: 2})");
}

#[test]
fn a_list_may_hold_itself() {
    check(b"]q\x00h\x00a", "[[[[[[[[[[…]]]]]]]]]]");
}

#[test]
fn pop_takes_a_value_or_a_mark() {
    check(b"K\x01K\x020", "1");
    check(b"K\x01(0", "1");
    check(b"K\x01(K\x02K\x031", "1");
}

#[test]
fn dup_doubles_the_top() {
    check(b"K\x012\x86", "(1, 1)");
}

#[test]
fn frames_are_passed_over() {
    check(b"\x95\x02\x00\x00\x00\x00\x00\x00\x00K\x01", "1");
}

#[test]
fn every_protocol_from_two_to_five_is_read_and_no_other() {
    for protocol in 2..=5 {
        assert_eq!(load_and_print(&[0x80, protocol, b'N', b'.']).unwrap(), "None");
    }
    for protocol in [0, 1, 6, 255] {
        let error = load_and_print(&[0x80, protocol, b'N', b'.']).unwrap_err();
        assert!(matches!(error, ReadError::Protocol { offset: 0, found } if found == protocol), "{error}");
    }
}

#[test]
fn a_pickle_longer_than_the_buffer_is_read_whole() {
    let text = "x".repeat(100);
    let mut bytes = b"\x80\x04](".to_vec();
    for _ in 0..20_000 {
        bytes.extend_from_slice(b"X\x64\x00\x00\x00");
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(b"e.");
    let printed = load_and_print(&bytes).unwrap();
    assert_eq!(printed.matches(&text).count(), 20_000);
}

#[test]
fn a_string_longer_than_the_buffer_is_read_whole() {
    let length = 3_000_001_u32;
    let mut bytes = b"\x80\x04(K\x01X".to_vec();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.resize(bytes.len() + length as usize, b'y');
    bytes.extend_from_slice(b"K\x02t.");
    let printed = load_and_print(&bytes).unwrap();
    assert_eq!(printed.len(), "(1, '', 2)".len() + length as usize);
}
