//! Archives as torch writes them.

use std::collections::HashSet;

use vramfit_graph::bind::bind;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Cast, Mode, Model, Precision, Step, TensorId};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};

use super::small::{OPEN, model};

fn variant(model: &Model, precision: Precision, mode: Mode) -> usize {
    model.variants.iter().position(|it| it.precision == precision && it.mode == mode).unwrap()
}

fn steps(model: &Model, precision: Precision, mode: Mode) -> &[Step] {
    &model.steps[model.variants[variant(model, precision, mode)].steps]
}

fn operators<'a>(model: &'a Model, steps: &[Step]) -> Vec<&'a str> {
    let calls = steps.iter().filter_map(|step| match step {
        Step::Call(call) => Some(model.operators[call.operator as usize].name.as_str()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn every_version_of_torch_gives_the_same_model() {
    let first = model(OPEN[0]);
    for name in OPEN {
        let model = model(name);
        let names: Vec<&[String]> = model.parameters.iter().map(|weight| weight.names.as_slice()).collect();
        assert_eq!(names[0], ["embed.weight", "head.weight"], "{name}");
        assert_eq!(
            names[1..].concat(),
            ["up.weight", "up.bias", "norm.weight", "norm.bias", "down.weight", "down.bias"]
        );
        let frozen: Vec<&String> =
            model.parameters.iter().filter(|weight| !weight.requires_grad).map(|weight| &weight.names[0]).collect();
        assert_eq!(frozen, ["up.bias"], "{name}");
        let mut buffers: Vec<&String> = model.buffers.iter().map(|weight| &weight.names[0]).collect();
        buffers.sort();
        assert_eq!(buffers, ["extra", "scale"], "{name}");
        assert_eq!(model.inputs[0].name, "tokens");
        assert_eq!(model.inputs[0].example, [4, 6]);
        assert_eq!(model.parameter_count(), first.parameter_count());
        let calls = |model: &Model| -> Vec<String> {
            let found = operators(model, steps(model, Precision::AsBuilt, Mode::Train));
            found.into_iter().filter(|name| !name.starts_with("aten.to.")).map(str::to_owned).collect()
        };
        assert_eq!(calls(&model), calls(&first), "{name}");
    }
}

#[test]
fn modules_lines_and_classes_are_read() {
    for name in OPEN {
        let model = model(name);
        assert_eq!(model.class, "Tiny", "{name}");
        let up = model.modules.iter().find(|module| module.path.as_deref() == Some("up")).unwrap();
        assert_eq!(up.class, "Linear");
        assert!(model.sources.iter().any(|source| source.file == "make.py" && source.function == "forward"), "{name}");
        assert!(model.sources.iter().all(|source| !source.file.starts_with('/')), "{name}");
    }
}

#[test]
fn weights_are_moved_part_by_part() {
    let model = model("tiny-2.15.pt2");
    let names: Vec<&str> = model.move_order.iter().map(|tensor| name_of(&model, *tensor)).collect();
    let parts = ["embed.weight", "up.weight", "up.bias", "norm.weight", "norm.bias", "down.weight", "down.bias"];
    assert_eq!(names[..7], parts);
    assert_eq!(names.len(), 9);
}

fn name_of(model: &Model, tensor: TensorId) -> &str {
    &model.parameters.iter().chain(&model.buffers).find(|weight| weight.tensor == tensor).unwrap().names[0]
}

#[test]
fn a_region_without_gradients_is_one() {
    let model = model("tiny-2.15.pt2");
    let steps = steps(&model, Precision::AsBuilt, Mode::Train);
    let begin = steps.iter().position(|step| *step == Step::Grad(false)).unwrap();
    let end = steps.iter().position(|step| *step == Step::Grad(true)).unwrap();
    assert!(operators(&model, &steps[begin..end]).contains(&"aten.mean.default"));
}

#[test]
fn what_is_written_in_place_stays_the_same_tensor() {
    let model = model("tiny-2.15.pt2");
    let steps = steps(&model, Precision::AsBuilt, Mode::Train);
    let written = steps.iter().find_map(|step| match step {
        Step::Call(call) if model.operators[call.operator as usize].name == "aten.relu_.default" => Some(call),
        _ => None,
    });
    let call = written.unwrap();
    assert_eq!(call.arguments[0], Argument::Tensor(call.results[0].unwrap()));
}

#[test]
fn defaults_are_filled_in() {
    let model = model("tiny-2.15.pt2");
    for step in model.steps.iter().flatten() {
        if let Step::Call(call) = step {
            assert_eq!(call.arguments.len(), model.operators[call.operator as usize].arguments.len());
        }
    }
}

#[test]
fn no_tensor_is_used_before_it_is_made_or_after_it_went() {
    for name in OPEN.into_iter().chain(["tiny-fixed.pt2"]) {
        let model = model(name);
        for variant in &model.variants {
            let mut alive: HashSet<u32> = (0..model.given_count() as u32).collect();
            alive.extend(variant.constants.iter().map(|tensor| tensor.0));
            for step in &model.steps[variant.steps] {
                match step {
                    Step::Call(call) => {
                        for argument in &call.arguments {
                            for tensor in tensors(argument) {
                                assert!(alive.contains(&tensor.0), "{name}: {call:?}");
                            }
                        }
                        alive.extend(call.results.iter().flatten().map(|tensor| tensor.0));
                    }
                    Step::Free(tensors) => tensors.iter().for_each(|tensor| assert!(alive.remove(&tensor.0))),
                    _ => {}
                }
            }
            let kept = variant.outputs.iter().chain(&variant.loss).all(|tensor| alive.contains(&tensor.0));
            assert!(kept && alive.len() == model.given_count() + variant.constants.len() + variant.outputs.len());
        }
    }
}

fn tensors(argument: &Argument) -> Vec<TensorId> {
    match argument {
        Argument::Tensor(tensor) => vec![*tensor],
        Argument::List(items) => items.iter().flat_map(tensors).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn evaluation_turns_dropout_off_and_says_so() {
    let model = model("tiny-2.15.pt2");
    let train = operators(&model, steps(&model, Precision::AsBuilt, Mode::Train));
    let eval = operators(&model, steps(&model, Precision::AsBuilt, Mode::Eval));
    assert!(train.contains(&"aten.dropout.default") && !eval.contains(&"aten.dropout.default"));
    let variant = &model.variants[variant(&model, Precision::AsBuilt, Mode::Eval)];
    assert!(variant.causes.iter().any(|cause| cause.contains("turned off")), "{:?}", variant.causes);
}

#[test]
fn a_cast_model_computes_in_its_own_type() {
    let model = model("tiny-meta.pt2");
    let number = select_variant(&model, VariantFlags { dtype: Some(Dtype::Bfloat16), ..Default::default() }).unwrap();
    let bound = bind(&model, number, &Sizes::example(&model).unwrap()).unwrap();
    assert!(bound.tensors[..7].iter().all(|tensor| tensor.dtype == Dtype::Bfloat16));
    let output = bound.tensor(bound.variant.outputs[0]);
    // `arange(…).float().mean()` is single whatever the model is, but a scalar, which widens nothing.
    assert_eq!((output.dtype, output.shape.as_slice()), (Dtype::Bfloat16, [4, 6, 11].as_slice()));
}

#[test]
fn autocast_casts_weights_once_and_keeps_the_casts() {
    let model = model("tiny-meta.pt2");
    let steps = steps(&model, Precision::Autocast(Dtype::Bfloat16), Mode::Train);
    let kept = steps.iter().filter(|step| matches!(step, Step::Call(call) if call.cast == Cast::Kept)).count();
    // Three linear layers; the frozen bias is cast for its call alone.
    assert_eq!(kept, 4);
    let end = steps.iter().position(|step| *step == Step::EndAutocast).unwrap();
    assert!(matches!(&steps[end + 1..], [Step::Free(casts)] if casts.len() == 4));
}

#[test]
fn sizes_keep_to_what_was_exported() {
    let model = model("tiny-2.15.pt2");
    assert!(model.symbols.iter().any(|symbol| symbol.range.is_some_and(|range| range.most == Some(512))));
    let select = |batch: i64, sequence: i64| {
        Sizes::select(&model, &SizeFlags { batch: Some(batch), sequence: Some(sequence), ..Default::default() })
    };
    for (batch, sequence) in [(1, 1), (2, 512), (4096, 7)] {
        let sizes = select(batch, sequence).unwrap();
        let bound = bind(&model, 0, &sizes).unwrap();
        assert_eq!(bound.tensor(bound.variant.outputs[0]).shape.as_slice(), [batch, sequence, 11]);
    }
    let error = select(4, 513).unwrap_err();
    assert!(error.to_string().starts_with("--seq 513: dimension 1 of `tokens` was exported for "), "{error}");
    assert!(error.to_string().ends_with(" to 512, found 513"), "{error}");
    let hint = "export again with that size dynamic: torch.export.export(model, args, \
                dynamic_shapes={\"tokens\": {1: torch.export.Dim(\"seq\", max=513)}})";
    assert_eq!(error.hint().unwrap(), hint);
}

#[test]
fn an_archive_of_one_size_says_how_to_export_again() {
    let model = model("tiny-fixed.pt2");
    assert!(Sizes::select(&model, &SizeFlags { batch: Some(4), ..Default::default() }).is_ok());
    let error = Sizes::select(&model, &SizeFlags { batch: Some(8), ..Default::default() }).unwrap_err();
    assert_eq!(error.to_string(), "--batch 8: the archive was exported at one size only: tokens 4x6");
    let open = r#"dynamic_shapes={"tokens": {0: torch.export.Dim("batch", max=8)}}"#;
    assert!(error.hint().unwrap().contains(open), "{error:?}");
    let error = Sizes::select(&model, &SizeFlags { sizes: vec!["tokens=4x9".to_owned()], ..Default::default() });
    let hint = error.unwrap_err().hint().unwrap();
    assert!(hint.contains(r#"dynamic_shapes={"tokens": {1: torch.export.Dim("seq", max=9)}}"#), "{hint}");
}
