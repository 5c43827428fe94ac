//! Selective checkpointing: checkpointed modules keep the results of some operators instead of computing them again.

use vramfit_eager::autograd::{KeptResults, ResultKind};
use vramfit_eager::forward::{Choice, regions_keeping};
use vramfit_eager::operators::facts;
use vramfit_graph::bind::{Bound, BoundStep};

use super::checkpoint::Checkpointing;
use super::role::Role;
use super::trick::Trick;
use crate::parts::Parts;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct SelectiveCheckpoints;

impl Trick for SelectiveCheckpoints {
    fn name(&self) -> &'static str {
        "selective checkpointing"
    }

    fn setting(&self) -> &'static str {
        "checkpoint-save"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: false }
    }

    fn conflicts(&self) -> &'static str {
        "activations in place on results that are kept"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "checkpoint(…, context_fn=partial(create_selective_checkpoint_contexts, operators))"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if !start.training.kept_results.is_empty() {
            return Err("checkpoints are selective already".to_owned());
        }
        if start.training.offload.is_some() {
            return Err("saved tensors go to the host".to_owned());
        }
        let base = match start.training.checkpoint {
            Choice::Nothing => Checkpointing.alternatives(bench, start)?.into_iter().next(),
            _ => Some(start.clone()),
        };
        let base = base.ok_or("nothing can be checkpointed")?;
        let bound = bench.bind(&base).ok_or("the model cannot be bound")?;
        let mut setups = Vec::new();
        for kept in choices(&bound) {
            if regions_keeping(&bound, &base.training.checkpoint, kept).is_ok() {
                let mut setup = base.clone();
                setup.training.kept_results = kept;
                setups.push(setup);
            }
        }
        if setups.is_empty() { Err("no results are worth keeping".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.kept_results = from.training.kept_results;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.training.kept_results {
            KeptResults::NONE => "everything in checkpoints computed again".to_owned(),
            kept => format!("checkpoints keep results of {}", kept.names().replace(',', " and ")),
        }
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        (!setup.training.kept_results.is_empty()).then(|| {
            "every operator of these modules is dispatched through Python: where the GPU waits for the CPU, plain checkpoints \
             are faster"
                .to_owned()
        })
    }

    fn fill(&self, _bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        let kinds = setup.training.kept_results.kinds();
        parts.kept_operators = kinds.flat_map(|kind| kind.overloads().iter().map(|&name| name.to_owned())).collect();
    }
}

/// What is worth keeping: results that are small for the time they take.
fn choices(bound: &Bound<'_>) -> Vec<KeptResults> {
    let has = |kind: ResultKind| {
        bound.steps.iter().any(|step| match step {
            BoundStep::Call(call) => facts(bound.operator(call)).time.work.kept_as() == Some(kind),
            _ => false,
        })
    };
    let mut choices = Vec::new();
    if has(ResultKind::Attention) {
        choices.push(KeptResults::of(&[ResultKind::Attention]));
        choices.push(KeptResults::of(&[ResultKind::Matmul, ResultKind::Attention]));
    } else if has(ResultKind::Convolution) {
        choices.push(KeptResults::of(&[ResultKind::Convolution]));
    } else if has(ResultKind::Matmul) {
        choices.push(KeptResults::of(&[ResultKind::Matmul]));
    }
    choices
}
