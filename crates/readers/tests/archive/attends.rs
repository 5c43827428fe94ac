//! Attention of torch's own in evaluation, and what functions beside `forward` may hold.

use vramfit_graph::model::{Mode, Model, Precision, Step, TensorId, Variant};

use super::small::model;

fn evaluation(model: &Model) -> &Variant {
    model.variants.iter().find(|it| it.precision == Precision::AsBuilt && it.mode == Mode::Eval).unwrap()
}

fn calls<'a>(model: &'a Model, variant: &Variant) -> Vec<(&'a str, TensorId)> {
    let calls = model.steps[variant.steps].iter().filter_map(|step| match step {
        Step::Call(call) => {
            Some((model.operators[call.operator as usize].name.as_str(), call.results[0].expect("it returns a tensor")))
        }
        _ => None,
    });
    calls.collect()
}

#[test]
fn attention_is_fused_in_evaluation_as_in_a_capture() {
    let (archive, capture) = (model("attends.pt2"), model("attends.vramfit"));
    let names = |model: &Model| -> Vec<String> {
        calls(model, evaluation(model)).into_iter().map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(&archive), names(&capture));
    assert!(names(&archive).contains(&"aten._native_multi_head_attention.default".to_owned()));
    let trains = archive.variants.iter().find(|it| it.mode == Mode::Train).unwrap();
    assert!(calls(&archive, trains).iter().any(|(name, _)| *name == "aten.scaled_dot_product_attention.default"));
}

#[test]
fn what_a_function_makes_may_live_until_it_returns() {
    let model = model("attends.pt2");
    let variant = evaluation(&model);
    let steps = &model.steps[variant.steps];
    let calls = calls(&model, variant);
    let returned = steps
        .iter()
        .position(|step| matches!(step, Step::Call(call) if call.results[0] == Some(calls[calls.len() - 1].1)));
    for operator in ["aten.sigmoid.default", "aten.mul.Tensor"] {
        let made = calls.iter().find(|(name, _)| *name == operator).unwrap().1;
        let late = variant.late.iter().find(|late| late.tensor == made).expect(operator);
        assert!(late.until > returned.unwrap(), "{operator}: {late:?}");
    }
}
