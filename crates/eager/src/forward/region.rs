//! Which parts of a captured pass are checkpointed.

use std::collections::BTreeSet;
use std::sync::Arc;

use vramfit_graph::bind::{Bound, BoundCall, BoundStep};
use vramfit_graph::model::{Model, Module};

use super::module_choice::{Choice, UnknownModule, blocks, matches, named_modules, unknown};
use crate::autograd::KeptResults;
use crate::operators::facts;

/// The flag that chooses what is checkpointed.
const FLAG: &str = "--checkpoint";

impl Choice {
    /// The modules with these names.
    pub fn modules(names: Vec<String>) -> Choice {
        Choice::Modules(Arc::new(names))
    }
}

/// Consecutive steps of a captured pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first step.
    pub first: usize,
    /// The last step.
    pub last: usize,
    /// Whether the region is checkpointed. Otherwise its inputs are held until its last step.
    pub is_checkpointed: bool,
    /// Whether the cache of keys and values is off inside, as in layers that Hugging Face's `gradient_checkpointing_enable`
    /// checkpoints.
    pub turns_cache_off: bool,
    /// Which results are kept, not computed again.
    pub keeps: KeptResults,
    /// How often it runs in a pass, each time on a part of the rows.
    pub times: u32,
}

impl Region {
    /// A region that is computed again in the backward pass.
    pub(super) fn checkpointed(first: usize, last: usize) -> Region {
        let (turns_cache_off, keeps) = (false, KeptResults::NONE);
        Region { first, last, is_checkpointed: true, turns_cache_off, keeps, times: 1 }
    }
}

/// The regions of a captured pass in order; they do not nest.
///
/// # Errors
/// The model has no such module.
pub fn regions(bound: &Bound<'_>, choice: &Choice) -> Result<Vec<Region>, UnknownModule> {
    regions_keeping(bound, choice, KeptResults::NONE)
}

/// The regions of a captured pass; those of the choice keep the results of some operators.
///
/// # Errors
/// The model has no such module.
pub fn regions_keeping(bound: &Bound<'_>, choice: &Choice, keeps: KeptResults) -> Result<Vec<Region>, UnknownModule> {
    let modules = &bound.model.modules;
    let mut found = match choice {
        Choice::Nothing => Vec::new(),
        Choice::Blocks => {
            let mut found = calls_of(bound, &blocks(modules));
            found.iter_mut().for_each(|region| region.turns_cache_off = true);
            if found.is_empty() {
                return Err(unknown(
                    FLAG,
                    "blocks",
                    "the model has no list of equal blocks with parts of their own",
                    modules,
                ));
            }
            found
        }
        Choice::Sequential(segments) => sequential(bound, *segments)?,
        Choice::Modules(names) => {
            let chosen = named_modules(modules, names, FLAG)?;
            let found = calls_of(bound, &chosen);
            if found.is_empty() {
                return Err(unknown(FLAG, &names.join(","), "the model never calls it", &[]));
            }
            found
        }
    };
    found.iter_mut().for_each(|region| region.keeps = keeps);
    if let Some(call) = found.iter().find_map(|region| overwritten(bound, region)) {
        return Err(UnknownModule {
            flag: "--checkpoint-save",
            wanted: keeps.names(),
            reason: format!("{} writes into a result that is kept, which PyTorch refuses", bound.operator_name(call)),
            present: Vec::new(),
        });
    }
    found.extend(own_regions(bound));
    found.sort_by_key(|region| (region.first, std::cmp::Reverse(region.last)));
    let mut outermost: Vec<Region> = Vec::new();
    for region in found {
        if outermost.last().is_none_or(|outer| region.first > outer.last) {
            outermost.push(region);
        }
    }
    Ok(outermost)
}

/// The call in a region that writes into a result which the region keeps.
fn overwritten<'b>(bound: &'b Bound<'_>, region: &Region) -> Option<&'b BoundCall<'b>> {
    let mut kept = BTreeSet::new();
    for step in &bound.steps[region.first..=region.last] {
        let BoundStep::Call(call) = step else { continue };
        let facts = facts(bound.operator(call));
        let mut storages = call.results.iter().flatten().map(|&id| bound.tensor(id).storage);
        if facts.effect.is_in_place() {
            if storages.any(|storage| kept.contains(&storage)) {
                return Some(call);
            }
        } else if facts.time.work.kept_as().is_some_and(|kind| region.keeps.contains(kind)) {
            kept.extend(storages);
        }
    }
    None
}

/// Whether a call updates a cache of keys and values of the transformers library.
pub fn updates_cache(bound: &Bound<'_>, call: &BoundCall<'_>) -> bool {
    let source = call.source.and_then(|source| bound.model.sources.get(source as usize));
    source.is_some_and(|source| source.file.ends_with("transformers/cache_utils.py"))
}

/// Whether the model's own code is in the transformers library, so that it has `gradient_checkpointing_enable`.
pub fn is_transformers_model(model: &Model) -> bool {
    model.sources.iter().any(|source| source.file.contains("transformers/models/"))
}

/// The steps at which the embedding of the tokens returns. `gradient_checkpointing_enable` of the transformers library has its
/// results require grad, so that adapters learn in the first block too.
pub(super) fn embedding_exits(bound: &Bound<'_>) -> Vec<usize> {
    let tokens = bound.model.inputs.iter().find(|input| input.name == "input_ids").map(|input| input.tensor);
    let (Some(tokens), true) = (tokens, is_transformers_model(bound.model)) else { return Vec::new() };
    let is_embedding = |module: &u32| bound.model.modules[*module as usize].class == "Embedding";
    let entered = bound.steps.iter().find_map(|step| match step {
        BoundStep::Enter(module, given) if given.contains(&tokens) && is_embedding(module) => Some(*module),
        _ => None,
    });
    let is_exit = |step: &BoundStep<'_>| matches!(step, BoundStep::Exit(module, _) if Some(*module) == entered);
    (0..bound.steps.len()).filter(|&at| is_exit(&bound.steps[at])).collect()
}

/// The names of the repeated blocks that a pass calls, in call order: what [`Choice::Blocks`] checkpoints.
pub fn block_names(bound: &Bound<'_>) -> Vec<String> {
    called(bound, blocks(&bound.model.modules))
}

/// The names of the modules that a choice checkpoints, in call order; none for segments of a `Sequential`.
pub fn module_names(bound: &Bound<'_>, choice: &Choice) -> Vec<String> {
    match choice {
        Choice::Nothing | Choice::Sequential(_) => Vec::new(),
        Choice::Blocks => block_names(bound),
        Choice::Modules(names) => {
            let modules = &bound.model.modules;
            let is_chosen = |index: &usize| names.iter().any(|name| matches(name, modules[*index].path.as_deref()));
            called(bound, (0..modules.len()).filter(is_chosen).collect())
        }
    }
}

/// The names of the chosen modules that a pass calls, in call order.
fn called(bound: &Bound<'_>, mut chosen: BTreeSet<usize>) -> Vec<String> {
    let names = bound.steps.iter().filter_map(|step| match step {
        BoundStep::Enter(module, _) if chosen.remove(&(*module as usize)) => {
            bound.model.modules[*module as usize].path.clone()
        }
        _ => None,
    });
    names.collect()
}

/// Every call of the chosen modules.
fn calls_of(bound: &Bound<'_>, chosen: &BTreeSet<usize>) -> Vec<Region> {
    let mut found = Vec::new();
    let mut open: Vec<(u32, usize)> = Vec::new();
    for (index, step) in bound.steps.iter().enumerate() {
        match step {
            BoundStep::Enter(module, _) => open.push((*module, index)),
            BoundStep::Exit(..) => {
                if let Some((module, first)) = open.pop()
                    && chosen.contains(&(module as usize))
                {
                    found.push(Region::checkpointed(first, index));
                }
            }
            _ => {}
        }
    }
    found
}

/// The segments of `checkpoint_sequential`: all but the last are checkpointed; the inputs of the last are held until it
/// ends.
fn sequential(bound: &Bound<'_>, segments: u32) -> Result<Vec<Region>, UnknownModule> {
    let modules = &bound.model.modules;
    let fail = |reason: &str| UnknownModule {
        flag: "--checkpoint",
        wanted: format!("sequential:{segments}"),
        reason: reason.to_owned(),
        present: Vec::new(),
    };
    let path = modules.iter().find(|module| module.class == "Sequential").and_then(|module| module.path.as_deref());
    let path = path.ok_or_else(|| fail("the model has no Sequential"))?;
    let prefix = match path {
        "" => String::new(),
        path => format!("{path}."),
    };
    let is_part = |module: &Module| {
        let rest = module.path.as_deref().and_then(|path| path.strip_prefix(prefix.as_str()));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('.'))
    };
    let parts: Vec<usize> = (0..modules.len()).filter(|&index| is_part(&modules[index])).collect();
    let size = parts.len() / (segments as usize).max(1);
    if segments == 0 || size == 0 {
        let name = if path.is_empty() { "the model" } else { path };
        return Err(fail(&format!(
            "the outermost Sequential, {name}, has {} parts, needed one a segment",
            parts.len()
        )));
    }
    let calls: Vec<Region> =
        parts.iter().flat_map(|&part| calls_of(bound, &BTreeSet::from([part])).into_iter().take(1)).collect();
    if calls.len() != parts.len() {
        return Err(fail("parts of the outermost Sequential are never called"));
    }
    let mut found = Vec::new();
    let checkpointed = size * (segments as usize - 1);
    for segment in calls[..checkpointed].chunks(size) {
        found.push(Region::checkpointed(segment[0].first, segment[size - 1].last));
    }
    let rest = &calls[checkpointed..];
    if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
        found.push(Region { is_checkpointed: false, ..Region::checkpointed(first.first, last.last) });
    }
    Ok(found)
}

/// The non-reentrant regions that the model itself checkpoints.
fn own_regions(bound: &Bound<'_>) -> Vec<Region> {
    let mut found = Vec::new();
    let mut open: Vec<Option<usize>> = Vec::new();
    for (index, step) in bound.steps.iter().enumerate() {
        match step {
            BoundStep::Checkpoint { is_reentrant, .. } => open.push((!is_reentrant).then_some(index)),
            BoundStep::EndCheckpoint(_) => {
                if let Some(Some(first)) = open.pop() {
                    found.push(Region::checkpointed(first, index));
                }
            }
            _ => {}
        }
    }
    found
}
