//! Evaluations with and without `no_grad`.

use super::{explained, found, kinds, place, recorded};
use crate::findings::Details;
use crate::synthetic::Training;

fn with_evaluation() -> Training {
    Training { epochs: 2, steps: 4, evaluation: 5, ..Training::default() }
}

#[test]
fn an_evaluation_that_keeps_predictions_and_their_graphs_is_found() {
    let training = Training { has_no_grad: false, keeps_predictions: true, ..with_evaluation() };
    let snapshot = recorded(&training);
    let explanation = explained(&snapshot);
    let [finding] = found(&explanation, "graph-kept")[..] else { panic!("one, found {:?}", kinds(&explanation)) };
    let Details::GraphKept(graph) = &finding.details else { panic!("a kept graph") };
    assert_eq!((graph.passes, graph.blocks_per_pass), (10, 4));
    assert_eq!(finding.bytes, 5 * graph.per_pass, "the passes of one evaluation pile up");
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:40 in validate"));
    assert!(found(&explanation, "leak").is_empty());
}

#[test]
fn an_evaluation_without_no_grad_is_found_even_if_it_keeps_nothing() {
    let training = Training { has_no_grad: false, ..with_evaluation() };
    let explanation = explained(&recorded(&training));
    assert_eq!(found(&explanation, "graph-kept").len(), 1);
}

#[test]
fn an_evaluation_under_no_grad_is_fine_even_if_it_keeps_predictions() {
    for keeps_predictions in [false, true] {
        let training = Training { keeps_predictions, ..with_evaluation() };
        let explanation = explained(&recorded(&training));
        assert!(found(&explanation, "graph-kept").is_empty(), "keeps predictions: {keeps_predictions}");
        assert!(found(&explanation, "leak").is_empty(), "keeps predictions: {keeps_predictions}");
    }
}

#[test]
fn inference_without_training_is_judged_too() {
    let inference = Training { steps: 0, epochs: 1, evaluation: 6, ..Training::default() };
    let careless = Training { has_no_grad: false, keeps_predictions: true, ..inference.clone() };
    assert_eq!(found(&explained(&recorded(&careless)), "graph-kept").len(), 1);
    assert_eq!(kinds(&explained(&recorded(&inference))), [""; 0]);
}
