//! What micro-batches do to the loss of captured models.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, capped, gpu, model, setup};
use vramfit_plan::tricks::TRICKS;
use vramfit_plan::{SplitCause, TrainingEffect, Workbench};

fn accumulation(name: &str, batch: i64, sequence: Option<i64>) -> (TrainingEffect, Option<SplitCause>) {
    let (model, gpu) = (model(name), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, GIB));
    let setup = setup(&model, batch, sequence);
    let trick = TRICKS.iter().find(|trick| trick.name() == "gradient accumulation").unwrap();
    (trick.risk(&bench, &setup).effect(), trick.split_cause(&bench, &setup))
}

#[test]
fn a_language_model_has_a_mean_over_labels_and_a_residual_network_batch_norms() {
    assert_eq!(accumulation("gpt2-medium", 4, Some(64)), (TrainingEffect::None, Some(SplitCause::IgnoredLabels)));
    let (effect, cause) = accumulation("resnet50", 8, None);
    assert_eq!(effect, TrainingEffect::Training);
    assert_eq!(cause, Some(SplitCause::BatchNorm { count: 53, samples: 8 }));
    assert_eq!(accumulation("vit-b-16", 8, None), (TrainingEffect::None, None));
}
