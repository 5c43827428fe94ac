//! Steps in which something is missing, ends wrongly, or is used at the wrong time.

use serde_json::{Value, json};

use crate::small::assert_refused;

fn steps(capture: &mut Value) -> &mut Vec<Value> {
    capture["steps"][0].as_array_mut().expect("it is a list")
}

#[test]
fn calls_have_as_many_arguments_as_their_operator() {
    for (arguments, count) in [(json!(["%3", "%0"]), 2), (json!(["%3", "%0", "%1", null]), 4), (json!([]), 0)] {
        let message = format!("steps[0][1]: operator `aten.linear.default`: found {count} arguments, needed 3");
        assert_refused("WrongArgumentCount", &message, |capture| capture["steps"][0][1][2] = arguments);
    }
}

#[test]
fn regions_end_in_the_order_they_began_in_reverse() {
    let message = "steps[0][7]: found the end of checkpoint, needed that of autocast, which began at steps[0][5]";
    assert_refused("WrongRegionEnd", message, |capture| capture["steps"][0][7] = json!(["end", "checkpoint"]));
    let message = "steps[0][16]: found the end of module 0, needed that of module 1, which began at steps[0][0]";
    assert_refused("WrongRegionEnd", message, |capture| capture["steps"][0][16][1] = json!(0));
}

#[test]
fn regions_begin_before_they_end() {
    assert_refused("EndWithoutBegin", "steps[0][0]: found the end of loss, which has not begun", |capture| {
        steps(capture).insert(0, json!(["end", "loss"]));
    });
}

#[test]
fn regions_end() {
    assert_refused("RegionNeverEnds", "steps[0][17]: loss begins here and never ends", |capture| {
        steps(capture).pop();
    });
}

#[test]
fn regions_nest_only_so_deep() {
    assert_refused("RegionsTooDeep", "steps[0][1000]: regions nest more than 1000 levels deep", |capture| {
        for _ in 0..1000 {
            steps(capture).insert(0, json!(["loss"]));
            steps(capture).push(json!(["end", "loss"]));
        }
    });
}

#[test]
fn tensors_are_made_before_they_are_used() {
    let message =
        "steps[0][1]: operator `aten.linear.default`: argument `input` names tensor 9, which no earlier step made";
    assert_refused("UsedBeforeMade", message, |capture| capture["steps"][0][1][2][0] = json!("%9"));
    assert_refused("UsedBeforeMade", "steps[0][0]: `enter` names tensor 8, which no earlier step made", |capture| {
        capture["steps"][0][0][2][0] = json!("%8")
    });
    assert_refused("UsedBeforeMade", "steps[0][8]: `free` names tensor 8, which no earlier step made", |capture| {
        capture["steps"][0][8][1] = json!([8])
    });
    assert_refused("UsedBeforeMade", "variants[1].held names tensor 5, which no earlier step made", |capture| {
        capture["variants"][1]["outputs"] = json!(null);
        capture["steps"][1] = json!([]);
    });
}

#[test]
fn constants_are_there_before_the_step() {
    let message =
        "steps[0][6]: operator `aten.mul.Tensor`: argument `other` names tensor 10, which no earlier step made";
    assert_refused("UsedBeforeMade", message, |capture| capture["variants"][0]["constants"] = json!([]));
}

#[test]
fn tensors_are_not_used_after_they_were_let_go_of() {
    let message =
        "steps[0][10]: operator `aten.relu_.default`: argument `self` names tensor 6, which was freed at steps[0][8]";
    assert_refused("UsedAfterFree", message, |capture| capture["steps"][0][10][2][0] = json!("%6"));
    assert_refused("UsedAfterFree", "steps[0][15]: `free` names tensor 6, which was freed at steps[0][8]", |capture| {
        capture["steps"][0][15][1] = json!([5, 6])
    });
    assert_refused("UsedAfterFree", "variants[0].held names tensor 7, which was freed at steps[0][15]", |capture| {
        capture["variants"][0]["held"] = json!([7])
    });
}
