//! A model of which one variant is read is the whole model, at that variant.

use std::fs;
use std::path::{Path, PathBuf};

use vramfit_graph::bind::{Bound, BoundStep, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_graph::select::{Sizes, VariantFlags, select_variant};
use vramfit_readers::{read_file, read_file_for};

/// Every archive and capture that is tested with.
fn files() -> Vec<PathBuf> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let listed = ["archives", "captures"].map(|folder| fs::read_dir(tests.join(folder)).expect("the folder is there"));
    let paths = listed.into_iter().flatten().map(|entry| entry.expect("it is listed").path());
    let is_model = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "pt2" || ending == "vramfit");
    let found: Vec<PathBuf> = paths.filter(is_model).collect();
    assert!(found.len() > 5, "{found:?}");
    found
}

/// The example's sizes, and 7 for those that data decides.
fn example(model: &Model) -> Sizes {
    let untold = model.symbols.iter().filter(|symbol| symbol.example.value().is_none());
    let chosen: Vec<(&str, i64)> = untold.map(|symbol| (symbol.name.as_str(), 7)).collect();
    Sizes::with(model, &chosen).expect("every size has a value")
}

fn flags() -> Vec<VariantFlags> {
    let half = Some(Dtype::Bfloat16);
    let precisions =
        [(None, None), (Some(Dtype::Float32), None), (half, None), (None, half), (Some(Dtype::Float64), None)];
    let modes = [(false, false), (true, false), (true, true)];
    let with = |(dtype, amp)| modes.map(|(is_eval, has_grad)| VariantFlags { dtype, amp, is_eval, has_grad });
    precisions.into_iter().flat_map(with).collect()
}

/// Steps with operators by name: a model of one variant lists only those that it needs.
fn described(bound: &Bound<'_>) -> Vec<String> {
    let steps = bound.steps.iter().map(|step| match step {
        BoundStep::Call(call) => {
            let arguments = &bound.model.operators[call.operator as usize].arguments;
            let source = call.source.map(|source| &bound.model.sources[source as usize]);
            let (name, values, results) = (bound.operator_name(call), &call.arguments, call.results);
            format!("{name} {arguments:?} {values:?} {results:?} {source:?} {:?}", call.cast)
        }
        other => format!("{other:?}"),
    });
    steps.collect()
}

#[test]
fn one_variant_is_read_as_it_is_among_all() {
    for path in files() {
        let whole = read_file(&path).expect("it is good");
        for flags in flags() {
            let Ok(at) = select_variant(&whole, flags) else { continue };
            let one = read_file_for(&path, flags).expect("it is good");
            assert_eq!(one.variants.len(), 1, "{path:?} {flags:?}");
            assert_eq!(select_variant(&one, flags), Ok(0), "{path:?} {flags:?}");
            let known = bind(&whole, at, &example(&whole)).expect("it can be bound");
            let found = bind(&one, 0, &example(&one)).expect("it can be bound");
            assert_eq!(found.tensors, known.tensors, "{path:?} {flags:?}");
            assert_eq!(described(&found), described(&known), "{path:?} {flags:?}");
            let ends = |bound: &Bound<'_>| {
                let it = bound.variant;
                (it.precision, it.mode, it.constants.clone(), it.outputs.clone(), it.released.clone(), it.loss)
            };
            assert_eq!(ends(&found), ends(&known), "{path:?} {flags:?}");
            assert_eq!((&found.variant.held, &found.variant.causes), (&known.variant.held, &known.variant.causes));
            assert_eq!((&one.modules, &one.sources, &one.notes), (&whole.modules, &whole.sources, &whole.notes));
            assert_eq!((&one.parameters, &one.buffers), (&whole.parameters, &whole.buffers));
            assert_eq!((&one.symbols, &one.move_order), (&whole.symbols, &whole.move_order));
        }
    }
}

#[test]
fn where_no_variant_is_asked_for_all_are_there_to_be_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/mlp.vramfit");
    let flags = VariantFlags { dtype: Some(Dtype::Float64), ..VariantFlags::default() };
    let whole = read_file(&path).expect("it is good");
    let found = read_file_for(&path, flags).expect("it is good");
    assert_eq!(found.variants, whole.variants);
    assert_eq!(select_variant(&found, flags), select_variant(&whole, flags));
    assert!(select_variant(&found, flags).is_err());
}
