//! What Python holds, as far as an archive tells, and what may live longer.

use vramfit_graph::model::{Mode, Model, Step, TensorId};

use super::small::{OPEN, model};

fn made_by(model: &Model, steps: &[Step], operator: &str) -> Vec<TensorId> {
    let made = steps.iter().filter_map(|step| match step {
        Step::Call(call) if model.operators[call.operator as usize].name == operator => call.results[0],
        _ => None,
    });
    made.collect()
}

fn freed_at(steps: &[Step], tensor: TensorId) -> usize {
    steps.iter().position(|step| matches!(step, Step::Free(tensors) if tensors.contains(&tensor))).unwrap()
}

#[test]
fn the_model_returns_its_outputs() {
    for name in OPEN {
        let model = model(name);
        for variant in &model.variants {
            let steps = &model.steps[variant.steps];
            let exits: Vec<&Step> = steps.iter().filter(|step| matches!(step, Step::Exit(..))).collect();
            assert_eq!(exits.last(), Some(&&Step::Exit(0, variant.outputs.clone())), "{name}");
            assert!(exits.iter().all(|step| !matches!(step, Step::Exit(_, results) if results.is_empty())), "{name}");
        }
    }
}

#[test]
fn what_a_list_may_hold_is_told_to_live_until_the_function_returns() {
    let model = model("skips.pt2");
    let variant = model.variants.iter().find(|variant| variant.mode == Mode::Eval).unwrap();
    let steps = &model.steps[variant.steps];
    let end = steps.iter().position(|step| matches!(step, Step::Exit(0, _))).unwrap();
    let skip = made_by(&model, steps, "aten.sin.default")[0];
    let late = variant.late.iter().find(|late| late.tensor == skip).unwrap();
    assert!(freed_at(steps, skip) < late.until && late.until <= end, "{late:?}");
    assert!(variant.late.is_sorted_by_key(|late| late.until));
    // Its last use is what the steps say.
    let users = steps.iter().enumerate().filter(|(_, step)| match step {
        Step::Call(call) => call.arguments.contains(&vramfit_graph::model::Argument::Tensor(skip)),
        _ => false,
    });
    assert!(users.map(|(at, _)| at).max().unwrap() < freed_at(steps, skip));
}

#[test]
fn names_in_code_without_spaces_hold_their_tensors() {
    let model = model("skips.pt2");
    let variant = model.variants.iter().find(|variant| variant.mode == Mode::Eval).unwrap();
    let steps = &model.steps[variant.steps];
    // `x=torch.sin(layer(x))`: the second layer's input is `x` until its sine is there.
    let (layers, sines) = (made_by(&model, steps, "aten.linear.default"), made_by(&model, steps, "aten.sin.default"));
    let made = |tensor: TensorId| {
        steps.iter().position(|step| matches!(step, Step::Call(call) if call.results.contains(&Some(tensor)))).unwrap()
    };
    assert!(freed_at(steps, layers[0]) < made(layers[1]));
    assert!(freed_at(steps, sines[1]) > made(layers[2]));
}

#[test]
fn a_plain_model_leaves_nothing_open() {
    for name in OPEN {
        for variant in &model(name).variants {
            assert_eq!(variant.late, [], "{name}");
        }
    }
}
