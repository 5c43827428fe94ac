//! Values that writers leave out, and numbers at the edges of 64 bits.

use vramfit_trace::read::read_bytes;
use vramfit_trace::snapshot::{Event, Setting, Snapshot, StackId};

use crate::pickler::{Python, dict, entry, list};

fn read(entries: Vec<Python>) -> Result<Snapshot, String> {
    let python = dict([("device_traces", vec![entries.into()].into())]);
    read_bytes(&python.pickle()).map_err(|error| error.to_string())
}

fn only(entry: Python) -> (Snapshot, Event) {
    let snapshot = read(vec![entry]).unwrap();
    let event = snapshot.devices[0].events[0];
    (snapshot, event)
}

#[test]
fn none_is_no_stack_no_line_and_no_name() {
    let mut without = entry("alloc", 4096, 512);
    *without.at("frames") = Python::None;
    assert_eq!(only(without).1.stack, StackId::NONE);
    let mut bare = entry("alloc", 4096, 512);
    let frame = dict([("name", Python::None), ("filename", Python::None), ("line", Python::None)]);
    *bare.at("frames") = list([frame]);
    let (snapshot, event) = only(bare);
    assert!(!event.stack.is_none());
    let frame = snapshot.stacks.frames(event.stack).next().unwrap();
    let text = |id| snapshot.strings.get(id);
    assert_eq!((text(frame.file), frame.line, text(frame.function)), ("", 0, ""));
}

#[test]
fn an_address_may_have_all_64_bits_and_a_size_may_not() {
    let mut high = entry("alloc", 0, 512);
    *high.at("addr") = Python::Large(1 << 63);
    assert_eq!(only(high.clone()).1.address, 1 << 63);
    *high.at("size") = Python::Large(1 << 63);
    let expected = "device_traces[0][0].size: found 9223372036854775808, expected bytes below 2^44 that end within the \
                    address space";
    assert_eq!(read(vec![high]).unwrap_err(), expected);
    let mut timed = entry("alloc", 4096, 512);
    *timed.at("time_us") = Python::Large(1 << 63);
    let expected = "device_traces[0][0].time_us: found 9223372036854775808, expected a whole number below 2^63";
    assert_eq!(read(vec![timed]).unwrap_err(), expected);
}

#[test]
fn memory_ends_within_the_address_space_and_free_memory_is_no_address() {
    // Some writers cast addresses to signed numbers.
    let error = read(vec![entry("alloc", -2, 512)]).unwrap_err();
    assert!(error.starts_with("device_traces[0][0].size: found 512"), "{error}");
    assert!(read(vec![entry("oom", -2, 512)]).is_ok());
}

#[test]
fn a_setting_may_have_numbers_as_names() {
    let divisions = Python::Dict(vec![(8.into(), 4.into()), ("x".into(), 2.into())]);
    let python = dict([("segments", list([])), ("allocator_settings", dict([("divisions", divisions)]))]);
    let snapshot = read_bytes(&python.pickle()).unwrap();
    let expected = vec![("8".to_owned(), Setting::Int(4)), ("x".to_owned(), Setting::Int(2))];
    assert_eq!(snapshot.settings, [("divisions".to_owned(), Setting::Map(expected))]);
}
