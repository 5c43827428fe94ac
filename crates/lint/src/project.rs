//! The other files of a run. What a file imports from them is appended to its text, so that calls are followed there.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ruff_python_ast::{Stmt, StmtImport, StmtImportFrom};
use ruff_python_parser::parse_module;
use ruff_text_size::{Ranged, TextRange};

use crate::nesting::too_deep;

/// At most so many bytes are appended to a file.
const MAX_LINKED: usize = 64_000;
/// In folders with more files, networks are not searched for their methods.
const MAX_SEARCHED: usize = 1000;
/// More networks with a method of one name are not followed.
const MAX_OWNERS: usize = 6;
/// Files above this are not read: they are data.
const MAX_SOURCE: u64 = 1 << 20;

/// Networks by the names of their methods: the number of the file, and the name of the class.
type ByMethod = HashMap<String, Vec<(usize, String)>>;

/// The Python files of a run; each is read when another one first imports it.
#[derive(Default)]
pub struct Project {
    by_path: HashMap<PathBuf, usize>,
    paths: Vec<PathBuf>,
    sources: Vec<OnceLock<Source>>,
    /// The number of the folder that each file was found in; files that were named have one number of their own.
    folders: Vec<usize>,
    /// Of each folder, the networks that have a method, by its name: their files and names.
    networks: HashMap<usize, OnceLock<ByMethod>>,
}

/// What a file defines and imports.
#[derive(Default)]
struct Source {
    text: String,
    names: Names,
    /// Functions and classes, by name.
    definitions: HashMap<String, Definition>,
}

/// A function or class.
struct Definition {
    range: TextRange,
    /// The names of its file in its text.
    mentions: Vec<String>,
    /// The methods of a network.
    methods: Vec<String>,
}

/// What the top level of a file binds by imports, and by definitions.
#[derive(Default)]
struct Names {
    /// Names of libraries: the path each stands for, and its statement.
    libraries: HashMap<String, (String, String)>,
    /// Names from other files of the run, by the file's number.
    imported: HashMap<String, usize>,
    /// Files of the run from which everything is imported.
    starred: Vec<usize>,
    /// Functions and classes.
    defined: HashSet<String>,
}

impl Project {
    /// Of these files, each with the number of the folder that it was found in.
    pub fn new(files: impl Iterator<Item = (PathBuf, usize)>) -> Project {
        let (paths, folders): (Vec<PathBuf>, Vec<usize>) = files.unzip();
        let by_path = paths.iter().enumerate().map(|(index, path)| (path.clone(), index)).collect();
        let sources = paths.iter().map(|_| OnceLock::new()).collect();
        let networks = folders.iter().map(|folder| (*folder, OnceLock::new())).collect();
        Project { by_path, paths, sources, folders, networks }
    }

    /// The definitions that the file at `path` imports from others of the run, with all that these need. A name that means
    /// something else in the file itself cannot be followed. Of the methods that the file calls on networks it does not
    /// define, the networks that have them are added too.
    pub fn linked<'m>(&self, path: &Path, body: &[Stmt], text: &str, methods: impl Iterator<Item = &'m str>) -> String {
        let own = self.names(path, body, text);
        let owners: Vec<&(usize, String)> = methods.flat_map(|method| self.networks_with(path, method)).collect();
        if own.imported.is_empty() && own.starred.is_empty() && owners.is_empty() {
            return String::new();
        }
        let mentioned: HashSet<&str> = words(text).collect();
        let mut roots: Vec<(usize, &str)> = own.imported.iter().map(|(name, file)| (*file, name.as_str())).collect();
        for &file in &own.starred {
            roots.extend(self.source(file).definitions.keys().map(|name| (file, name.as_str())));
        }
        roots.retain(|(_, name)| mentioned.contains(name));
        roots.extend(owners.iter().map(|(file, name)| (*file, name.as_str())));
        roots.sort_unstable();
        let mut linked = Linked::new(&own);
        for (file, name) in roots {
            self.link(file, name, &mut linked);
        }
        linked.imports.join("\n") + "\n" + &linked.text
    }

    /// Adds a definition with all that it needs, or nothing.
    fn link<'a>(&'a self, file: usize, name: &'a str, linked: &mut Linked<'a>) {
        let mut needed: HashMap<&str, usize> = HashMap::new();
        let mut size = 0;
        let mut imports: Vec<(&str, &(String, String))> = Vec::new();
        let mut waiting = vec![(file, name)];
        while let Some((file, name)) = waiting.pop() {
            let source = self.source(file);
            if let Some(definition) = source.definitions.get(name) {
                if needed.get(name) == Some(&file) || linked.taken.get(name) == Some(&file) {
                    continue;
                }
                let is_other = linked.taken.contains_key(name)
                    || needed.contains_key(name)
                    || linked.own.defined.contains(name)
                    || linked.own.libraries.contains_key(name);
                size += usize::from(definition.range.len());
                if is_other || linked.text.len() + size > MAX_LINKED {
                    return;
                }
                needed.insert(name, file);
                waiting.extend(definition.mentions.iter().map(|name| (file, name.as_str())));
            } else if let Some(next) = source.names.imported.get(name).filter(|next| **next != file) {
                waiting.push((*next, name));
            } else if let Some(library) = source.names.libraries.get(name) {
                let known = linked.own.libraries.get(name).or(linked.libraries.get(name).copied());
                match known {
                    Some(known) if known.0 == library.0 => {}
                    Some(_) => return,
                    None if linked.own.defined.contains(name) => return,
                    None => imports.push((name, library)),
                }
            }
        }
        for (name, library) in imports {
            if linked.libraries.insert(name, library).is_none() {
                linked.imports.push(&library.1);
            }
        }
        let mut needed: Vec<(&str, usize)> = needed.into_iter().collect();
        needed.sort_unstable();
        for (name, file) in needed {
            let source = self.source(file);
            linked.taken.insert(name, file);
            linked.text += &source.text[source.definitions[name].range];
            linked.text.push('\n');
        }
    }

    /// The networks in the same folder that have a method; none where there are too many to tell which is meant.
    fn networks_with(&self, path: &Path, method: &str) -> &[(usize, String)] {
        let Some(folder) = self.by_path.get(path).map(|file| self.folders[*file]) else { return &[] };
        let Some(networks) = self.networks.get(&folder) else { return &[] };
        let by_method = networks.get_or_init(|| self.networks_by_method(folder));
        by_method.get(method).filter(|owners| owners.len() <= MAX_OWNERS).map_or(&[], Vec::as_slice)
    }

    fn networks_by_method(&self, folder: usize) -> ByMethod {
        let mut by_method = ByMethod::new();
        let files: Vec<usize> = (0..self.paths.len()).filter(|file| self.folders[*file] == folder).collect();
        if files.len() > MAX_SEARCHED {
            return by_method;
        }
        for file in files {
            let mut definitions: Vec<_> = self.source(file).definitions.iter().collect();
            definitions.sort_unstable_by_key(|(name, _)| name.as_str());
            for (name, definition) in definitions {
                for method in &definition.methods {
                    by_method.entry(method.clone()).or_default().push((file, name.clone()));
                }
            }
        }
        by_method
    }

    fn source(&self, file: usize) -> &Source {
        self.sources[file].get_or_init(|| self.read(&self.paths[file]).unwrap_or_default())
    }

    /// Reads a file; one that cannot be read or parsed defines nothing.
    fn read(&self, path: &Path) -> Option<Source> {
        let is_small = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_SOURCE);
        let is_wanted = |text: &String| is_small && too_deep(text).is_none();
        let text = std::fs::read_to_string(path).ok().filter(is_wanted)?;
        let parsed = parse_module(&text).ok()?;
        let body = &parsed.syntax().body;
        let names = self.names(path, body, &text);
        let mut definitions = HashMap::new();
        for statement in body {
            if let Some(name) = defined(statement) {
                let range = statement.range();
                let mentions: HashSet<&str> = words(&text[range]).filter(|word| names.has(word)).collect();
                let mentions = mentions.into_iter().map(str::to_owned).collect();
                let methods = methods_of_network(statement);
                definitions.insert(name.to_owned(), Definition { range, mentions, methods });
            }
        }
        Some(Source { text, names, definitions })
    }

    fn names(&self, path: &Path, body: &[Stmt], text: &str) -> Names {
        let mut names = Names::default();
        self.add_names(path, body, text, &mut names);
        names
    }

    fn add_names(&self, path: &Path, body: &[Stmt], text: &str, names: &mut Names) {
        for statement in body {
            match statement {
                // `try: from .net import Net` with another way to import the same behind it.
                Stmt::Try(attempt) => {
                    self.add_names(path, &attempt.body, text, names);
                    let mut others = Names::default();
                    for handler in &attempt.handlers {
                        let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                        self.add_names(path, &handler.body, text, &mut others);
                    }
                    for (name, file) in others.imported {
                        if !names.libraries.contains_key(&name) {
                            names.imported.entry(name).or_insert(file);
                        }
                    }
                }
                Stmt::Import(import) => names.import(import, text),
                Stmt::ImportFrom(import) => {
                    let file = self.imported_file(path, import);
                    names.import_from(import, file, text);
                }
                statement => names.defined.extend(defined(statement).map(str::to_owned)),
            }
        }
    }

    /// The file of the run that `from a.b import c` reads: below the importing file's folder, or below a folder around it.
    fn imported_file(&self, path: &Path, import: &StmtImportFrom) -> Option<usize> {
        let module = import.module.as_ref().map_or("", |module| module.as_str());
        let below: PathBuf = module.split('.').filter(|part| !part.is_empty()).collect();
        let folder = path.parent()?;
        let bases: Vec<&Path> = match import.level {
            0 => folder.ancestors().take(6).collect(),
            level => folder.ancestors().skip(level as usize - 1).take(1).collect(),
        };
        bases.into_iter().find_map(|base| {
            let target = base.join(&below);
            let file = || self.by_path.get(&target.with_extension("py")).filter(|_| !module.is_empty());
            file().or_else(|| self.by_path.get(&target.join("__init__.py"))).copied()
        })
    }
}

impl Names {
    fn has(&self, name: &str) -> bool {
        self.defined.contains(name) || self.imported.contains_key(name) || self.libraries.contains_key(name)
    }

    fn import(&mut self, import: &StmtImport, text: &str) {
        for alias in &import.names {
            let (name, path) = match &alias.asname {
                Some(name) => (name.as_str(), alias.name.as_str()),
                None => {
                    let first = alias.name.as_str().split('.').next().unwrap_or_default();
                    (first, first)
                }
            };
            self.libraries.insert(name.to_owned(), (path.to_owned(), text[import.range].to_owned()));
        }
    }

    fn import_from(&mut self, import: &StmtImportFrom, file: Option<usize>, text: &str) {
        let module = import.module.as_ref().map_or("", |module| module.as_str());
        for alias in &import.names {
            let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
            match file {
                Some(file) if alias.name.as_str() == "*" => self.starred.push(file),
                // Under another name it is not followed.
                Some(file) if alias.asname.is_none() => {
                    self.imported.insert(name.to_owned(), file);
                }
                Some(_) => {
                    self.defined.insert(name.to_owned());
                }
                None => {
                    let path = format!("{}{module}.{}", ".".repeat(import.level as usize), alias.name);
                    self.libraries.insert(name.to_owned(), (path, text[import.range].to_owned()));
                }
            }
        }
    }
}

/// What is appended to a file.
struct Linked<'a> {
    own: &'a Names,
    /// The names taken so far, by file.
    taken: HashMap<&'a str, usize>,
    libraries: HashMap<&'a str, &'a (String, String)>,
    imports: Vec<&'a str>,
    text: String,
}

impl<'a> Linked<'a> {
    fn new(own: &'a Names) -> Linked<'a> {
        Linked { own, taken: HashMap::new(), libraries: HashMap::new(), imports: Vec::new(), text: String::new() }
    }
}

/// The name of a function or class.
fn defined(statement: &Stmt) -> Option<&str> {
    match statement {
        Stmt::FunctionDef(function) => Some(function.name.as_str()),
        Stmt::ClassDef(class) => Some(class.name.as_str()),
        _ => None,
    }
}

/// The methods of a class with a forward pass.
fn methods_of_network(statement: &Stmt) -> Vec<String> {
    let Stmt::ClassDef(class) = statement else { return Vec::new() };
    let methods = class.body.iter().filter_map(|statement| match statement {
        Stmt::FunctionDef(function) => Some(function.name.to_string()),
        _ => None,
    });
    let methods: Vec<String> = methods.collect();
    if methods.iter().any(|method| method == "forward") { methods } else { Vec::new() }
}

/// The words of a text that may be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_'))
}
