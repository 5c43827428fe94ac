//! Shapes, strides and offsets that cannot be.

use serde_json::json;

use crate::small::assert_refused;

#[test]
fn sizes_are_not_negative() {
    let cases = [
        ("/types/0/0/1/1", "types[0][0]: dimension 1: found -4, needed 0 or more"),
        ("/types/0/6/2/0", "types[0][6]: stride 0: found -4, needed 0 or more"),
        ("/tensors/0/5/2", "tensors[0][5]: offset: found -4, needed 0 or more"),
        ("/parameters/0/shape/0", "parameters[0].shape[0]: found -4, needed 0 or more"),
        ("/buffers/0/shape/0", "buffers[0].shape[0]: found -4, needed 0 or more"),
        ("/inputs/0/shape/1", "inputs[0].shape[1]: found -4, needed 0 or more"),
        ("/targets/0/example/0", "targets[0].example[0]: found -4, needed 0 or more"),
    ];
    for (pointer, message) in cases {
        assert_refused("NegativeSize", message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!(-4);
        });
    }
}

#[test]
fn there_are_as_many_strides_as_sizes() {
    assert_refused(
        "WrongDimensionCount",
        "types[0][6]: strides: found 1 dimensions, needed 2 as in the shape",
        |capture| capture["types"][0][6][2] = json!([1]),
    );
    assert_refused(
        "WrongDimensionCount",
        "inputs[0].shape: found 3 dimensions, needed 2 as in the example",
        |capture| capture["inputs"][0]["shape"] = json!(["batch", 4, 1]),
    );
}

#[test]
fn tensors_have_no_more_dimensions_than_pytorch_allows() {
    assert_refused("TooManyDimensions", "types[0][4]: found 65 dimensions, needed at most 64", |capture| {
        capture["types"][0][4][1] = json!(vec![1; 65]);
    });
}

#[test]
fn shapes_are_the_examples_at_the_examples_sizes() {
    assert_refused("ExampleMismatch", "inputs[0].shape[0]: at the example's sizes it is 16, needed 8", |capture| {
        capture["inputs"][0]["shape"][0] = json!("2*batch");
        capture["symbols"][0]["dims"] = json!([]);
    });
    assert_refused(
        "ExampleMismatch",
        "targets[0].shape[0]: at the example's sizes it is nothing, needed 8",
        |capture| {
            capture["targets"][0]["shape"][0] = json!("batch//0");
        },
    );
}

#[test]
fn what_is_given_has_its_shape_in_every_variant() {
    assert_refused(
        "ShapeMismatch",
        "types[1][0]: tensor 0 has shape [3, 5], needed [3, 4] as it was given",
        |capture| capture["types"][1][0][1] = json!([3, 5]),
    );
    assert_refused("ShapeMismatch", "types[0][3]: tensor 4 has shape [7], needed [8] as it was given", |capture| {
        capture["types"][0][3][1] = json!(["batch-1"])
    });
}

#[test]
fn what_is_given_has_rows() {
    let message = "tensors[1]: found 4 tensors; parameters, buffers, inputs and targets alone are 5";
    assert_refused("TooFewTensors", message, |capture| {
        capture["tensors"][1].as_array_mut().expect("it is a list").truncate(4);
    });
}
