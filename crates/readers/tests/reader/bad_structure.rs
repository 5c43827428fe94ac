//! JSON that does not have a capture's form: keys, types, words, numbers.

use serde_json::{Value, json};
use vramfit_readers::read_bytes;

use crate::small::{assert_error, assert_refused, small};

#[test]
fn another_format_is_refused() {
    assert_refused("WrongFormat", "format: found `onnx`, needed `vramfit-capture`", |capture| {
        capture["format"] = json!("onnx");
    });
}

#[test]
fn a_newer_version_is_refused_with_a_word_about_updating() {
    let mut capture = small();
    capture["version"] = json!(2);
    let error = crate::small::read(&capture).expect_err("the version is newer");
    assert_error(&error, "UnknownVersion", "version: found 2; this vramfit reads version 1");
    assert!(error.hint().is_some_and(|hint| hint.contains("newer vramfit; update")));
}

#[test]
fn an_older_version_is_refused() {
    assert_refused("UnknownVersion", "version: found 0; this vramfit reads version 1", |capture| {
        capture["version"] = json!(0);
    });
}

#[test]
fn a_newer_version_is_named_even_where_other_things_are_wrong_first() {
    let text = r#"{"steps": 7, "format": "vramfit-capture", "version": 9}"#;
    let error = read_bytes(text.as_bytes()).expect_err("the version is newer");
    assert_error(&error, "UnknownVersion", "version: found 9; this vramfit reads version 1");
}

#[test]
fn every_key_is_needed() {
    let keys: Vec<String> = small().as_object().expect("it is an object").keys().cloned().collect();
    for key in keys.iter().filter(|key| !["producer", "causes", "format"].contains(&key.as_str())) {
        assert_refused("MissingKey", &format!("top level: the key `{key}` is missing"), |capture| {
            capture.as_object_mut().expect("it is an object").shift_remove(key);
        });
    }
    assert_refused("MissingKey", "variants[1]: the key `held` is missing", |capture| {
        capture["variants"][1].as_object_mut().expect("it is an object").shift_remove("held");
    });
    assert_refused("MissingKey", "inputs[0]: the key `dtype` is missing", |capture| {
        capture["inputs"][0].as_object_mut().expect("it is an object").shift_remove("dtype");
    });
    assert_refused("MissingKey", "variants[1].outputs: the key `items` is missing", |capture| {
        capture["variants"][1]["outputs"] = json!({"class": "tuple"});
    });
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let text = small().to_string().replacen("{\"name\":\"x\",", "{\"name\":\"x\",\"name\":\"z\",", 1);
    let error = read_bytes(text.as_bytes()).expect_err("there are two names");
    assert_error(&error, "DuplicateKey", "inputs[0]: the key `name` occurs twice");
}

#[test]
fn values_of_the_wrong_type_are_named_with_their_place() {
    let cases: [(&str, Value, &str); 13] = [
        ("/model", json!(7), "model: found an integer, needed a string"),
        ("/notes", json!({}), "notes: found an object, needed a list"),
        ("/symbols/0", json!("batch"), "symbols[0]: found a string, needed a symbol"),
        ("/symbols/0/example", json!("8"), "symbols[0].example: found a string, needed an integer"),
        ("/modules/1/1", json!(null), "modules[1][1]: found null, needed a string"),
        ("/variants/0/grad", json!(1), "variants[0].grad: found an integer, needed true or false"),
        ("/variants/0/loss", json!([]), "variants[0].loss: found a list, needed the number of a tensor"),
        (
            "/variants/0/outputs",
            json!(true),
            "variants[0].outputs: found a boolean, needed a tensor, null or an object with a class and items",
        ),
        (
            "/types/0/3/1/0",
            json!(1.5),
            "types[0][3][1][0]: found a number with a fraction or beyond 64 bits, needed an integer or an expression",
        ),
        ("/tensors/0/3/2", json!(null), "tensors[0][3][2]: found null, needed an integer or an expression"),
        ("/steps/0/1/2", json!("%3"), "steps[0][1][2]: found a string, needed a list"),
        ("/steps/0/1/3/0", json!(true), "steps[0][1][3][0]: found a boolean, needed the number of a tensor"),
        ("/steps/0/2", json!({}), "steps[0][2]: found an object, needed a step"),
    ];
    for (pointer, value, message) in cases {
        assert_refused("WrongType", message, |capture| *capture.pointer_mut(pointer).expect("it is there") = value);
    }
}

#[test]
fn lists_that_are_too_short_say_what_is_missing() {
    assert_refused("MissingElement", "steps[0][1]: found 3 elements; results is missing", |capture| {
        capture["steps"][0][1] = json!(["call", 0, ["%3", "%0", "%1"]]);
    });
    assert_refused("MissingElement", "steps[0][8]: found 0 elements; the name of a step is missing", |capture| {
        capture["steps"][0][8] = json!([]);
    });
    assert_refused("MissingElement", "tensors[1][2]: found 3 elements; flags is missing", |capture| {
        capture["tensors"][1][2] = json!([1, 2, 0]);
    });
}

#[test]
fn lists_that_are_too_long_are_refused() {
    assert_refused("ExtraElement", "steps[0][17]: found more than 1 elements; the rest has no meaning", |capture| {
        capture["steps"][0][17] = json!(["loss", 1])
    });
    assert_refused("ExtraElement", "types[0][6]: found more than 3 elements; the rest has no meaning", |capture| {
        capture["types"][0][6].as_array_mut().expect("it is a list").push(json!([]))
    });
}

#[test]
fn arguments_of_unknown_kinds_are_refused() {
    let needed = "string, dtype, device, memory_format, float, layout, generator, complex, other";
    let message =
        format!("steps[1][1][2][1]: found an object of an unknown kind, needed one with one of the keys {needed}");
    assert_refused("UnknownKind", &message, |capture| capture["steps"][1][1][2][1] = json!({"stream": 1}));
    assert_refused("UnknownKind", &message, |capture| capture["steps"][1][1][2][1] = json!({}));
    assert_refused("ExtraKey", "steps[1][1][2][1]: found an object with several keys, needed one", |capture| {
        capture["steps"][1][1][2][1] = json!({"string": "tanh", "dtype": "float32"})
    });
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let cases: [(&str, Value, &str); 9] = [
        ("/sources/0/1", json!(-1), "sources[0][1]: found -1, needed a number from 0 to 4294967295"),
        (
            "/parameters/0/tensor",
            json!(1_u64 << 32),
            "parameters[0].tensor: found 4294967296, needed a number from 0 to 4294967295",
        ),
        ("/variants/0/held/0", json!(-3), "variants[0].held[0]: found -3, needed a number from 0 to 4294967295"),
        ("/tensors/0/5/3", json!(16), "tensors[0][5][3]: found 16, needed a sum of the flags 1, 2, 4 and 8"),
        ("/steps/0/1/4", json!(-2), "steps[0][1][4]: found -2, needed the number of a source, or -1"),
        ("/steps/0/6/5", json!(3), "steps[0][6][5]: found 3, needed 0, 1 or 2"),
        (
            "/steps/1/3/2/1/6",
            json!(u64::MAX),
            "steps[1][3][2][1][6]: found 18446744073709551615, needed a number up to 9223372036854775807",
        ),
        ("/symbols/0/example", json!(0), "symbols[0].example: found 0, needed a size from 1 to 1099511627775"),
        (
            "/symbols/0/recorded/1",
            json!(1_u64 << 40),
            "symbols[0].recorded[1]: found 1099511627776, needed a size from 1 to 1099511627775",
        ),
    ];
    for (pointer, value, message) in cases {
        assert_refused("OutOfRange", message, |capture| *capture.pointer_mut(pointer).expect("it is there") = value);
    }
}

#[test]
fn words_that_are_not_known_are_refused_with_those_that_are() {
    let cases: [(&str, &str, &str); 8] = [
        ("/variants/0/mode", "test", "variants[0].mode: found `test`, needed `train`, `eval` or `eval-grad`"),
        (
            "/variants/0/precision",
            "int8",
            "variants[0].precision: found `int8`, needed `as-built`, `fp32`, `bf16`, `fp16`, `amp-bf16` or `amp-fp16`",
        ),
        (
            "/variants/0/precision",
            "amp-int8",
            "variants[0].precision: found `amp-int8`, needed `as-built`, `fp32`, `bf16`, `fp16`, `amp-bf16` or `amp-fp16`",
        ),
        (
            "/steps/0/8/0",
            "forget",
            "steps[0][8][0]: found `forget`, needed `call`, `free`, `enter`, `exit`, `grad`, `autocast`, `checkpoint`, \
             `function`, `loss` or `end`",
        ),
        (
            "/steps/0/7/1",
            "module",
            "steps[0][7][1]: found `module`, needed `autocast`, `checkpoint`, `function` or `loss`",
        ),
        ("/steps/1/2/2/3/device", "tpu", "steps[1][2][2][3].device: found `tpu`, needed `cuda` or `cpu`"),
        (
            "/steps/1/2/2/5/memory_format",
            "odd",
            "steps[1][2][2][5].memory_format: found `odd`, needed `contiguous`, `preserve`, `channels_last` or \
             `channels_last_3d`",
        ),
        ("/steps/1/3/2/1/0/float", "big", "steps[1][3][2][1][0].float: found `big`, needed `inf`, `-inf` or `nan`"),
    ];
    for (pointer, word, message) in cases {
        assert_refused("UnknownWord", message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!(word);
        });
    }
}

#[test]
fn unknown_dtypes_are_named() {
    for (pointer, place) in [
        ("/parameters/1/dtype", "parameters[1].dtype"),
        ("/types/1/4/0", "types[1][4][0]"),
        ("/steps/1/2/2/1/dtype", "steps[1][2][2][1].dtype"),
        ("/steps/0/5/3", "steps[0][5][3]"),
    ] {
        let message = format!("{place}: found the dtype `int4`, which is not known");
        assert_refused("UnknownDtype", &message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!("int4");
        });
    }
}

#[test]
fn texts_that_should_name_a_tensor_must() {
    for text in ["%", "%x", "%-1", "%+1", "% 1", "%99999999999"] {
        let message = format!("steps[0][1][2][0]: found `{text}`, needed a tensor such as `%12`");
        assert_refused("BadTensor", &message, |capture| capture["steps"][0][1][2][0] = json!(text));
    }
    assert_refused("BadTensor", "variants[1].outputs: found `5`, needed a tensor such as `%12`", |capture| {
        capture["variants"][1]["outputs"] = json!("5");
    });
}

#[test]
fn expressions_that_are_none_are_refused_where_they_stand() {
    let cases: [(&str, &str, &str); 6] = [
        (
            "/types/0/4/1/1",
            "batch*width",
            "types[0][4]: dimension 1: expression `batch*width`: names symbol `width`, which is not one of the model's",
        ),
        (
            "/types/0/6/2/1",
            "batch+",
            "types[0][6]: stride 1: expression `batch+`: the expression ends where a number, a symbol, `-` or `(` was needed",
        ),
        ("/tensors/0/6/2", "", "tensors[0][6]: offset: expression ``: the expression is empty"),
        (
            "/steps/0/3/2/1/0",
            "batch%2",
            "steps[0][3]: operator `aten.view.default`: argument `size`: expression `batch%2`: found `%` at character 5, \
             needed `+`, `-`, `*` or `//`",
        ),
        (
            "/steps/0/18/2/3",
            "mean",
            "steps[0][18]: operator `aten.cross_entropy_loss.default`: argument `reduction`: expression `mean`: names symbol \
             `mean`, which is not one of the model's",
        ),
        (
            "/inputs/0/shape/1",
            "99999999999999999999",
            "inputs[0].shape[1]: expression `99999999999999999999`: the number 99999999999999999999 does not fit 64 bits",
        ),
    ];
    for (pointer, text, message) in cases {
        assert_refused("BadExpression", message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!(text);
        });
    }
}
