//! Tables and variants that name what is not there, or name it wrongly.

use serde_json::json;

use crate::small::assert_refused;

#[test]
fn numbers_must_name_something() {
    let cases = [
        ("/move_order/1", 3, "move_order[1] names tensor 3, needed a number below 3"),
        ("/variants/0/types", 2, "variants[0].types names section 2, needed a number below 2"),
        ("/variants/0/tensors", 2, "variants[0].tensors names section 2, needed a number below 2"),
        ("/variants/1/steps", 7, "variants[1].steps names section 7, needed a number below 2"),
        ("/variants/0/constants/0", 11, "variants[0].constants names tensor 11, needed a number below 11"),
        ("/variants/1/held/5", 6, "variants[1].held names tensor 6, needed a number below 6"),
        ("/tensors/0/9/0", 7, "tensors[0][9] names type 7, needed a number below 7"),
        ("/tensors/0/9/1", 11, "tensors[0][9] names storage 11, needed a number below 11"),
        ("/steps/0/0/1", 3, "steps[0][0] names module 3, needed a number below 3"),
        ("/steps/0/16/1", 4, "steps[0][16] names module 4, needed a number below 3"),
        ("/steps/0/1/1", 8, "steps[0][1] names operator 8, needed a number below 8"),
        ("/steps/0/1/4", 1, "steps[0][1]: operator `aten.linear.default` names source 1, needed a number below 1"),
        ("/steps/0/8/1/0", 11, "steps[0][8]: `free` names tensor 11, needed a number below 11"),
    ];
    for (pointer, number, message) in cases {
        assert_refused("NoSuchNumber", message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!(number);
        });
    }
}

#[test]
fn tensors_of_steps_must_be_there() {
    let cases = [
        (
            "/steps/0/1/2/1",
            "steps[0][1]: operator `aten.linear.default`: argument `weight` names tensor 512, needed a number below 11",
        ),
        (
            "/steps/0/1/3/0",
            "steps[0][1]: operator `aten.linear.default`: result names tensor 512, needed a number below 11",
        ),
        ("/steps/0/0/2/0", "steps[0][0]: `enter` names tensor 512, needed a number below 11"),
        ("/steps/0/16/2/0", "steps[0][16]: `exit` names tensor 512, needed a number below 11"),
        ("/steps/0/9/3/0", "steps[0][9]: `checkpoint` names tensor 512, needed a number below 11"),
        ("/steps/0/12/2/0", "steps[0][12]: `function` names tensor 512, needed a number below 11"),
        ("/steps/0/14/2/0", "steps[0][14]: `end` names tensor 512, needed a number below 11"),
        ("/steps/0/14/3/0", "steps[0][14]: `end` names tensor 512, needed a number below 11"),
        ("/variants/0/loss", "variants[0].loss names tensor 512, needed a number below 11"),
        ("/variants/0/outputs/items/again/items/0", "variants[0].outputs names tensor 512, needed a number below 11"),
    ];
    for (pointer, message) in cases {
        assert_refused("NoSuchNumber", message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!("%512");
        });
    }
}

#[test]
fn tensors_within_lists_of_arguments_must_be_there() {
    let message =
        "steps[0][3]: operator `aten.view.default`: argument `size` names tensor 99, needed a number below 11";
    assert_refused("NoSuchNumber", message, |capture| capture["steps"][0][3][2][1] = json!([[null, ["%99"]]]));
}

#[test]
fn a_section_is_checked_against_every_variant_that_uses_it() {
    // The second section of tensors has six, and the first section of steps needs eleven.
    let message = "steps[0][3]: operator `aten.view.default`: result names tensor 6, needed a number below 6";
    assert_refused("NoSuchNumber", message, |capture| {
        let third = json!({"precision": "bf16", "mode": "train", "grad": true, "types": 0, "tensors": 1, "steps": 0,
            "constants": [], "outputs": null, "loss": null, "held": []});
        capture["variants"].as_array_mut().expect("it is a list").push(third);
    });
}

#[test]
fn what_is_given_is_numbered_in_order() {
    let cases = [
        ("/parameters/1/tensor", "parameters[1]: found tensor 7, needed 1"),
        ("/buffers/0/tensor", "buffers[0]: found tensor 7, needed 2"),
        ("/inputs/0/tensor", "inputs[0]: found tensor 7, needed 3"),
        ("/targets/0/tensor", "targets[0]: found tensor 7, needed 4"),
    ];
    for (pointer, message) in cases {
        let message = format!("{message}: parameters, buffers, inputs and targets are numbered in order");
        assert_refused("WrongTensorNumber", &message, |capture| {
            *capture.pointer_mut(pointer).expect("it is there") = json!(7);
        });
    }
}

#[test]
fn every_weight_is_moved_once() {
    assert_refused("MovedTwice", "move_order[2] names tensor 0 for the second time", |capture| {
        capture["move_order"] = json!([0, 1, 0]);
    });
    assert_refused("NeverMoved", "move_order: tensor 1, a parameter or buffer, is missing", |capture| {
        capture["move_order"] = json!([2, 0]);
    });
}

#[test]
fn names_stand_once() {
    let twice = |message: &str, table: &str, row: usize| {
        assert_refused("DuplicateName", message, |capture| {
            let row = capture[table][row].clone();
            capture[table].as_array_mut().expect("it is a list").push(row);
        });
    };
    twice("symbols: the symbol `batch` occurs twice", "symbols", 0);
    twice("modules: the module `inner` occurs twice", "modules", 1);
    twice("operators: the operator `aten.view.default` occurs twice", "operators", 1);
    twice("inputs: the input `x` occurs twice", "inputs", 0);
    twice("targets: the target `y` occurs twice", "targets", 0);
    twice("parameters and buffers: the name `scale` occurs twice", "buffers", 0);
}

#[test]
fn symbols_must_be_names() {
    for name in ["", "2x", "a-b", "a b", "%1"] {
        let message = format!("symbols[0].name: found `{name}`, needed a name of letters, digits and `_`");
        assert_refused("BadSymbolName", &message, |capture| capture["symbols"][0]["name"] = json!(name));
    }
}

#[test]
fn symbols_have_a_limit() {
    assert_refused("TooManySymbols", "symbols: found 257; at most 256 are read", |capture| {
        let symbol = |number: usize| json!({"name": format!("s{number}"), "example": 1, "recorded": [], "dims": []});
        capture["symbols"] = (0..257).map(symbol).collect();
    });
}

#[test]
fn symbols_stand_where_they_say() {
    for (input, dim) in [("x", 1), ("x", 2), ("z", 0)] {
        let message =
            format!("symbols[0].dims[1]: symbol `batch` is not dimension {dim} of an input or target `{input}`");
        assert_refused("SymbolNotThere", &message, |capture| capture["symbols"][0]["dims"][1] = json!([input, dim]));
    }
}

#[test]
fn there_is_at_least_one_variant() {
    assert_refused("NoVariants", "variants: found none, needed at least one", |capture| {
        capture["variants"] = json!([])
    });
}

#[test]
fn a_precision_and_mode_stands_once() {
    assert_refused("DuplicateVariant", "variants[2]: fp32 train is already variants[0]", |capture| {
        let first = capture["variants"][0].clone();
        capture["variants"].as_array_mut().expect("it is a list").push(first);
    });
}

#[test]
fn the_grad_mode_is_the_modes() {
    assert_refused("WrongGradMode", "variants[1].grad: found true, needed false for mode eval", |capture| {
        capture["variants"][1]["grad"] = json!(true);
    });
}

#[test]
fn every_section_is_some_variants() {
    for table in ["types", "tensors", "steps"] {
        let message = format!("{table}[2]: no variant uses this section");
        assert_refused("UnusedSection", &message, |capture| {
            capture[table].as_array_mut().expect("it is a list").push(json!([]));
        });
    }
}
