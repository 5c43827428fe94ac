//! Whatever the bytes are, reading ends with a model or an error.

use std::fmt::Write;

use proptest::prelude::*;
use serde_json::{Value, json};
use vramfit_graph::bind::bind;
use vramfit_graph::select::Sizes;
use vramfit_readers::{ReadError, read_bytes};

use crate::small::{file, small};

const MLP: &[u8] = include_bytes!("../captures/mlp.vramfit");

/// Reads the bytes; what is a model can be bound or says why not.
fn read_any(bytes: &[u8]) {
    match read_bytes(bytes) {
        Ok(model) => {
            let sizes = Sizes::example(&model).expect("a capture tells all sizes");
            for variant in 0..model.variants.len() {
                if let Err(error) = bind(&model, variant, &sizes) {
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(error.hint().is_some_and(|hint| !hint.is_empty()));
        }
    }
}

#[test]
fn a_file_that_ends_at_any_byte_is_refused() {
    let whole = file(&small());
    for end in 0..whole.len() {
        let error = read_bytes(&whole[..end]).expect_err("it is not whole");
        assert!(
            matches!(error, ReadError::Empty { .. } | ReadError::Gzip { .. } | ReadError::NotAModel { .. }),
            "{error}"
        );
    }
    for end in 0..MLP.len() {
        assert!(read_bytes(&MLP[..end]).is_err(), "{end}");
    }
}

#[test]
fn json_that_ends_at_any_byte_is_refused() {
    let whole = small().to_string();
    for end in 0..whole.len() {
        let error = read_bytes(&whole.as_bytes()[..end]).expect_err("it is not whole");
        assert!(matches!(error, ReadError::Empty { .. } | ReadError::TruncatedJson { .. }), "{end}: {error}");
    }
}

#[test]
fn lists_within_lists_do_not_use_up_the_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    for key in ["steps", "unknown", "model"] {
        read_any(format!("{{\"{key}\":{deep}}}").as_bytes());
    }
    let mut capture = small();
    capture["steps"][0][3][2][1] = json!("DEEP");
    let text = capture.to_string().replace("\"DEEP\"", &deep);
    let error = read_bytes(text.as_bytes()).expect_err("it is too deep");
    assert!(matches!(error, ReadError::NestedTooDeeply { .. }), "{error}");
    assert_eq!(error.to_string(), "lists and objects nest more than 128 levels deep");
}

#[test]
fn values_have_a_limit() {
    let text = format!("{{\"move_order\":[{}0]}}", "0,".repeat(16_000_000));
    let error = read_bytes(text.as_bytes()).expect_err("there are too many");
    assert!(matches!(error, ReadError::TooManyValues { .. }), "{error}");
    let message = "move_order: the file holds more than 16000000 values; at most that many are read";
    assert_eq!(error.to_string(), message);
}

#[test]
fn expressions_within_parentheses_do_not_use_up_the_stack() {
    let deep = format!("{}batch{}", "(".repeat(2000), ")".repeat(2000));
    let mut capture = small();
    capture["types"][0][4][1][0] = json!(deep);
    let error = read_bytes(&file(&capture)).expect_err("it is too deep");
    assert!(error.to_string().ends_with("the expression nests more than 32 levels deep"), "{error}");
}

#[test]
fn many_symbols_and_expressions_take_no_long_time() {
    let mut capture = small();
    let mut sizes = Vec::new();
    for number in 0..20_000 {
        let mut text = String::new();
        for _ in 0..100 {
            write!(text, "+batch*{number}").expect("a string takes all");
        }
        sizes.push(Value::from(&text[1..]));
    }
    capture["steps"][0][3][2][1] = Value::from(sizes);
    assert_eq!(read_bytes(&file(&capture)).expect("it is good").expressions.len(), 20_003);
}

/// A place in a JSON value, and what to do there.
fn spoil(value: &mut Value, way: &[usize], change: &Change) {
    let Some((step, rest)) = way.split_first() else { return change.apply(value) };
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = step % items.len();
            spoil(&mut items[at], rest, change);
        }
        Value::Object(items) if !items.is_empty() => {
            let at = step % items.len();
            if let Some(item) = items.values_mut().nth(at) {
                spoil(item, rest, change);
            }
        }
        other => change.apply(other),
    }
}

#[derive(Clone, Debug)]
enum Change {
    Put(Value),
    Remove(usize),
    Double(usize),
    Swap(usize, usize),
}

impl Change {
    fn apply(&self, value: &mut Value) {
        match (self, value) {
            (Change::Put(new), value) => *value = new.clone(),
            (Change::Remove(at), Value::Array(items)) if !items.is_empty() => {
                items.remove(at % items.len());
            }
            (Change::Double(at), Value::Array(items)) if !items.is_empty() => {
                let item = items[at % items.len()].clone();
                items.push(item);
            }
            (Change::Swap(one, other), Value::Array(items)) if !items.is_empty() => {
                let length = items.len();
                items.swap(one % length, other % length);
            }
            _ => {}
        }
    }
}

fn some_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..12).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_u32..14).prop_map(|number| Value::from(format!("%{number}"))),
        "(batch|seq|[0-9]{1,20}|[-+*/()%]|//){0,9}".prop_map(Value::from),
        "call|free|enter|exit|grad|autocast|checkpoint|function|loss|end|float32|eval|bf16".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
}

fn some_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => some_value().prop_map(Change::Put),
        1 => any::<usize>().prop_map(Change::Remove),
        1 => any::<usize>().prop_map(Change::Double),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(one, other)| Change::Swap(one, other)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn spoilt_captures_never_panic(
        changes in prop::collection::vec((prop::collection::vec(any::<usize>(), 1..6), some_change()), 1..4),
    ) {
        let mut capture = small();
        for (way, change) in &changes {
            spoil(&mut capture, way, change);
        }
        read_any(capture.to_string().as_bytes());
    }

    #[test]
    fn spoilt_bytes_never_panic(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..5)) {
        let mut bytes = small().to_string().into_bytes();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        read_any(&bytes);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_any(&bytes);
    }
}
