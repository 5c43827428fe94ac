//! Good captures.

use std::path::Path;

use serde_json::json;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Cast, ExpressionId, MemoryFormat, Mode, Model, Precision, Size, Step, TensorId};
use vramfit_readers::{ReadError, read_bytes, read_file};

use crate::small::{read, small};

fn capture(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name);
    read_file(path).expect("the capture is good")
}

#[test]
fn a_capture_has_one_of_everything() {
    let model = read(&small()).expect("the capture is good");
    assert_eq!(model.class, "Small");
    assert_eq!(model.notes, ["made by hand"]);
    assert_eq!(model.symbol_names(), ["batch"]);
    assert_eq!(model.symbols[0].recorded, [3, 5, 8]);
    assert_eq!(model.symbols[0].dims, [("x".to_owned(), 0), ("y".to_owned(), 0)]);
    assert_eq!(model.modules[1].path.as_deref(), Some("inner"));
    assert_eq!(model.modules[2].path, None);
    assert_eq!(model.operators[1].arguments, ["self", "size"]);
    assert_eq!((model.sources[0].line, model.sources[0].function.as_str()), (12, "forward"));
    assert_eq!(model.parameters[0].names, ["inner.weight", "tied.weight"]);
    assert!(model.parameters[0].requires_grad && !model.parameters[1].requires_grad);
    assert_eq!(model.buffers[0].tensor, TensorId(2));
    assert_eq!(model.move_order, [0, 1, 2].map(TensorId));
    assert_eq!(model.parameter_count(), Some(15));
    assert_eq!(model.given_count(), 5);
    assert_eq!(model.inputs[0].shape[1], Size::Known(4));
    assert_eq!(model.size_text(model.targets[0].shape[0]), "batch");

    let train = &model.variants[0];
    assert_eq!((train.precision, train.mode, train.has_grad), (Precision::Cast(Dtype::Float32), Mode::Train, true));
    assert_eq!(train.outputs, [TensorId(9), TensorId(8)]);
    assert_eq!(train.paths, [".loss", ".logits"]);
    assert_eq!(train.loss, Some(TensorId(9)));
    assert_eq!(train.constants, [TensorId(10)]);
    assert_eq!(model.variants[1].precision, Precision::Autocast(Dtype::Bfloat16));
    assert_eq!(model.variants[1].outputs, [TensorId(5)]);

    let strided = &model.types[0][6];
    assert_eq!(model.size_text(strided.strides.as_ref().expect("it has strides")[1]), "(batch+1)*3//2");
    let view = &model.tensors[0][6];
    assert_eq!((view.storage, view.is_view, view.requires_grad, view.is_leaf), (5, true, true, false));
    assert!(model.tensors[0][10].is_on_host);
}

#[test]
fn outputs_are_reached_as_the_model_returns_them() {
    let paths = |outputs: serde_json::Value| {
        let mut capture = small();
        capture["variants"][0]["outputs"] = outputs;
        read(&capture).expect("the capture is good").variants.swap_remove(0).paths
    };
    assert_eq!(paths(json!("%9")), [""]);
    assert_eq!(paths(json!({"class": "tuple", "items": ["%9", null, "%8"]})), ["[0]", "[2]"]);
    assert_eq!(paths(json!({"class": "OrderedDict", "items": {"out": "%8", "aux": "%9"}})), ["[\"out\"]", "[\"aux\"]"]);
    let nested = json!({"class": "Output", "items": {"all": {"class": "list", "items": ["%9", "%9"]}, "logits": "%8"}});
    assert_eq!(paths(nested), [".all[0]", ".logits"]);
    // A class of the user's own over `dict`.
    let own = json!({"class": "Output", "keys": true, "items": {"loss": "%9", "logits": "%8"}});
    assert_eq!(paths(own), ["[\"loss\"]", "[\"logits\"]"]);
}

#[test]
fn steps_are_read_as_they_stand() {
    let model = read(&small()).expect("the capture is good");
    let steps = &model.steps[0];
    let seven = || vec![TensorId(7)];
    assert_eq!(steps[0], Step::Enter(1, vec![TensorId(3)]));
    assert_eq!(steps[2], Step::Grad(false));
    let autocast = Step::Autocast { is_gpu: true, dtype: Some(Dtype::Bfloat16), is_enabled: false, has_cache: true };
    assert_eq!(steps[5], autocast);
    assert_eq!(steps[7], Step::EndAutocast);
    assert_eq!(steps[8], Step::Free(vec![TensorId(6)]));
    assert_eq!(steps[9], Step::Checkpoint { is_reentrant: false, preserves_rng: true, arguments: seven() });
    assert_eq!(steps[11], Step::EndCheckpoint(Vec::new()));
    assert_eq!(steps[12], Step::Function { name: "Scale".to_owned(), arguments: seven() });
    assert_eq!(steps[14], Step::EndFunction { results: vec![TensorId(8)], saved: seven() });
    assert_eq!(steps[16], Step::Exit(1, vec![TensorId(8)]));
    assert_eq!((&steps[17], &steps[19]), (&Step::Loss, &Step::EndLoss));
    let Step::Call(view) = &steps[3] else { panic!("the fourth step is a call") };
    assert_eq!(view.results, [Some(TensorId(6)), None]);
    assert_eq!((view.source, view.cast), (None, Cast::No));
    let Argument::List(size) = &view.arguments[1] else { panic!("its second argument is a list") };
    assert_eq!(size[0], Argument::Int(Size::Symbolic(ExpressionId(0))));
    assert_eq!(size[2], Argument::Int(Size::Known(-1)));
    let casts = [6, 10].map(|at| match &steps[at] {
        Step::Call(call) => call.cast,
        _ => panic!("these steps are calls"),
    });
    assert_eq!(casts, [Cast::ForCall, Cast::Kept]);
}

#[test]
fn every_kind_of_argument_is_read() {
    let model = read(&small()).expect("the capture is good");
    let arguments = |step: usize| match &model.steps[1][step] {
        Step::Call(call) => &call.arguments[1..],
        _ => panic!("all steps are calls"),
    };
    assert_eq!(arguments(1), [Argument::Text("none".to_owned())]);
    let to = [
        Argument::Dtype(Dtype::Bfloat16),
        Argument::Other,
        Argument::Device { is_host: false },
        Argument::Bool(false),
        Argument::MemoryFormat(MemoryFormat::ChannelsLast),
    ];
    assert_eq!(arguments(2), to);
    let list = [
        Argument::Float(f64::NEG_INFINITY),
        Argument::Other,
        Argument::Other,
        Argument::Other,
        Argument::Device { is_host: true },
        Argument::Bool(true),
        Argument::Int(Size::Known(i64::MAX)),
    ];
    assert_eq!(arguments(3), [Argument::List(list.to_vec())]);
}

#[test]
fn the_gzip_layer_may_be_missing() {
    let plain = small().to_string();
    assert_eq!(read_bytes(plain.as_bytes()).expect("it is good"), read(&small()).expect("it is good"));
}

#[test]
fn keys_that_are_not_known_are_skipped() {
    let mut capture = small();
    capture["later"] = json!({"anything": [1, {"deep": []}]});
    capture["variants"][0]["later"] = json!([[[]]]);
    capture["inputs"][0]["later"] = json!(null);
    assert_eq!(read(&capture).expect("it is good"), read(&small()).expect("it is good"));
}

#[test]
fn keys_may_stand_in_any_order() {
    let capture = small();
    let keys = capture.as_object().expect("it is an object");
    let turned: serde_json::Map<_, _> = keys.iter().rev().map(|(key, value)| (key.clone(), value.clone())).collect();
    let turned = read(&turned.into()).expect("it is good");
    assert_eq!(turned.steps.len(), 2);
    assert_eq!(turned.expressions.len(), read(&capture).expect("it is good").expressions.len());
}

#[test]
fn a_capture_of_one_size_has_no_symbols() {
    let text = small().to_string();
    let text = text.replace("\"batch\"", "8").replace("\"3*batch\"", "24").replace("\"batch-1\"", "7");
    let mut capture: serde_json::Value =
        serde_json::from_str(&text.replace("\"(batch+1)*3//2\"", "13")).expect("it is JSON");
    capture["symbols"] = json!([]);
    let model = read(&capture).expect("it is good");
    assert!(model.symbols.is_empty() && model.expressions.is_empty());
}

#[test]
fn the_mlp_is_read() {
    let model = capture("mlp.vramfit");
    assert_eq!(model.class, "Sequential");
    assert_eq!(model.parameter_count(), Some(512 * 784 + 512 + 256 * 512 + 256 + 10 * 256 + 10));
    assert_eq!(model.variants.len(), 18);
    assert_eq!(model.expressions.len(), 1);
}

#[test]
fn bert_base_is_read() {
    let model = capture("bert-base.vramfit");
    assert_eq!(model.class, "BertForMaskedLM");
    assert_eq!(model.parameters.len(), 202);
    assert_eq!(model.parameter_count(), Some(109_514_298));
    assert_eq!(model.symbol_names(), ["batch", "seq"]);
    assert_eq!(model.given_count(), 207);
    // `batch`, `seq`, `batch*seq`, `768*seq` and `64*seq`, each once.
    assert_eq!(model.expressions.len(), 5);
    assert_eq!(model.steps.len(), 6);
}

#[test]
fn a_file_that_is_not_there_is_an_error_of_the_system() {
    let error = read_file("no/such/file.vramfit").expect_err("it is not there");
    assert!(matches!(error, ReadError::Io(_)));
    assert!(error.hint().is_none());
}
