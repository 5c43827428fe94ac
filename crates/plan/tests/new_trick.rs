//! A trick is one file: tricks defined here are listed, combined, simulated, priced and printed without any other change.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, MIB, capped, gpu, model, setup};
use vramfit_eager::forward::Choice;
use vramfit_plan::tricks::{Role, TRICKS, Trick, in_place};
use vramfit_plan::{
    Control, Outcome, Plan, PrintedLoop, Risk, SearchOptions, Setup, TrainingEffect, Workbench, plan, plan_with,
    written,
};
use vramfit_training::ZeroGrad;

/// Batches that stay on the GPU instead of being copied in every step.
struct BatchesOnGpu;

impl Trick for BatchesOnGpu {
    fn name(&self) -> &'static str {
        "batches on the GPU"
    }

    fn setting(&self) -> &'static str {
        "inputs"
    }

    fn role(&self) -> Role {
        Role::Free { bytes_per_weight: 0 }
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "batches = [batch.cuda() for batch in batches]"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let mut setup = start.clone();
        setup.training.has_fresh_inputs = false;
        if setup == *start { Err("they are there already".to_owned()) } else { Ok(vec![setup]) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.has_fresh_inputs = from.training.has_fresh_inputs;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        if setup.training.has_fresh_inputs { "batches are copied" } else { "batches stay on the GPU" }.to_owned()
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if !setup.training.has_fresh_inputs {
            code.after_optimizer.line(0, "batches = [batch.cuda() for batch in batches]");
        }
    }
}

/// A training without clipping, as a trick that keeps less for each weight.
struct NoClipping;

impl Trick for NoClipping {
    fn name(&self) -> &'static str {
        "no clipping"
    }

    fn setting(&self) -> &'static str {
        "clip-grad"
    }

    fn role(&self) -> Role {
        Role::WeightState
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "# without torch.nn.utils.clip_grad_norm_"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let mut setup = start.clone();
        setup.training.clips_gradients = false;
        if setup == *start { Err("nothing is clipped".to_owned()) } else { Ok(vec![setup]) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.clips_gradients = from.training.clips_gradients;
    }

    fn warning(&self, _bench: &Workbench<'_>, _setup: &Setup) -> Option<String> {
        Some("gradients may explode".to_owned())
    }
}

/// Checkpoints the whole model, under a context manager around the forward pass.
struct WholeModel;

impl Trick for WholeModel {
    fn name(&self) -> &'static str {
        "whole model"
    }

    fn setting(&self) -> &'static str {
        "whole-model"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: false }
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "with recomputing():"
    }

    fn alternatives(&self, _bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let mut setup = start.clone();
        setup.training.checkpoint = Choice::Blocks;
        Ok(vec![setup])
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.checkpoint.clone_from(&from.training.checkpoint);
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if setup.training.checkpoint == Choice::Blocks {
            code.forward_contexts.push("recomputing()".to_owned());
        }
    }
}

fn with(trick: &'static dyn Trick) -> Vec<&'static dyn Trick> {
    TRICKS.iter().copied().chain([trick]).collect()
}

fn uses(plan: &Plan, trick: &str) -> bool {
    plan.changes.iter().any(|change| change.trick == trick)
}

fn candidates(outcome: &Outcome) -> Vec<usize> {
    outcome.groups.iter().map(|group| group.candidates).collect()
}

#[test]
fn a_new_free_trick_is_combined_with_every_candidate_and_printed() {
    let (model, gpu, control) = (model("bert-small"), gpu("H200"), Control::default());
    let bench = Workbench::new(&model, None, capped(&gpu, 500 * MIB));
    let mut start = setup(&model, 32, Some(128));
    start.training.has_fresh_inputs = true;
    let before = plan(&bench, &start, &[], &control).unwrap();
    let after =
        plan_with(SearchOptions { tricks: &with(&BatchesOnGpu), keep: &[] }, &bench, &start, &[], &control).unwrap();
    // One alternative: every candidate is there without it and with it.
    let twice: Vec<usize> = candidates(&before).into_iter().map(|count| 2 * count).collect();
    // Smaller trainings fit with that change alone.
    assert_eq!(candidates(&after)[..4], twice[..4]);
    let row = after.tricks.last().unwrap();
    assert_eq!((row.name, row.options.len()), ("batches on the GPU", 1));
    assert_eq!(after.plans().next().unwrap().effect, TrainingEffect::None);
    for found in after.plans() {
        let is_printed = found.written.code.contains("batches = [batch.cuda() for batch in batches]\n");
        assert_eq!(is_printed, uses(found, "batches on the GPU"));
    }
    // All free tricks are in the plans that use less memory than the best one.
    assert!(after.groups.iter().flat_map(|group| &group.others).any(|found| uses(found, "batches on the GPU")));
}

#[test]
fn a_new_change_of_the_training_is_combined_in_its_group_only() {
    let (model, gpu, control) = (model("bert-small"), gpu("H200"), Control::default());
    let bench = Workbench::new(&model, None, capped(&gpu, 500 * MIB));
    let mut start = setup(&model, 32, Some(128));
    start.training.clips_gradients = true;
    let before = candidates(&plan(&bench, &start, &[], &control).unwrap());
    let outcome =
        plan_with(SearchOptions { tricks: &with(&NoClipping), keep: &[] }, &bench, &start, &[], &control).unwrap();
    let after = candidates(&outcome);
    assert_eq!(after[..2], before[..2]);
    assert!(after[2] > before[2], "{after:?} {before:?}");
    let row = outcome.tricks.last().unwrap();
    assert_eq!((row.name, row.risk), ("no clipping", Risk::WeightState));
    assert!(!outcome.groups[0].best.iter().any(|found| uses(found, "no clipping")));
}

#[test]
fn a_new_trick_around_the_forward_pass_is_found_alone_and_printed() {
    let (model, gpu, control) = (model("bert-small"), gpu("H200"), Control::default());
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB));
    let start = setup(&model, 32, Some(128));
    let needed = |checkpoint: Choice| {
        let mut setup = start.clone();
        setup.training.checkpoint = checkpoint;
        bench.peaks(&setup, &control).unwrap().reserved
    };
    let room = needed(Choice::Blocks);
    assert!(room < needed(Choice::Nothing));
    let bench = Workbench::new(&model, None, capped(&gpu, room));
    let outcome =
        plan_with(SearchOptions { tricks: &[&WholeModel], keep: &[] }, &bench, &start, &[], &control).unwrap();
    let best = outcome.plans().next().unwrap();
    assert!(uses(best, "whole model"));
    assert!(
        best.written.code.contains("    with recomputing():\n        outputs = model(**inputs)\n"),
        "{}",
        best.written.code
    );
    assert_eq!(candidates(&outcome), [2, 0, 0, 0, 0]);
}

#[test]
fn every_alternative_that_is_searched_changes_the_printed_code() {
    let gpu = gpu("H200");
    let mut printed = 0;
    for (name, batch, sequence) in [("bert-small", 16, Some(64)), ("mlp-relu", 64, None)] {
        let model = model(name);
        let rewritten = in_place::rewrite(&model);
        let bench = Workbench::new(&model, rewritten.as_ref(), capped(&gpu, 8 * GIB));
        let mut start = setup(&model, batch, sequence);
        start.training.zero_grad = ZeroGrad::BeforeBackward;
        let code = |setup: &Setup| written(&bench, TRICKS, setup).unwrap().code;
        let before = code(&start);
        // Sizes of samples are not in the loop.
        let is_printed = |role: Role| !matches!(role, Role::Shown(_) | Role::SampleSize);
        for trick in TRICKS.iter().filter(|trick| is_printed(trick.role())) {
            for setup in trick.alternatives(&bench, &start).unwrap_or_default() {
                assert_ne!(
                    code(&setup),
                    before,
                    "{} writes nothing for {}",
                    trick.name(),
                    trick.describe(&bench, &setup)
                );
                printed += 1;
            }
        }
    }
    assert!(printed > 2 * TRICKS.len());
}
