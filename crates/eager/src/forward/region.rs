//! Which parts of a captured pass are checkpointed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use vramfit_graph::bind::{Bound, BoundCall, BoundStep};
use vramfit_graph::model::Module;

use crate::autograd::KeptResults;
use crate::operators::facts;

/// What is checkpointed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Choice {
    /// Only what the model itself checkpoints.
    #[default]
    Nothing,
    /// Each repeated block, as Hugging Face's `gradient_checkpointing_enable`.
    Blocks,
    /// `checkpoint_sequential` on the outermost `nn.Sequential`, with so many segments.
    Sequential(u32),
    /// Modules by name; `*` matches within one part between dots.
    Modules(Arc<Vec<String>>),
}

impl Choice {
    /// The modules with these names.
    pub fn modules(names: Vec<String>) -> Choice {
        Choice::Modules(Arc::new(names))
    }
}

/// A setting that the model has nothing for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModule {
    /// The flag that names it.
    pub flag: &'static str,
    /// The setting, as on the command line.
    pub wanted: String,
    /// Why it matches nothing.
    pub reason: String,
    /// Names that would match.
    pub present: Vec<String>,
}

impl std::fmt::Display for UnknownModule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}: {}", self.flag, self.wanted, self.reason)?;
        if self.present.is_empty() { Ok(()) } else { write!(formatter, "; it has {}", self.present.join(", ")) }
    }
}

impl std::error::Error for UnknownModule {}

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
                    "blocks",
                    "the model has no list of equal blocks with parts of their own",
                    modules,
                ));
            }
            found
        }
        Choice::Sequential(segments) => sequential(bound, *segments)?,
        Choice::Modules(names) => {
            let mut chosen = BTreeSet::new();
            // A plan may name hundreds of modules.
            let exact: HashSet<&str> = names.iter().map(String::as_str).collect();
            let mut found = HashSet::new();
            for (index, module) in modules.iter().enumerate() {
                if let Some(path) = module.path.as_deref().filter(|path| exact.contains(path)) {
                    chosen.insert(index);
                    found.insert(path);
                }
            }
            for name in names.iter().filter(|name| !found.contains(name.as_str())) {
                let before = chosen.len();
                chosen.extend((0..modules.len()).filter(|&index| matches(name, modules[index].path.as_deref())));
                if chosen.len() == before {
                    return Err(unknown(name, "the model has no such module", modules));
                }
            }
            let found = calls_of(bound, &chosen);
            if found.is_empty() {
                return Err(unknown(&names.join(","), "the model never calls it", &[]));
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
pub fn is_transformers_model(bound: &Bound<'_>) -> bool {
    bound.model.sources.iter().any(|source| source.file.contains("transformers/models/"))
}

/// The steps at which the embedding of the tokens returns. `gradient_checkpointing_enable` of the transformers library has its
/// results require grad, so that adapters learn in the first block too.
pub(super) fn embedding_exits(bound: &Bound<'_>) -> Vec<usize> {
    let tokens = bound.model.inputs.iter().find(|input| input.name == "input_ids").map(|input| input.tensor);
    let (Some(tokens), true) = (tokens, is_transformers_model(bound)) else { return Vec::new() };
    let is_embedding = |module: &u32| bound.model.modules[*module as usize].class == "Embedding";
    let entered = bound.steps.iter().find_map(|step| match step {
        BoundStep::Enter(module, given) if given.contains(&tokens) && is_embedding(module) => Some(*module),
        _ => None,
    });
    let is_exit = |step: &BoundStep<'_>| matches!(step, BoundStep::Exit(module, _) if Some(*module) == entered);
    (0..bound.steps.len()).filter(|&at| is_exit(&bound.steps[at])).collect()
}

fn unknown(name: &str, reason: &str, modules: &[Module]) -> UnknownModule {
    let paths = modules.iter().filter_map(|module| module.path.as_deref()).filter(|path| !path.is_empty()).collect();
    UnknownModule { flag: "--checkpoint", wanted: name.to_owned(), reason: reason.to_owned(), present: named(paths) }
}

/// The first of these dotted names, the outermost first: they say most.
pub(super) fn named(mut names: Vec<&str>) -> Vec<String> {
    names.sort_by_key(|name| name.matches('.').count());
    let left = names.len().saturating_sub(12);
    let mut present: Vec<String> = names.into_iter().take(12).map(str::to_owned).collect();
    if left > 0 {
        present.push(format!("and {left} more"));
    }
    present
}

/// Whether a pattern with `*` matches a module's path.
fn matches(pattern: &str, path: Option<&str>) -> bool {
    let Some(path) = path else { return false };
    let (wanted, found): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), path.split('.').collect());
    wanted.len() == found.len() && wanted.iter().zip(&found).all(|(wanted, found)| matches_part(wanted, found))
}

pub(super) fn matches_part(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|left| {
            left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| matches_part(rest, &left[at..]))
        }),
    }
}

/// The modules of each `ModuleList` or `Sequential` whose members are of one class and have children.
fn blocks(modules: &[Module]) -> BTreeSet<usize> {
    let parent = |path: &str| path.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
    let children = |of: &str| -> Vec<usize> {
        (0..modules.len())
            .filter(|&index| modules[index].path.as_deref().is_some_and(|path| !path.is_empty() && parent(path) == of))
            .collect()
    };
    let mut chosen = BTreeSet::new();
    for module in modules.iter().filter(|module| module.class == "ModuleList" || module.class == "Sequential") {
        let Some(path) = module.path.as_deref() else { continue };
        let parts = children(path);
        let is_repeated = parts.windows(2).all(|pair| modules[pair[0]].class == modules[pair[1]].class);
        let has_parts = |&index: &usize| modules[index].path.as_deref().is_some_and(|path| !children(path).is_empty());
        if is_repeated && parts.iter().all(has_parts) {
            chosen.extend(parts);
        }
    }
    chosen
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
                    found.push(Region {
                        first,
                        last: index,
                        is_checkpointed: true,
                        turns_cache_off: false,
                        keeps: KeptResults::NONE,
                        times: 1,
                    });
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
        found.push(Region {
            first: segment[0].first,
            last: segment[size - 1].last,
            is_checkpointed: true,
            turns_cache_off: false,
            keeps: KeptResults::NONE,
            times: 1,
        });
    }
    let rest = &calls[checkpointed..];
    if let (Some(first), Some(last)) = (rest.first(), rest.last()) {
        found.push(Region {
            first: first.first,
            last: last.last,
            is_checkpointed: false,
            turns_cache_off: false,
            keeps: KeptResults::NONE,
            times: 1,
        });
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
                    found.push(Region {
                        first,
                        last: index,
                        is_checkpointed: true,
                        turns_cache_off: false,
                        keeps: KeptResults::NONE,
                        times: 1,
                    });
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_one_part_between_dots() {
        assert!(matches("blocks.*", Some("blocks.3")));
        assert!(!matches("blocks.*", Some("blocks.3.norm")));
        assert!(matches("*.layer*.up", Some("model.layer12.up")));
        assert!(!matches("blocks", None));
    }

    #[test]
    fn blocks_are_the_equal_parts_of_a_list() {
        let module = |path: &str, class: &str| Module { path: Some(path.to_owned()), class: class.to_owned() };
        let modules = [
            module("", "Net"),
            module("h", "ModuleList"),
            module("h.0", "Block"),
            module("h.0.up", "Linear"),
            module("h.1", "Block"),
            module("h.1.up", "Linear"),
            module("head", "Sequential"),
            module("head.0", "Linear"),
            module("head.1", "Linear"),
        ];
        assert_eq!(blocks(&modules), BTreeSet::from([2, 4]));
    }
}
