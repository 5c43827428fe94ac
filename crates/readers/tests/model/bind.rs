//! Binding: numbers in place of symbols.

use vramfit_graph::bind::{BindError, BoundStep, BoundTensor, Value, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Example, Model, Size, Step, TensorId};
use vramfit_graph::select::Sizes;

use crate::captures::{add, bert_base, mlp, mlp_of_one_size};

fn example(model: &Model) -> Sizes {
    Sizes::example(model).expect("all sizes have examples")
}

fn sizes(model: &Model, symbols: &[(&str, i64)]) -> Sizes {
    Sizes::with(model, symbols).expect("the sizes are good")
}

/// The tensors 8 and 9, as errors name them.
const EIGHTH: &str =
    "tensor 8, result of `aten.linear.default` in `0` (site-packages/torch/nn/modules/linear.py:134 in forward)";
const NINTH: &str =
    "tensor 9, result of `aten.relu.default` in `1` (site-packages/torch/nn/functional.py:1723 in relu)";

#[track_caller]
fn assert_refused(model: &Model, symbols: &[(&str, i64)], message: &str) -> BindError {
    let error = bind(model, 0, &sizes(model, symbols)).map(|_| ()).expect_err("it cannot be bound");
    assert_eq!(error.to_string(), message);
    error
}

#[test]
fn tensors_have_numbers() {
    let model = mlp();
    let bound = bind(&model, 0, &sizes(&model, &[("batch", 5)])).expect("it can be bound");
    assert_eq!(bound.tensors.len(), 14);
    let input = bound.tensor(TensorId(6));
    let expected = BoundTensor {
        dtype: Dtype::Float32,
        shape: [5, 784].into(),
        strides: [784, 1].into(),
        storage: input.storage,
        offset: 0,
        elements: 3920,
        bytes: 15680,
        extent: 15680,
        requires_grad: false,
        is_leaf: true,
        is_on_host: false,
        is_view: false,
    };
    assert_eq!(*input, expected);
    let loss = bound.tensor(bound.variant.loss.expect("it has a loss"));
    assert_eq!((loss.shape.len(), loss.elements, loss.bytes), (0, 1, 4));
}

#[test]
fn steps_are_those_of_the_model() {
    let model = bert_base();
    for variant in 0..model.variants.len() {
        let bound = bind(&model, variant, &example(&model)).expect("it can be bound");
        let steps = &model.steps[bound.variant.steps];
        assert_eq!(bound.steps.len(), steps.len());
        for (step, bound_step) in steps.iter().zip(&bound.steps) {
            match (step, bound_step) {
                (Step::Call(call), BoundStep::Call(bound_call)) => {
                    assert_eq!(call.operator, bound_call.operator);
                    assert_eq!(call.arguments.len(), bound_call.arguments.len());
                    assert_eq!(
                        (&call.results[..], call.source, call.cast),
                        (bound_call.results, bound_call.source, bound_call.cast)
                    );
                }
                (Step::Free(tensors), BoundStep::Free(bound_tensors)) => assert_eq!(tensors, bound_tensors),
                (Step::Enter(module, _), BoundStep::Enter(bound_module, _)) => assert_eq!(module, bound_module),
                (step, bound_step) => {
                    let name = |text: String| text.chars().take_while(|it| it.is_alphanumeric()).collect::<String>();
                    assert_eq!(name(format!("{step:?}")), name(format!("{bound_step:?}")));
                }
            }
        }
    }
}

#[test]
fn arguments_have_numbers() {
    let model = bert_base();
    let bound = bind(&model, 0, &sizes(&model, &[("batch", 3), ("seq", 50)])).expect("it can be bound");
    let views: Vec<&[Value]> = bound
        .steps
        .iter()
        .filter_map(|step| match step {
            BoundStep::Call(call) if bound.operator_name(call) == "aten.view.default" => Some(&call.arguments[..]),
            _ => None,
        })
        .collect();
    let heads = Value::List([3, 50, -1, 64].map(Value::Int).to_vec());
    assert!(views.iter().any(|arguments| arguments[1] == heads), "{views:?}");
}

#[test]
fn every_example_shape_comes_out_as_recorded() {
    let model = bert_base();
    let bound = bind(&model, 0, &example(&model)).expect("it can be bound");
    for input in model.inputs.iter().chain(&model.targets) {
        assert_eq!(bound.tensor(input.tensor).shape.as_slice(), input.example);
    }
    let views = bound.tensors.iter().filter(|tensor| tensor.is_view);
    assert!(views.clone().count() > 10);
    for view in views {
        let base = bound.tensors.iter().find(|tensor| tensor.storage == view.storage && !tensor.is_view);
        assert!(base.is_some_and(|base| view.extent <= base.extent), "{view:?}");
    }
}

#[test]
fn strides_beyond_64_bits_are_refused_though_there_are_no_elements() {
    let mut model = mlp();
    model.types[0][8].shape = [0, 1 << 40, 1 << 40].map(Size::Known).to_vec();
    model.types[0][8].strides = None;
    let error = bind(&model, 0, &Sizes::example(&model).unwrap()).unwrap_err();
    assert!(matches!(error, BindError::TensorTooLarge { .. }), "{error}");
}

#[test]
fn strided_tensors_reach_to_their_last_element() {
    let mut model = mlp();
    let five = model.types[0][8].clone();
    model.types[0][8].shape = vec![Size::Known(3), Size::Known(4)];
    model.types[0][8].strides = Some(vec![Size::Known(1), Size::Known(10)]);
    let row = model.tensors[0].iter().position(|tensor| tensor.r#type == 8).expect("some tensor has it");
    model.tensors[0][row].offset = Size::Known(2);
    let bound = bind(&model, 0, &example(&model)).expect("it can be bound");
    assert_eq!((bound.tensors[row].bytes, bound.tensors[row].extent), (48, (2 + 2 + 30 + 1) * 4));
    model.types[0][8].shape = vec![Size::Known(0), Size::Known(4)];
    let bound = bind(&model, 0, &example(&model)).expect("it can be bound");
    assert_eq!((bound.tensors[row].bytes, bound.tensors[row].extent), (0, 0));
    assert_eq!(five.strides, None);
}

#[test]
fn a_model_without_symbols_can_be_bound() {
    let model = mlp_of_one_size();
    let bound = bind(&model, 0, &example(&model)).expect("it can be bound");
    assert_eq!(bound.tensor(TensorId(6)).shape, [64, 784]);
}

#[test]
fn tensors_larger_than_any_memory_are_refused() {
    let model = mlp();
    let symbols = [("batch", 1 << 39)];
    let message = "tensor 6, input `input`: float32 [batch, 784] takes more than 1125899906842624 bytes with batch = 549755813888";
    let error = assert_refused(&model, &symbols, message);
    assert!(error.hint().is_some());
}

#[test]
fn sizes_that_overflow_are_refused() {
    let mut model = mlp();
    model.types[0][8].shape[1] = add(&mut model, "batch*batch*batch");
    let message =
        &format!("{EIGHTH}: dimension 1: `batch*batch*batch` passes the largest 64-bit number with batch = 10000000");
    assert_refused(&model, &[("batch", 10_000_000)], message);
}

#[test]
fn sizes_that_divide_by_zero_are_refused() {
    let mut model = mlp();
    model.types[0][8].shape[1] = add(&mut model, "512//(batch-3)");
    assert_refused(
        &model,
        &[("batch", 3)],
        &format!("{EIGHTH}: dimension 1: `512//(batch-3)` divides by zero with batch = 3"),
    );
    assert!(bind(&model, 0, &sizes(&model, &[("batch", 4)])).is_ok());
}

#[test]
fn sizes_strides_and_offsets_below_zero_are_refused() {
    let mut model = mlp();
    model.types[0][8].shape[1] = add(&mut model, "batch-4");
    let message = &format!("{EIGHTH}: dimension 1: `batch-4` is -1 with batch = 3, needed 0 or more");
    let error = assert_refused(&model, &[("batch", 3)], message);
    assert!(error.hint().is_some());
    assert!(bind(&model, 0, &sizes(&model, &[("batch", 4)])).is_ok());

    let mut model = mlp();
    model.types[0][8].strides = Some(vec![add(&mut model, "batch-4"), Size::Known(1)]);
    let message = &format!("{EIGHTH}: stride 0: `batch-4` is -1 with batch = 3, needed 0 or more");
    assert_refused(&model, &[("batch", 3)], message);

    let mut model = mlp();
    model.tensors[0][9].offset = add(&mut model, "batch-4");
    assert_refused(
        &model,
        &[("batch", 3)],
        &format!("{NINTH}: offset: `batch-4` is -1 with batch = 3, needed 0 or more"),
    );
}

#[test]
fn arguments_without_a_value_are_named() {
    let mut model = mlp();
    let size = add(&mut model, "1//(batch-3)");
    let Step::Call(call) = &mut model.steps[0][2] else { panic!("the third step is a call") };
    call.arguments[2] = Argument::List(vec![Argument::Int(size)]);
    let message =
        "steps[0][2]: operator `aten.linear.default`: argument `bias`: `1//(batch-3)` divides by zero with batch = 3";
    assert_refused(&model, &[("batch", 3)], message);
}

#[test]
fn an_expression_that_is_not_used_may_have_no_value() {
    let mut model = mlp();
    add(&mut model, "1//0");
    assert!(bind(&model, 0, &example(&model)).is_ok());
}

#[test]
fn sizes_of_another_model_are_refused() {
    let model = mlp();
    let error = bind(&model, 0, &example(&bert_base())).map(|_| ()).expect_err("there are too many");
    assert_eq!(error.to_string(), "found 2 sizes, needed one for each of the model's 1 symbols");
}

#[test]
fn a_variant_that_is_not_there_is_refused() {
    let model = mlp();
    let error = bind(&model, 18, &example(&model)).map(|_| ()).expect_err("there are eighteen");
    assert_eq!(error.to_string(), "variant 18: the model has 18");
}

#[test]
fn an_example_that_is_absurd_is_refused() {
    let mut model = mlp();
    model.symbols[0].example = Example::Known(0);
    let error = bind(&model, 0, &example(&model)).map(|_| ()).expect_err("the size is 0");
    assert_eq!(error.to_string(), "symbol `batch`: found 0, needed a size from 1 to 1099511627775");
}
