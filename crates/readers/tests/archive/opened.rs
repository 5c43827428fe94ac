//! Operators that are shown as the calls inside them.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Mode, Model, Precision, Step};
use vramfit_readers::read_bytes;

use super::small::bytes;

/// What a variant calls, without what captures alone show: casts to the type that a tensor has, and operators that archives
/// keep whole.
fn calls(model: &Model, is_wanted: impl Fn(Precision) -> bool, mode: Mode) -> Vec<&str> {
    const OTHER: [&str; 5] = [
        "aten.slice.Tensor",
        "aten.tensor_split.indices",
        "aten.tensor_split.sections",
        "aten.reshape.default",
        "aten.reshape_as.default",
    ];
    let variant = model.variants.iter().find(|it| is_wanted(it.precision) && it.mode == mode).unwrap();
    let names = model.steps[variant.steps].iter().filter_map(|step| match step {
        Step::Call(call) => Some(model.operators[call.operator as usize].name.as_str()),
        _ => None,
    });
    names.filter(|name| !OTHER.contains(name)).collect()
}

#[test]
fn opened_operators_are_the_calls_that_a_capture_shows() {
    let [archive, capture] = ["opened.pt2", "opened.vramfit"].map(|name| read_bytes(&bytes(name)).unwrap());
    let is_built = |it: Precision| it == Precision::AsBuilt;
    let is_cast = |it: Precision| it == Precision::Autocast(Dtype::Bfloat16);
    for mode in [Mode::Train, Mode::Eval] {
        let found = calls(&archive, is_built, mode);
        assert!(found.contains(&"aten.bmm.default") && !found.contains(&"aten.einsum.default"));
        // Without autocast the kernel of `rms_norm` is one call, which captures name by its inner name.
        let fused = ["aten.rms_norm.default", "aten._fused_rms_norm.default"];
        let found: Vec<&str> = found.into_iter().map(|name| if name == fused[0] { fused[1] } else { name }).collect();
        assert_eq!(found, calls(&capture, is_built, mode));
    }
    assert_eq!(calls(&archive, is_cast, Mode::Train), calls(&capture, is_cast, Mode::Train));
}
