//! Sizes of archives: those that are multiples of others, and those that data decides.

use vramfit_graph::bind::bind;
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeError, SizeFlags, Sizes};
use vramfit_readers::read_bytes;

use super::small::{archive, graph, model};

fn select(model: &Model, batch: Option<i64>, sizes: &[&str]) -> Result<Sizes, SizeError> {
    let sizes = sizes.iter().map(|text| (*text).to_owned()).collect();
    Sizes::select(model, &SizeFlags { batch, sequence: None, sizes })
}

fn shape_of_input(model: &Model, sizes: &Sizes) -> Vec<i64> {
    bind(model, 0, sizes).unwrap().tensor(model.inputs[0].tensor).shape.to_vec()
}

#[test]
fn multiples_take_the_examples_sizes() {
    let model = model("pairs.pt2");
    assert_eq!(model.inputs[0].example, [8, 3, 104]);
    assert_eq!(shape_of_input(&model, &Sizes::example(&model).unwrap()), [8, 3, 104]);
    // The hint of a multiple is enough: here no symbol stands alone.
    let text = graph("pairs.pt2");
    let alone = "{\"expr_str\": \"Symbol('s3', positive=True, integer=True)\", \"hint\": {\"as_int\": 4}}";
    let unhinted = "{\"expr_str\": \"Symbol('s3', positive=True, integer=True)\", \"hint\": null}";
    assert!(text.contains(alone));
    let model = read_bytes(&archive(&text.replace(alone, unhinted))).unwrap();
    assert_eq!(model.inputs[0].example, [8, 3, 104]);
}

#[test]
fn multiples_are_solved_for_their_symbols() {
    let model = model("pairs.pt2");
    assert_eq!(shape_of_input(&model, &select(&model, Some(32), &[]).unwrap()), [32, 3, 104]);
    assert_eq!(shape_of_input(&model, &select(&model, None, &["x=16x3x400"]).unwrap()), [16, 3, 400]);
    let error = select(&model, Some(33), &[]).unwrap_err();
    assert_eq!(error.to_string(), "--batch 33: dimension 0 of `x`, 2*s3, must be a multiple of 2, found 33");
    assert_eq!(error.hint().unwrap(), "the nearest possible: 32 or 34");
}

#[test]
fn ranges_of_multiples_are_told_in_the_inputs_sizes() {
    let model = model("pairs.pt2");
    let error = select(&model, None, &["x=8x3x20000"]).unwrap_err();
    let message = "--size x=8x3x20000: dimension 2 of `x`, 4*s81, was exported for 32 to 16384, found 20000";
    assert_eq!(error.to_string(), message);
    let open = r#"dynamic_shapes={"x": {2: 4 * torch.export.Dim("x_2", max=5000)}}"#;
    assert!(error.hint().unwrap().contains(open), "{error:?}");
    let error = select(&model, None, &["s81=5000"]).unwrap_err();
    assert_eq!(error.to_string(), "--size s81=5000: symbol `s81` was exported for 8 to 4096, found 5000");
    assert!(error.hint().unwrap().contains(open), "{error:?}");
    let error = select(&model, None, &["x=8x3x16"]).unwrap_err();
    assert!(error.hint().unwrap().contains("torch.export.Dim(\"x_2\", min=4)"), "{error:?}");
}

#[test]
fn a_size_that_data_decides_is_asked_for() {
    let model = model("masked.pt2");
    let error = select(&model, None, &[]).unwrap_err();
    let message = "size `u0` is not known: the data that node `index` (aten.index.Tensor) gets decides it, 64 at most";
    assert_eq!(error.to_string(), message);
    assert!(error.hint().unwrap().ends_with("with --size u0=N"), "{error:?}");
    let sizes = select(&model, None, &["u0=40"]).unwrap();
    let bound = bind(&model, 0, &sizes).unwrap();
    assert_eq!(bound.tensor(bound.variant.outputs[0]).shape.as_slice(), [40, 4]);
    let causes = &bound.variant.causes;
    assert!(causes.iter().any(|cause| cause.contains("`u0`") && cause.contains("given by hand")), "{causes:?}");
    assert!(select(&model, None, &["u0=65"]).unwrap_err().to_string().contains("1 to 64, found 65"));
}

#[test]
fn names_that_are_not_there_are_answered_with_an_inputs_shape() {
    let model = model("pairs.pt2");
    let error = select(&model, None, &["batch=4"]).unwrap_err();
    let hint =
        "torch.export gives symbols names of its own; give the whole shape of an input, such as --size x=8x3x104";
    assert_eq!(error.hint().unwrap(), hint);
}

#[test]
fn a_flag_for_inputs_that_are_not_there_is_answered_with_an_inputs_shape() {
    let model = model("pairs.pt2");
    let error = Sizes::select(&model, &SizeFlags { sequence: Some(5), ..SizeFlags::default() }).unwrap_err();
    assert_eq!(error.hint().unwrap(), "give the whole shape of an input, such as --size x=8x3x104");
}
