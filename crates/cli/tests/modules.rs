//! Modules of a crate depend on each other in one direction.
//!
//! Looked at are siblings: the modules of one folder, each with all that is below it. A file that imports nothing of its
//! crate, such as a format's errors, is below all others and may be imported from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Modules that depend on each other for a reason: crate, folder, and why.
const CIRCLES: &[(&str, &str, &str)] = &[(
    "eager",
    "autograd",
    "as in PyTorch: a tensor has a node, a node saves tensors, and a function of a node runs in a context that records nodes",
)];

/// The path of a module from the crate's root.
type Module = Vec<String>;

/// The sources of a crate, comments and unit tests left out.
struct Sources(BTreeMap<Module, String>);

impl Sources {
    fn read(folder: &Path) -> Sources {
        let mut found = BTreeMap::new();
        collect(folder, &mut Vec::new(), &mut found);
        Sources(found)
    }

    fn children(&self, module: &[String]) -> BTreeSet<&str> {
        let below = self.0.keys().filter(|other| other.len() > module.len() && other.starts_with(module));
        below.map(|other| other[module.len()].as_str()).collect()
    }

    /// What a module imports, where `use child::Name` of a parent leads to the child.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let mut found = BTreeSet::new();
        for path in paths(&self.0[module]) {
            let mut words = path.iter().map(String::as_str).peekable();
            let mut at = module.clone();
            while let Some(word) = words.next_if(|word| matches!(*word, "crate" | "super" | "self")) {
                match word {
                    "crate" => at.clear(),
                    "super" => drop(at.pop()),
                    _ => {}
                }
            }
            for word in words {
                let child = match self.children(&at).contains(word) {
                    true => Some(word.to_owned()),
                    false => self.exporter(&at, word),
                };
                let Some(child) = child else { break };
                at.push(child);
            }
            if at != *module {
                found.insert(at);
            }
        }
        found
    }

    /// The child from which a module takes a name.
    fn exporter(&self, module: &Module, name: &str) -> Option<String> {
        let children = self.children(module);
        let code = self.0.get(module)?;
        for statement in code.split(';') {
            let Some((_, path)) = statement.rsplit_once("use ") else { continue };
            let Some((first, rest)) = path.trim().trim_start_matches("self::").split_once("::") else { continue };
            if children.contains(first) && words(rest).any(|word| word == name) {
                return Some(first.to_owned());
            }
        }
        None
    }
}

fn collect(folder: &Path, module: &mut Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        if path.is_dir() {
            module.push(name);
            collect(&path, module, found);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") && name != "tests" {
            let text = fs::read_to_string(&path).expect("the source can be read").replace("\r\n", "\n");
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let mut own = module.clone();
            own.extend((!matches!(name.as_str(), "mod" | "lib" | "main")).then_some(name));
            found.insert(own, lines.collect::<Vec<_>>().join("\n"));
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !is_word(letter)).filter(|word| !word.is_empty())
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// All paths that begin with `crate`, `super` or `self`, groups in braces taken apart.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|letter| is_word(letter) || letter == ':') {
                take_path(&code[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Takes one path off the text; returns what follows it.
fn take_path<'a>(text: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ',');
            match rest.strip_prefix('}') {
                Some(after) => return after,
                None if rest.is_empty() => return rest,
                None => rest = take_path(rest, prefix, found),
            }
        }
    }
    let length = text.find(|letter: char| !is_word(letter)).unwrap_or(text.len());
    let (word, rest) = text.split_at(length);
    let mut path = prefix.to_vec();
    path.extend((!word.is_empty()).then(|| word.to_owned()));
    match rest.strip_prefix("::") {
        Some(rest) => take_path(rest, &path, found),
        None => {
            found.push(path);
            // A star, or another name for what is imported.
            let end = rest.find([',', '}', ';', '\n']).unwrap_or(rest.len());
            match rest.trim_start() {
                other if other.starts_with("as ") || other.starts_with('*') => &rest[end..],
                _ if length == 0 => &rest[end.max(1).min(rest.len())..],
                _ => rest,
            }
        }
    }
}

/// Circles between the children of a module, and between theirs.
fn circles(sources: &Sources, imports: &BTreeMap<Module, BTreeSet<Module>>, parent: &Module, found: &mut Vec<String>) {
    let children = sources.children(parent);
    let is_leaf = |module: &Module| imports.get(module).is_some_and(BTreeSet::is_empty);
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, all) in imports.iter().filter(|(from, _)| from.len() > parent.len() && from.starts_with(parent)) {
        for to in all.iter().filter(|to| to.len() > parent.len() && to.starts_with(parent) && !is_leaf(to)) {
            let (from, to) = (from[parent.len()].as_str(), to[parent.len()].as_str());
            if from != to {
                edges.entry(from).or_default().insert(to);
            }
        }
    }
    let reaches_itself = |start: &&str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*start]);
        while let Some(at) = next.pop() {
            next.extend(edges.get(at).into_iter().flatten().copied().filter(|to| seen.insert(*to)));
        }
        seen.contains(start)
    };
    let circle: Vec<&str> = children.iter().copied().filter(reaches_itself).collect();
    if !circle.is_empty() {
        found.push(format!("{}: {}", parent.join("::"), circle.join(", ")));
    }
    for child in children {
        let mut below = parent.clone();
        below.push(child.to_owned());
        circles(sources, imports, &below, found);
    }
}

fn circles_of(folder: &Path) -> Vec<String> {
    let sources = Sources::read(folder);
    let imports = sources.0.keys().map(|module| (module.clone(), sources.imports(module))).collect();
    let mut found = Vec::new();
    circles(&sources, &imports, &Vec::new(), &mut found);
    found
}

#[test]
fn modules_import_in_one_direction() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates/");
    let mut wrong = Vec::new();
    let mut known = 0;
    for entry in fs::read_dir(crates).expect("crates/ can be read") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name").to_owned();
        for circle in circles_of(&path.join("src")) {
            match CIRCLES.iter().any(|(owner, folder, _)| *owner == name && circle.starts_with(&format!("{folder}: ")))
            {
                true => known += 1,
                false => wrong.push(format!("{name} {circle}")),
            }
        }
    }
    assert!(wrong.is_empty(), "these import each other:\n{}", wrong.join("\n"));
    assert_eq!(known, CIRCLES.len(), "a circle in the list is gone");
}

#[test]
fn a_circle_is_found_through_what_a_parent_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("lib.rs", "mod one;\nmod two;\nmod three;\npub use one::One;\n");
    write("one.rs", "use crate::{\n    three::Three,\n    two::{self, Two as Other},\n};\n");
    write("two.rs", "// use crate::One;\nuse crate::three::*;\n");
    write("three.rs", "pub struct Three;\n");
    assert_eq!(circles_of(folder.path()), Vec::<String>::new());
    write("two.rs", "use super::One;\n");
    assert_eq!(circles_of(folder.path()), [": one, two"]);
    // A file without imports is below all others.
    write("one.rs", "pub struct One;\n");
    assert_eq!(circles_of(folder.path()), Vec::<String>::new());
}
