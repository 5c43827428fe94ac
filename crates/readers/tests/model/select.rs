//! Choices of sizes and variants.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Example, Mode, Model, Precision};
use vramfit_graph::select::{SizeError, SizeFlags, Sizes, VariantError, VariantFlags, select_variant};

use crate::captures::{add, bert_base, mlp, mlp_of_one_size};

fn flags(batch: Option<i64>, sequence: Option<i64>, sizes: &[&str]) -> SizeFlags {
    SizeFlags { batch, sequence, sizes: sizes.iter().map(|text| (*text).to_owned()).collect() }
}

fn select(model: &Model, flags: &SizeFlags) -> Result<Vec<i64>, SizeError> {
    Sizes::select(model, flags).map(|sizes| sizes.as_slice().to_vec())
}

#[track_caller]
fn assert_refused(model: &Model, flags: &SizeFlags, message: &str) {
    let error = select(model, flags).expect_err("the choice is bad");
    assert_eq!(error.to_string(), message);
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()));
}

#[track_caller]
fn assert_hint(model: &Model, flags: &SizeFlags, hint: &str) {
    let error = select(model, flags).expect_err("the choice is bad");
    assert_eq!(error.hint().as_deref(), Some(hint), "{error}");
}

#[test]
fn sizes_that_are_not_chosen_are_the_examples() {
    let model = bert_base();
    assert_eq!(select(&model, &SizeFlags::default()), Ok(vec![8, 128]));
    assert_eq!(select(&model, &flags(Some(1), None, &[])), Ok(vec![1, 128]));
    assert_eq!(select(&model, &flags(None, Some(512), &[])), Ok(vec![8, 512]));
    assert_eq!(Sizes::example(&model).map(|sizes| sizes.as_slice().to_vec()), Ok(vec![8, 128]));
    let sizes = Sizes::with(&model, &[("seq", 77)]).expect("there is such a symbol");
    assert_eq!(
        (sizes.get(&model, "seq"), sizes.get(&model, "batch"), sizes.get(&model, "h")),
        (Some(77), Some(8), None)
    );
}

#[test]
fn a_symbol_or_a_whole_input_can_be_chosen() {
    let model = bert_base();
    assert_eq!(select(&model, &flags(None, None, &["seq=64"])), Ok(vec![8, 64]));
    assert_eq!(select(&model, &flags(None, None, &["input_ids=4x256"])), Ok(vec![4, 256]));
    assert_eq!(select(&model, &flags(Some(4), None, &["labels=4x256", "seq=256"])), Ok(vec![4, 256]));
    assert_eq!(select(&mlp(), &flags(None, None, &["targets=32"])), Ok(vec![32]));
    assert_eq!(select(&mlp(), &flags(None, None, &["input=32x784"])), Ok(vec![32]));
}

#[test]
fn batch_binds_every_symbol_in_dimension_0() {
    let mut model = bert_base();
    let mut other = model.symbols[0].clone();
    other.name = "other_batch".to_owned();
    model.symbols.push(other);
    model.inputs[1].shape[0] = add(&mut model, "other_batch");
    assert_eq!(select(&model, &flags(Some(3), None, &[])), Ok(vec![3, 128, 3]));
}

#[test]
fn sequence_binds_integer_and_boolean_inputs() {
    let mut model = bert_base();
    let mut width = model.symbols[1].clone();
    width.name = "width".to_owned();
    model.symbols.push(width);
    model.inputs[2].dtype = Dtype::Float32;
    model.inputs[2].shape[1] = add(&mut model, "width");
    assert_eq!(select(&model, &flags(None, Some(64), &[])), Ok(vec![8, 64, 128]));
    model.inputs[2].dtype = Dtype::Bool;
    assert_eq!(select(&model, &flags(None, Some(64), &[])), Ok(vec![8, 64, 64]));
}

#[test]
fn sequence_binds_a_symbol_of_that_name_where_no_integer_input_has_one() {
    let mut model = bert_base();
    for input in &mut model.inputs {
        input.dtype = Dtype::Float32;
    }
    assert_eq!(select(&model, &flags(None, Some(64), &[])), Ok(vec![8, 64]));
    model.symbols[1].name = "width".to_owned();
    let place = "batch, width in input_ids [batch, width], attention_mask [batch, width], labels [batch, width]";
    let message = format!("--seq 64: no symbol in dimension 1 of an integer input; it has {place}");
    assert_refused(&model, &flags(None, Some(64), &[]), &message);
}

#[test]
fn flags_that_disagree_are_refused() {
    let message = "--size batch=16 makes symbol `batch` 16, --batch 8 makes it 8";
    assert_refused(&bert_base(), &flags(Some(8), None, &["batch=16"]), message);
    let message = "--size labels=8x64 makes symbol `seq` 64, --size input_ids=8x128 makes it 128";
    assert_refused(&bert_base(), &flags(None, None, &["input_ids=8x128", "labels=8x64"]), message);
    assert_eq!(select(&bert_base(), &flags(Some(8), None, &["batch=8"])), Ok(vec![8, 128]));
}

#[test]
fn sizes_below_1_and_absurd_ones_are_refused() {
    for size in [0, -1, i64::MIN, 1 << 40, i64::MAX] {
        let message = format!("--batch {size}: found {size}, needed a size from 1 to 1099511627775");
        assert_refused(&mlp(), &flags(Some(size), None, &[]), &message);
    }
    let message = "--size batch=0: found 0, needed a size from 1 to 1099511627775";
    assert_refused(&mlp(), &flags(None, None, &["batch=0"]), message);
    assert_eq!(select(&mlp(), &flags(Some((1 << 40) - 1), None, &[])), Ok(vec![(1 << 40) - 1]));
}

#[test]
fn names_that_are_not_there_are_refused_with_those_that_are() {
    let message = "--size h=7: the model has no symbol, input or target `h`; \
                   it has batch in input [batch, 784], targets [batch]";
    assert_refused(&mlp(), &flags(None, None, &["h=7"]), message);
    assert_refused(
        &mlp(),
        &flags(None, Some(7), &[]),
        "--seq 7: no symbol in dimension 1 of an integer input; \
                   it has batch in input [batch, 784], targets [batch]",
    );
    let error = Sizes::with(&mlp(), &[("h", 7)]).expect_err("there is no such symbol");
    assert!(matches!(error, SizeError::UnknownName { .. }));
}

#[test]
fn texts_that_say_no_size_are_refused() {
    for text in ["", "batch", "batch=", "batch=x", "batch=8x", "batch=8.5", "=8=", "batch=99999999999999999999"] {
        let message = format!("--size {text}: needed SYMBOL=N or INPUT=AxBxC, with whole numbers");
        assert_refused(&mlp(), &flags(None, None, &[text]), &message);
    }
}

#[test]
fn shapes_must_be_the_inputs() {
    let message = "--size input=8x784x1: found 3 sizes, needed 2: `input` is [batch, 784]";
    assert_refused(&mlp(), &flags(None, None, &["input=8x784x1"]), message);
    let message = "--size input=8x10: dimension 1 of `input` is 784, found 10";
    assert_refused(&mlp(), &flags(None, None, &["input=8x10"]), message);
    assert_refused(&mlp(), &flags(None, None, &["batch=8x2"]), "--size batch=8x2: batch is one size, found 2");
    let mut model = mlp();
    model.inputs[0].shape[1] = add(&mut model, "2*batch");
    assert_eq!(select(&model, &flags(None, None, &["input=8x16"])), Ok(vec![8]));
    let message = "--size input=8x10: dimension 1 of `input` is 2*batch = 16, found 10";
    assert_refused(&model, &flags(None, None, &["input=8x10"]), message);
}

#[test]
fn a_capture_of_one_size_says_so() {
    let model = mlp_of_one_size();
    assert_eq!(select(&model, &SizeFlags::default()), Ok(vec![]));
    assert_eq!(select(&model, &flags(Some(64), None, &["input=64x784"])), Ok(vec![]));
    let message = "--batch 32: no symbol in dimension 0 of an input or target; \
                   it was captured at one size only: input 64x784, targets 64";
    assert_refused(&model, &flags(Some(32), None, &[]), message);
    let message = "--size batch=64: the model has no symbol, input or target `batch`; \
                   it was captured at one size only: input 64x784, targets 64";
    assert_refused(&model, &flags(None, None, &["batch=64"]), message);
}

#[test]
fn a_size_that_is_a_multiple_is_solved_for_its_symbol() {
    let mut model = mlp();
    let (double, more) = (add(&mut model, "2*batch"), add(&mut model, "2*batch+1"));
    model.inputs[0].shape[0] = double;
    model.targets[0].shape[0] = double;
    assert_eq!(select(&model, &flags(Some(32), None, &[])), Ok(vec![16]));
    assert_eq!(select(&model, &flags(None, None, &["input=32x784"])), Ok(vec![16]));
    assert_eq!(select(&model, &flags(None, None, &["batch=32"])), Ok(vec![32]));
    let message = "--batch 31: dimension 0 of `input`, 2*batch, must be a multiple of 2, found 31";
    assert_refused(&model, &flags(Some(31), None, &[]), message);
    assert_hint(&model, &flags(Some(31), None, &[]), "the nearest possible: 30 or 32");
    assert_hint(&model, &flags(Some(1), None, &[]), "the nearest possible: 2");
    assert_eq!(Sizes::batch(&model).len(), 1);
    let sizes = Sizes::example(&model).expect("all sizes have examples");
    let replaced = |value: i64| sizes.replacing(&model, &Sizes::batch(&model), value);
    assert_eq!(replaced(10).map(|sizes| sizes.value(Sizes::batch(&model)[0])), Some(Some(10)));
    assert_eq!(replaced(11), None);
    model.targets[0].shape[0] = more;
    let message = "--batch 32: dimension 0 of `targets`, 2*batch+1, must be a multiple of 2 plus 1, found 32";
    assert_refused(&model, &flags(Some(32), None, &[]), message);
    let symbol = add(&mut model, "batch");
    model.targets[0].shape[0] = symbol;
    assert_eq!(select(&model, &flags(Some(32), None, &[])), Ok(vec![32]), "a symbol itself comes first");
    model.targets[0].shape[0] = add(&mut model, "4*batch");
    let message = "--batch 32 makes symbol `batch` 8, --batch 32 makes it 16";
    assert_refused(&model, &flags(Some(32), None, &[]), message);
}

#[test]
fn a_size_without_an_example_must_be_chosen() {
    let mut model = mlp();
    model.symbols[0].example = Example::DataDependent { producer: "node `index`".to_owned() };
    assert_refused(
        &model,
        &SizeFlags::default(),
        "size `batch` is not known: the data that node `index` gets decides it",
    );
    let hint = "give the size your data leads to, or an upper bound, with --size batch=N";
    assert_hint(&model, &SizeFlags::default(), hint);
    assert!(Sizes::example(&model).is_err());
    assert_eq!(select(&model, &flags(None, None, &["batch=7"])), Ok(vec![7]));
}

#[test]
fn hints_for_captures_name_their_inputs() {
    let hint = |sizes: &str| {
        format!(
            "name the sizes that may change when you capture: vramfit.capture(model, inputs, path, sizes={{{sizes}}})"
        )
    };
    let one = mlp_of_one_size();
    assert_hint(&one, &flags(Some(32), None, &[]), &hint(r#""input": ("batch", 784)"#));
    assert_hint(&mlp(), &flags(None, None, &["width=7"]), &hint(r#""input": ("batch", "width")"#));
    assert_hint(&mlp(), &flags(None, None, &["input=8x10"]), &hint(r#""input": ("batch", "input_1")"#));
    let again = "capture the model again with vramfit.capture, with an example of this shape";
    assert_hint(&mlp(), &flags(None, None, &["input=8x784x1"]), again);
}

fn variant(model: &Model, flags: VariantFlags) -> Result<(Precision, Mode), VariantError> {
    select_variant(model, flags).map(|at| (model.variants[at].precision, model.variants[at].mode))
}

#[test]
fn precision_and_mode_choose_the_variant() {
    let model = mlp();
    let default = VariantFlags::default();
    assert_eq!(variant(&model, default), Ok((Precision::AsBuilt, Mode::Train)));
    let bf16 = VariantFlags { dtype: Some(Dtype::Bfloat16), ..default };
    assert_eq!(variant(&model, bf16), Ok((Precision::Cast(Dtype::Bfloat16), Mode::Train)));
    let amp = VariantFlags { amp: Some(Dtype::Float16), ..default };
    assert_eq!(variant(&model, amp), Ok((Precision::Autocast(Dtype::Float16), Mode::Train)));
    let both = VariantFlags { dtype: Some(Dtype::Float32), ..amp };
    assert_eq!(variant(&model, both), variant(&model, amp));
    let eval = VariantFlags { is_eval: true, ..default };
    assert_eq!(variant(&model, eval), Ok((Precision::AsBuilt, Mode::Eval)));
    let with_grad = VariantFlags { has_grad: true, ..eval };
    assert_eq!(variant(&model, with_grad), Ok((Precision::AsBuilt, Mode::EvalGrad)));
}

#[test]
fn a_variant_that_is_missing_is_named_with_those_that_are_there() {
    let mut model = mlp();
    model.variants.truncate(3);
    let flags = VariantFlags { dtype: Some(Dtype::Float64), ..VariantFlags::default() };
    let error = variant(&model, flags).expect_err("it was not recorded");
    let message = "the capture has no recording of fp64 train; it has fp32 train, as-built train, bf16 train";
    assert_eq!(error.to_string(), message);
    assert!(error.hint().is_some());
}

#[test]
fn as_built_and_the_type_it_is_built_in_are_the_same() {
    let mut model = mlp();
    model.variants.retain(|variant| variant.precision != Precision::AsBuilt);
    assert_eq!(variant(&model, VariantFlags::default()), Ok((Precision::Cast(Dtype::Float32), Mode::Train)));
    let mut model = mlp();
    model.variants.retain(|variant| variant.precision == Precision::AsBuilt);
    let fp32 = VariantFlags { dtype: Some(Dtype::Float32), ..VariantFlags::default() };
    assert_eq!(variant(&model, fp32), Ok((Precision::AsBuilt, Mode::Train)));
}

#[test]
fn autocast_is_for_single_precision_weights() {
    let mut model = mlp();
    let amp = VariantFlags { amp: Some(Dtype::Bfloat16), ..VariantFlags::default() };
    let half = VariantFlags { dtype: Some(Dtype::Float16), ..amp };
    let message = |error: VariantError| error.to_string();
    let expected = "--amp: found float16 weights, needed float32 ones: autocast is recorded with those";
    assert_eq!(variant(&model, half).map_err(message), Err(expected.to_owned()));
    model.parameters[0].dtype = Dtype::Bfloat16;
    let expected = "--amp: found bfloat16 and float32 weights, needed float32 ones: autocast is recorded with those";
    assert_eq!(variant(&model, amp).map_err(message), Err(expected.to_owned()));
    let single = VariantFlags { dtype: Some(Dtype::Float32), ..amp };
    assert_eq!(variant(&model, single), Ok((Precision::Autocast(Dtype::Bfloat16), Mode::Train)));
}
