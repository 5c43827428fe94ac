//! What sets the peak.

use super::{MIB, explained, found, place, recorded};
use crate::findings::Details;
use crate::origin::Activity;
use crate::synthetic::Training;

#[test]
fn a_large_tensor_of_the_loss_is_a_spike_with_its_line() {
    let snapshot = recorded(&Training { loss_temporary: 64 * MIB, ..Training::default() });
    let explanation = explained(&snapshot);
    let [finding] = found(&explanation, "spike")[..] else { panic!("one spike") };
    let Details::Spike(spike) = &finding.details else { panic!("a spike") };
    assert_eq!(finding.bytes, 64 * MIB);
    assert!(finding.is_note(), "what a loss needs for a moment is no mistake");
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:24 in train"));
    assert!(explanation.peak.allocated - spike.without >= 20 * MIB);
}

#[test]
fn a_small_one_is_none() {
    let explanation = explained(&recorded(&Training { loss_temporary: MIB, ..Training::default() }));
    assert!(found(&explanation, "spike").is_empty());
}

#[test]
fn the_optimizers_temporaries_are_a_spike_where_parameters_weigh_most() {
    let heavy = Training { parameters: 64 * MIB, activation: MIB, is_foreach: true, ..Training::default() };
    let explanation = explained(&recorded(&heavy));
    let [finding] = found(&explanation, "spike")[..] else { panic!("one spike") };
    let Details::Spike(spike) = &finding.details else { panic!("a spike") };
    assert_eq!((spike.activity, finding.bytes), (Activity::Optimizer, 4 * 64 * MIB));
    assert!(finding.is_note(), "an optimizer's temporaries are no mistake");
    let fused = Training { is_foreach: false, ..heavy };
    assert!(found(&explained(&recorded(&fused)), "spike").is_empty());
}

#[test]
fn a_spike_that_does_not_set_the_peak_is_none() {
    let light = Training { parameters: 4 * MIB, activation: 32 * MIB, is_foreach: true, ..Training::default() };
    assert!(found(&explained(&recorded(&light)), "spike").is_empty());
}
