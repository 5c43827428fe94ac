//! Padding in every mode.

use std::collections::BTreeMap;

use vramfit_graph::model::{Argument, Precision, Step};

use super::small::model;

#[test]
fn every_mode_is_what_pytorch_calls_for_it() {
    let model = model("pads.pt2");
    let steps = &model.steps[model.variants[0].steps];
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps {
        if let Step::Call(call) = step {
            *counts.entry(model.operators[call.operator as usize].name.as_str()).or_default() += 1;
        }
    }
    assert!(!counts.contains_key("aten.pad.default"));
    assert_eq!(counts["aten.constant_pad_nd.default"], 3);
    for kind in ["reflection", "replication"] {
        for dims in 1..=3 {
            assert_eq!(counts[format!("aten.{kind}_pad{dims}d.default").as_str()], 1);
        }
    }
    // Going round: into the middle, then from both ends of one, two and three dimensions.
    assert_eq!(counts["aten.new_empty.default"], 3);
    assert_eq!(counts["aten.copy_.default"], 3 + 2 * (1 + 2 + 3));
    assert_eq!(counts["aten.slice.Tensor"], 2 * (1 + 2 + 3) + 4 * (1 + 2 + 3));
}

#[test]
fn what_goes_round_is_written_into_views_of_the_result() {
    let model = model("pads.pt2");
    for variant in &model.variants {
        let tensors = &model.tensors[variant.tensors];
        for step in &model.steps[variant.steps] {
            let Step::Call(call) = step else { continue };
            if model.operators[call.operator as usize].name != "aten.copy_.default" {
                continue;
            }
            let (Argument::Tensor(to), Argument::Tensor(from)) = (&call.arguments[0], &call.arguments[1]) else {
                panic!("copies are of tensors")
            };
            let (to, from) = (&tensors[to.0 as usize], &tensors[from.0 as usize]);
            assert!(to.is_view && from.is_view);
            let (one, other) = (&model.types[0][to.r#type as usize], &model.types[0][from.r#type as usize]);
            assert_eq!((one.dtype, &one.shape), (other.dtype, &other.shape));
            if let Precision::Cast(dtype) = variant.precision {
                assert_eq!(one.dtype, dtype);
            }
        }
    }
}
