//! Properties of the reader over files made at random.

use proptest::collection::vec;
use proptest::prelude::*;
use vramfit_trace::read::read_bytes;
use vramfit_trace::snapshot::{Action, Snapshot};

use crate::pickler::{Python, dict, frame, snapshot};
use crate::sound::read_any;

fn python_value() -> impl Strategy<Value = Python> {
    let leaf = prop_oneof![
        Just(Python::None),
        any::<bool>().prop_map(Python::Bool),
        any::<i64>().prop_map(Python::Int),
        any::<f64>().prop_map(Python::Float),
        prop_oneof!["[a-z_]{0,12}", Just("frames".to_owned()), Just("alloc".to_owned())].prop_map(Python::Text),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        let key = prop_oneof![
            Just(Python::from("action")),
            Just(Python::from("addr")),
            Just(Python::from("size")),
            Just(Python::from("frames")),
            Just(Python::from("segments")),
            Just(Python::from("device_traces")),
            Just(Python::from("blocks")),
            Just(Python::from("filename")),
            inner.clone(),
        ];
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Python::List),
            vec(inner.clone(), 0..4).prop_map(Python::Tuple),
            vec((key, inner), 0..8).prop_map(Python::Dict),
        ]
    })
}

#[derive(Clone, Debug)]
struct Row {
    action: Action,
    address: i64,
    size: i64,
    stream: i64,
    time_us: i64,
    lines: Vec<i64>,
}

fn row() -> impl Strategy<Value = Row> {
    let action = proptest::sample::select(Action::ALL.to_vec());
    (action, 0..i64::MAX, 0..1_i64 << 44, 0..i64::MAX, any::<i64>(), vec(0..5_i64, 0..6)).prop_map(
        |(action, address, size, stream, time_us, lines)| Row { action, address, size, stream, time_us, lines },
    )
}

fn entry(row: &Row) -> Python {
    dict([
        ("action", row.action.name().into()),
        (if row.action == Action::Oom { "device_free" } else { "addr" }, row.address.into()),
        ("size", row.size.into()),
        ("stream", row.stream.into()),
        ("time_us", row.time_us.into()),
        ("frames", row.lines.iter().map(|&line| frame("f.py", "f", line)).collect::<Vec<_>>().into()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_what_is_read(traces in vec(vec(row(), 0..20), 1..4)) {
        let written: Vec<Python> =
            traces.iter().map(|trace| trace.iter().map(entry).collect::<Vec<_>>().into()).collect();
        let snapshot = read_bytes(&dict([("device_traces", written.into())]).pickle()).unwrap();
        prop_assert_eq!(snapshot.devices.len(), traces.len());
        for (device, trace) in snapshot.devices.iter().zip(&traces) {
            prop_assert_eq!(device.events.len(), trace.len());
            for (event, row) in device.events.iter().zip(trace) {
                prop_assert_eq!(event.action, row.action);
                prop_assert_eq!(event.address, row.address as u64);
                prop_assert_eq!(event.size, row.size as u64);
                prop_assert_eq!(event.stream, row.stream as u64);
                prop_assert_eq!(event.time_us, row.time_us);
                let lines: Vec<i64> =
                    snapshot.stacks.frames(event.stack).map(|frame| i64::from(frame.line)).collect();
                prop_assert_eq!(&lines, &row.lines);
            }
        }
    }

    #[test]
    fn shared_frames_are_read_as_if_they_were_not(trace in vec(row(), 0..60)) {
        let entries: Vec<Python> = trace.iter().map(entry).collect();
        let python = dict([("device_traces", vec![entries.into()].into())]);
        let plain = read_bytes(&python.pickle()).unwrap();
        let shared = read_bytes(&python.pickle_with_shared_frames()).unwrap();
        prop_assert_eq!(plain.devices[0].events.len(), shared.devices[0].events.len());
        for (expected, event) in plain.devices[0].events.iter().zip(&shared.devices[0].events) {
            prop_assert_eq!(event.address, expected.address);
            let lines = |snapshot: &Snapshot, stack| {
                snapshot.stacks.frames(stack).map(|frame| frame.line).collect::<Vec<u32>>()
            };
            prop_assert_eq!(lines(&shared, event.stack), lines(&plain, expected.stack));
        }
    }

    #[test]
    fn any_value_is_a_sound_snapshot_or_refused(value in python_value()) {
        read_any(&value.pickle());
        let in_traces = dict([("device_traces", Python::List(vec![Python::List(vec![value.clone()])]))]);
        read_any(&in_traces.pickle());
        read_any(&dict([("segments", Python::List(vec![value]))]).pickle());
    }

    #[test]
    fn any_bytes_after_a_pickles_head_are_a_sound_snapshot_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        read_any(&[b"\x80\x04", bytes.as_slice()].concat());
    }

    #[test]
    fn a_snapshot_with_any_bytes_overwritten_is_sound_or_refused(
        position in any::<proptest::sample::Index>(),
        bytes in vec(any::<u8>(), 1..8),
    ) {
        let mut file = snapshot().pickle();
        let start = position.index(file.len());
        let end = (start + bytes.len()).min(file.len());
        file.splice(start..end, bytes);
        read_any(&file);
    }
}
