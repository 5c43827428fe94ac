//! Modules by name: the repeated blocks of a model, and patterns with `*`.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use vramfit_graph::bind::Bound;
use vramfit_graph::model::Module;

/// Which modules something is done to.
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

pub(super) fn unknown(flag: &'static str, name: &str, reason: &str, modules: &[Module]) -> UnknownModule {
    let paths = modules.iter().filter_map(|module| module.path.as_deref()).filter(|path| !path.is_empty()).collect();
    UnknownModule { flag, wanted: name.to_owned(), reason: reason.to_owned(), present: named(paths) }
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
pub(super) fn matches(pattern: &str, path: Option<&str>) -> bool {
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

/// The modules that these names and patterns stand for.
pub(super) fn named_modules(
    modules: &[Module],
    names: &[String],
    flag: &'static str,
) -> Result<BTreeSet<usize>, UnknownModule> {
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
            return Err(unknown(flag, name, "the model has no such module", modules));
        }
    }
    Ok(chosen)
}

/// The indexes of the modules that are chosen, in the order of the model; `flag` is what names them.
///
/// # Errors
/// The model has no such module.
pub fn chosen_modules(bound: &Bound<'_>, choice: &Choice, flag: &'static str) -> Result<Vec<usize>, UnknownModule> {
    let modules = &bound.model.modules;
    let chosen = match choice {
        Choice::Nothing => BTreeSet::new(),
        Choice::Blocks | Choice::Sequential(_) => blocks(modules),
        Choice::Modules(names) => named_modules(modules, names, flag)?,
    };
    Ok(chosen.into_iter().collect())
}

/// The modules of each `ModuleList` or `Sequential` whose members are of one class and have children.
pub(super) fn blocks(modules: &[Module]) -> BTreeSet<usize> {
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
