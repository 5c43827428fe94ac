//! Activation checkpointing: modules are recomputed in the backward pass instead of keeping their saved tensors.

use vramfit_eager::forward::{Choice, block_names, is_transformers_model, module_names};

use super::module_names::grouped;
use super::role::Role;
use super::trick::{Finding, Trick};
use crate::control::Control;
use crate::parts::Parts;
use crate::printed_loop::PrintedLoop;
use crate::selective::{ModuleTree, modules, updates_buffers};
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct Checkpointing;

impl Trick for Checkpointing {
    fn name(&self) -> &'static str {
        "activation checkpointing"
    }

    fn setting(&self) -> &'static str {
        "checkpoint"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: true }
    }

    fn conflicts(&self) -> &'static str {
        "caches (use_cache) and modules that write into their input"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.checkpoint != Choice::Nothing {
            return Err("something is checkpointed already; leave out --checkpoint to compare".to_owned());
        }
        if bench.is_in_place(start) {
            return Err(
                "activations in place may overwrite the input that a checkpoint keeps; leave out --in-place to \
                        compare"
                    .to_owned(),
            );
        }
        let bound = bench.bind(start).ok_or("the model cannot be bound")?;
        let tree = modules(&bound);
        let all_blocks = block_names(&bound);
        if tree.is_kept_by_cache(&all_blocks) {
            // gradient_checkpointing_enable turns the cache off, and takes every block.
            let mut setup = start.clone();
            setup.training.checkpoint = Choice::Blocks;
            return Ok(vec![setup]);
        }
        let mut blocks = whole_blocks(&all_blocks, &tree);
        let every = |step: usize, names: &[String]| -> Setup {
            let mut setup = start.clone();
            let names = names.iter().step_by(step).cloned().collect();
            setup.training.checkpoint = Choice::modules(names);
            setup
        };
        if blocks.is_empty() {
            blocks.extend(tree.outermost().into_iter().map(str::to_owned));
            return if blocks.is_empty() {
                Err(tree.why_not(&[]).unwrap_or("the model has no submodules").to_owned())
            } else {
                Ok(vec![every(1, &blocks)])
            };
        }
        let mut setups = vec![every(1, &blocks)];
        setups.extend([2, 3, 4].into_iter().filter(|step| blocks.len() > *step).map(|step| every(step, &blocks)));
        Ok(setups)
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.checkpoint.clone_from(&from.training.checkpoint);
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match &setup.training.checkpoint {
            Choice::Nothing => "nothing checkpointed".to_owned(),
            Choice::Blocks => "every block checkpointed".to_owned(),
            Choice::Sequential(segments) => format!("checkpoint_sequential in {segments} segments"),
            Choice::Modules(names) => format!("checkpoint {}", grouped(names)),
        }
    }

    fn warning(&self, bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        let bound = bench.bind(setup)?;
        updates_buffers(&bound, &setup.training.checkpoint).then(|| {
            "checkpointed modules update buffers, such as the running statistics of batch norms, twice per step: they \
             follow the data faster"
                .to_owned()
        })
    }

    fn findings(&self, bench: &Workbench<'_>, start: &Setup, _control: &Control) -> Vec<Finding> {
        let Some(bound) = bench.bind(start) else { return Vec::new() };
        let (tree, blocks) = (modules(&bound), block_names(&bound));
        let is_refused = !blocks.is_empty() && whole_blocks(&blocks, &tree).is_empty() && tree.any();
        let is_refused = is_refused && !tree.is_kept_by_cache(&blocks);
        let reason = tree.why_not(&blocks).filter(|_| is_refused);
        let what = reason.map(|reason| format!("only parts of blocks can be checkpointed, no whole block: {reason}"));
        what.into_iter().map(|what| Finding { what, bytes: None }).collect()
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let names = checkpointed(bench, setup);
        if is_every_block(bench, setup) {
            let kwargs = match write_kept(setup, code) {
                true => "gradient_checkpointing_kwargs={\"use_reentrant\": False, \"context_fn\": keeping}",
                false => "gradient_checkpointing_kwargs={\"use_reentrant\": False}",
            };
            code.model_changes.call(0, "model.gradient_checkpointing_enable", &[kwargs], "");
        } else if !names.is_empty() {
            code.standard_imports.once("import functools");
            code.imports.once("from torch.utils.checkpoint import checkpoint");
            let keeps = write_kept(setup, code);
            let lines = &mut code.model_changes;
            lines.list("checkpointed", &names);
            lines.line(0, "for name in checkpointed:");
            lines.line(1, "module = model.get_submodule(name)");
            if keeps {
                lines.line(1, "arguments = {\"use_reentrant\": False, \"context_fn\": keeping}");
                lines.line(1, "forward = functools.partial(checkpoint, module.forward, **arguments)");
            } else {
                lines.line(1, "forward = functools.partial(checkpoint, module.forward, use_reentrant=False)");
            }
            lines.line(1, "module.forward = forward");
        }
        if let Choice::Sequential(segments) = setup.training.checkpoint {
            code.imports.line(0, "from torch.utils.checkpoint import checkpoint_sequential");
            let lines = &mut code.model_changes;
            lines.line(0, "sequential = next(");
            lines.line(1, "part for part in model.modules() if isinstance(part, torch.nn.Sequential)");
            lines.line(0, ")");
            lines.line(0, "parts = list(sequential.children())");
            lines.line(0, "sequential.forward = lambda input: checkpoint_sequential(");
            lines.line(1, &format!("parts, {segments}, input, use_reentrant=False"));
            lines.line(0, ")");
        }
    }

    fn fill(&self, bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        parts.checkpointed = checkpointed(bench, setup);
        parts.is_every_block = is_every_block(bench, setup);
        if let Choice::Sequential(segments) = setup.training.checkpoint {
            parts.segments = Some(segments);
        }
    }
}

/// Writes which results checkpoints keep; returns whether they keep any.
fn write_kept(setup: &Setup, code: &mut PrintedLoop) -> bool {
    let kept = setup.training.kept_results;
    if kept.is_empty() {
        return false;
    }
    code.standard_imports.once("import functools");
    code.imports.once("from torch.utils.checkpoint import create_selective_checkpoint_contexts");
    let lines = &mut code.model_changes;
    lines.line(0, "kept = [");
    for name in kept.kinds().flat_map(|kind| kind.overloads()) {
        lines.line(1, &format!("torch.ops.aten.{name},"));
    }
    lines.line(0, "]");
    lines.line(0, "keeping = functools.partial(create_selective_checkpoint_contexts, kept)");
    true
}

/// The modules that a setup checkpoints.
fn checkpointed(bench: &Workbench<'_>, setup: &Setup) -> Vec<String> {
    bench.bind(setup).map_or_else(Vec::new, |bound| module_names(&bound, &setup.training.checkpoint))
}

/// Whether a setup checkpoints every block of a model of the transformers library and nothing else.
fn is_every_block(bench: &Workbench<'_>, setup: &Setup) -> bool {
    let Some(bound) = bench.bind(setup).filter(|bound| is_transformers_model(bound.model)) else { return false };
    match &setup.training.checkpoint {
        Choice::Blocks => true,
        Choice::Modules(names) => {
            let blocks = block_names(&bound);
            !blocks.is_empty() && blocks.len() == names.len() && blocks.iter().all(|block| names.contains(block))
        }
        Choice::Nothing | Choice::Sequential(_) => false,
    }
}

/// The blocks that can be checkpointed as a whole.
fn whole_blocks(blocks: &[String], tree: &ModuleTree) -> Vec<String> {
    blocks.iter().filter(|name| tree.can_checkpoint(name)).cloned().collect()
}
