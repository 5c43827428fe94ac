//! Recorded backwards of custom functions: good ones are read, bad ones refused.

use serde_json::{Value, json};
use vramfit_graph::model::{Step, TensorId};

use crate::small::{assert_refused, read, small};

/// A backward of the small capture's function.
fn backward() -> Value {
    json!({
        "end": 14, "arguments": ["%7"], "kept": [], "gradients": ["%5"], "results": ["%6"],
        "steps": [["call", 2, ["%5", "%7"], ["%6"], 0], ["free", [5]]],
    })
}

fn add(capture: &mut Value, backward: Value) {
    capture["variants"][0]["functions"] = json!([backward]);
}

#[test]
fn a_backward_is_read_with_its_variant() {
    let mut capture = small();
    add(&mut capture, backward());
    let model = read(&capture).expect("the capture is good");
    let [function] = &model.variants[0].functions[..] else { panic!("there is one") };
    assert_eq!((function.end, &function.arguments), (14, &Some(vec![TensorId(7)])));
    assert_eq!((&function.gradients[..], &function.results[..]), (&[Some(TensorId(5))][..], &[Some(TensorId(6))][..]));
    assert_eq!(function.steps[1], Step::Free(vec![TensorId(5)]));
    assert!(model.variants[1].functions.is_empty());
}

#[test]
fn bad_backwards_are_refused() {
    let at = "variants[0].functions[0]";
    let cases = [
        ("/end", json!(13), "NotAFunctionEnd", format!("{at}.end: step 13 does not end a custom function")),
        ("/end", json!(20), "NoSuchNumber", format!("{at}.end names step 20, needed a number below 20")),
        (
            "/arguments/0",
            json!("%11"),
            "NoSuchNumber",
            format!("{at}.arguments names tensor 11, needed a number below 11"),
        ),
        (
            "/gradients/0",
            json!("%11"),
            "NoSuchNumber",
            format!("{at}.gradients names tensor 11, needed a number below 11"),
        ),
        ("/results/0", json!("%11"), "NoSuchNumber", format!("{at}.results names tensor 11, needed a number below 11")),
        ("/steps/0/1", json!(8), "NoSuchNumber", format!("{at}.steps[0] names operator 8, needed a number below 8")),
        (
            "/steps/1/1/0",
            json!(11),
            "NoSuchNumber",
            format!("{at}.steps[1]: `free` names tensor 11, needed a number below 11"),
        ),
    ];
    for (pointer, value, variant, message) in cases {
        assert_refused(variant, &message, |capture| {
            let mut backward = backward();
            *backward.pointer_mut(pointer).expect("it is there") = value;
            add(capture, backward);
        });
    }
}

#[test]
fn tensors_of_a_backward_are_made_before_they_are_used() {
    let spoilt = |pointer: &'static str, value: Value| {
        move |capture: &mut Value| {
            let mut backward = backward();
            *backward.pointer_mut(pointer).expect("it is there") = value;
            add(capture, backward);
        }
    };
    let error = |pointer, value| {
        let mut capture = small();
        spoilt(pointer, value)(&mut capture);
        format!("{:?}", read(&capture).expect_err("the capture is bad"))
    };
    assert!(error("/steps/0/2/1", json!("%9")).contains("UsedBeforeMade"));
    assert!(error("/kept", json!(["%9"])).contains("UsedBeforeMade"));
    assert!(error("/results/0", json!("%9")).contains("UsedBeforeMade"));
    assert!(error("/steps/0", json!(["free", [5]])).contains("UsedAfterFree"));
    assert!(error("/steps/0", json!(["loss"])).contains("RegionNeverEnds"));
}

#[test]
fn a_backward_that_runs_another_one_is_not_simulated() {
    let mut capture = small();
    let mut incomplete = backward();
    incomplete["steps"] = json!([["grad", true], ["call", 2, ["%9", "%7"], ["%6"], 0], ["grad", false]]);
    add(&mut capture, incomplete);
    let model = read(&capture).expect("the capture is good");
    assert!(!model.variants[0].functions[0].is_complete());
}
