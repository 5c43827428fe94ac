//! Where calls come from: the modules whose `forward` is running, and the line each of them is at.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::statement::{self, ParsedLine};
use crate::json::TextId;
use vramfit_graph::model::{Module, Source};

/// The prefixes of a module stack are remembered only up to this many new entries: otherwise the memory they take would grow
/// with the square of the file.
const NEW_ENTRIES: usize = 64;

/// One call of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModuleCall {
    /// The module, a row of the table.
    pub(super) module: u32,
    /// Its path, which differs between calls of the same module.
    key: String,
}

/// A line of a running `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub(super) number: u32,
    /// What it does, an index into [`CallSites::lines`].
    pub(super) parsed: u32,
}

/// Where a call comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct CallSite<'a> {
    /// The running modules, the model itself first.
    pub(super) calls: Vec<u32>,
    /// The line at which each of them is; empty where the stack trace does not have one for each.
    pub(super) lines: Vec<Line>,
    /// The innermost line of the model's own code.
    pub(super) source: Option<u32>,
    /// The text of the innermost line.
    pub(super) text: &'a str,
}

/// All call sites, modules and lines met so far.
pub(super) struct CallSites<'a> {
    sites: Vec<CallSite<'a>>,
    pub(super) modules: Vec<Module>,
    pub(super) calls: Vec<ModuleCall>,
    pub(super) sources: Vec<Source>,
    /// The distinct lines of running `forward` functions, parsed.
    pub(super) lines: Vec<ParsedLine<'a>>,
    /// The texts that a node's module stack and stack trace are numbers of.
    texts: &'a [Box<str>],
    known: HashMap<(TextId, TextId), u32>,
    /// The frames of each stack trace, which many call sites share.
    stacks: HashMap<TextId, Vec<Frame<'a>>>,
    /// The running calls by module stack, and by prefix of one.
    running: HashMap<&'a str, Vec<u32>>,
    module_numbers: HashMap<&'a str, u32>,
    call_numbers: HashMap<&'a str, u32>,
    source_numbers: HashMap<(&'a str, u32, &'a str), u32>,
    line_numbers: HashMap<&'a str, u32>,
}

impl<'a> CallSites<'a> {
    /// With the modules at these paths, in order; their classes become known when they are called.
    pub(super) fn new(paths: &'a [Cow<'_, str>], texts: &'a [Box<str>]) -> CallSites<'a> {
        let mut sites = CallSites {
            sites: Vec::new(),
            modules: Vec::new(),
            calls: Vec::new(),
            sources: Vec::new(),
            lines: Vec::new(),
            texts,
            known: HashMap::new(),
            stacks: HashMap::new(),
            running: HashMap::new(),
            module_numbers: HashMap::new(),
            call_numbers: HashMap::new(),
            source_numbers: HashMap::new(),
            line_numbers: HashMap::new(),
        };
        sites.module("");
        for path in paths {
            sites.module(path);
        }
        sites
    }

    /// The number of the module at this path.
    fn module(&mut self, path: &'a str) -> u32 {
        if let Some(number) = self.module_numbers.get(path) {
            return *number;
        }
        let number = self.modules.len() as u32;
        self.modules.push(Module { path: Some(path.to_owned()), class: String::new() });
        self.module_numbers.insert(path, number);
        number
    }

    /// The call site with this number.
    pub(super) fn get(&self, number: u32) -> &CallSite<'a> {
        &self.sites[number as usize]
    }

    /// The number of the call site that a node's metadata give; `outer` is that of the region around the node.
    pub(super) fn number(&mut self, modules: TextId, stack: TextId, outer: Option<u32>) -> u32 {
        let key = (modules, stack);
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let mut site = self.read(modules, stack);
        if site.calls.is_empty()
            && let Some(outer) = outer
        {
            site.calls.clone_from(&self.get(outer).calls);
            site.lines.clone_from(&self.get(outer).lines);
        }
        self.sites.push(site);
        let number = self.sites.len() as u32 - 1;
        self.known.insert(key, number);
        number
    }

    fn read(&mut self, modules: TextId, stack: TextId) -> CallSite<'a> {
        let texts = self.texts;
        let text = |id: TextId| texts.get(id.0 as usize).map_or("", |text| &**text);
        let calls = self.calls(text(modules));
        let frames = self.stacks.entry(stack).or_insert_with(|| frames(text(stack)));
        let own = frames.iter().rev().find(|frame| !is_torch(frame.file)).or(frames.last()).copied();
        let text = frames.last().map_or("", |frame| frame.text);
        let running: Vec<Frame<'a>> = frames.iter().filter(|frame| frame.function == "forward").copied().collect();
        let lines = match running.len() == calls.len() {
            true => running.into_iter().map(|frame| self.line(frame)).collect(),
            false => Vec::new(),
        };
        CallSite { calls, lines, source: own.map(|frame| self.source(frame)), text }
    }

    fn line(&mut self, frame: Frame<'a>) -> Line {
        let parsed = *self.line_numbers.entry(frame.text).or_insert_with(|| {
            self.lines.push(statement::parse(frame.text));
            self.lines.len() as u32 - 1
        });
        Line { number: frame.line, parsed }
    }

    /// The module calls of a module stack, whose entries are separated by semicolons. Most of a stack was met before.
    fn calls(&mut self, stack: &'a str) -> Vec<u32> {
        let mut begins: Vec<&'a str> = Vec::new();
        let mut rest = Some(stack);
        let mut calls = loop {
            let Some(begin) = rest else { break Vec::new() };
            if let Some(known) = self.running.get(begin) {
                break known.clone();
            }
            if begins.len() == NEW_ENTRIES {
                return stack.split(';').filter_map(|entry| self.call(entry)).collect();
            }
            begins.push(begin);
            rest = begin.rsplit_once(';').map(|(before, _)| before);
        };
        for begin in begins.into_iter().rev() {
            let entry = begin.rsplit_once(';').map_or(begin, |(_, entry)| entry);
            calls.extend(self.call(entry));
            self.running.insert(begin, calls.clone());
        }
        calls
    }

    /// The module call that `key,path,class` names.
    fn call(&mut self, entry: &'a str) -> Option<u32> {
        let mut parts = entry.splitn(3, ',');
        let (_, path, class) = (parts.next()?, parts.next()?, parts.next()?);
        if path.starts_with("_empty_nn_module_stack") {
            return None;
        }
        if let Some(number) = self.call_numbers.get(path) {
            return Some(*number);
        }
        // A second call of a module is written as `path@1`.
        let module = self.module(path.split('@').next().unwrap_or(path));
        let class = class.rsplit('.').next().unwrap_or(class);
        self.modules[module as usize].class = class.to_owned();
        let number = self.calls.len() as u32;
        self.calls.push(ModuleCall { module, key: path.to_owned() });
        self.call_numbers.insert(path, number);
        Some(number)
    }

    fn source(&mut self, frame: Frame<'a>) -> u32 {
        let key = (frame.file, frame.line, frame.function);
        if let Some(number) = self.source_numbers.get(&key) {
            return *number;
        }
        let source = Source { file: shown_path(frame.file), line: frame.line, function: frame.function.to_owned() };
        // Two files may be shown by one name.
        let number = self.sources.iter().position(|known| *known == source).unwrap_or(self.sources.len());
        if number == self.sources.len() {
            self.sources.push(source);
        }
        self.source_numbers.insert(key, number as u32);
        number as u32
    }

    /// Whether two module calls are calls of members of one list of modules, which a loop calls one after another.
    pub(super) fn are_in_a_loop(&self, first: u32, second: u32) -> bool {
        let parts = |call: u32| {
            let path = self.calls[call as usize].key.split('@').next().unwrap_or("");
            match path.rsplit_once('.') {
                Some((parent, last)) => (parent, last),
                None => ("", path),
            }
        };
        let (one, other) = (parts(first), parts(second));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        one.0 == other.0 && is_number(one.1) && is_number(other.1)
    }

    /// Gives modules that are never called themselves the class of a list of modules.
    pub(super) fn name_lists(&mut self) {
        for number in 0..self.modules.len() {
            let path = self.modules[number].path.clone().unwrap_or_default();
            if self.modules[number].class.is_empty() {
                let prefix = format!("{path}.");
                let mut children = self.modules.iter().filter_map(|it| it.path.as_deref()?.strip_prefix(&prefix));
                let is_list = children.next().is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()));
                self.modules[number].class = if is_list { "ModuleList" } else { "Module" }.to_owned();
            }
        }
    }
}

/// A line of a stack trace.
#[derive(Clone, Copy)]
struct Frame<'a> {
    file: &'a str,
    line: u32,
    function: &'a str,
    text: &'a str,
}

/// The frames of a stack trace as Python writes it, the outermost first.
fn frames(stack: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in stack.lines() {
        let trimmed = line.trim();
        match trimmed.strip_prefix("File \"").and_then(parse_frame) {
            Some(frame) => frames.push(frame),
            None => {
                if let Some(frame) = frames.last_mut().filter(|frame| frame.text.is_empty()) {
                    frame.text = trimmed;
                }
            }
        }
    }
    frames
}

/// `path", line 12, in forward`.
fn parse_frame(text: &str) -> Option<Frame<'_>> {
    let (file, rest) = text.split_once("\", line ")?;
    let (line, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    Some(Frame { file, line: line.parse().ok()?, function, text: "" })
}

fn is_torch(file: &str) -> bool {
    shown_path(file).starts_with("site-packages/torch/")
}

/// The path without the part that depends on the machine.
fn shown_path(file: &str) -> String {
    let file = file.replace('\\', "/");
    for folder in ["site-packages/", "dist-packages/"] {
        if let Some((_, rest)) = file.rsplit_once(folder) {
            return format!("site-packages/{rest}");
        }
    }
    match file.starts_with('/') || file.contains(":/") {
        true => file.rsplit('/').next().unwrap_or(&file).to_owned(),
        false => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "File \"net.py\", line 12, in forward\n    x = self.layer(x)\n  File \"lib/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n    return F.linear(input, self.weight, self.bias)";

    #[test]
    fn a_call_site_has_modules_lines_and_the_models_own_line() {
        let texts =
            ["L__self__,,net.Net;L__self___layer,layer,torch.nn.modules.linear.Linear".into(), Box::from(STACK)];
        let mut sites = CallSites::new(&[], &texts);
        let number = sites.number(TextId(0), TextId(1), None);
        let site = sites.get(number);
        assert_eq!(site.calls, [0, 1]);
        assert_eq!(site.lines[0].number, 12);
        assert_eq!(sites.lines[site.lines[0].parsed as usize].targets, ["x"]);
        let source = &sites.sources[site.source.expect("it has one") as usize];
        assert_eq!((source.file.as_str(), source.line, source.function.as_str()), ("net.py", 12, "forward"));
        assert_eq!(sites.modules[1].class, "Linear");
        assert_eq!(sites.modules[1].path.as_deref(), Some("layer"));
    }

    #[test]
    fn a_second_call_of_a_module_is_another_call() {
        let texts = ["L__self__,,net.Net;a,relu,torch.nn.ReLU", "L__self__,,net.Net;a@1,relu@1,torch.nn.ReLU", STACK];
        let texts = texts.map(Box::from);
        let mut sites = CallSites::new(&[], &texts);
        sites.number(TextId(0), TextId(2), None);
        sites.number(TextId(1), TextId(2), None);
        assert_eq!(sites.calls.len(), 3);
        assert_eq!(sites.calls[1].module, sites.calls[2].module);
    }

    #[test]
    fn no_machine_is_named() {
        assert_eq!(shown_path("lib/site-packages/torch/nn/x.py"), "site-packages/torch/nn/x.py");
        assert_eq!(shown_path("C:\\Users\\me\\net.py"), "net.py");
        assert_eq!(shown_path("cases/plain.py"), "cases/plain.py");
        assert!(is_torch("C:\\me\\Lib\\site-packages\\torch\\nn\\modules\\linear.py"));
        assert!(!is_torch("C:\\me\\torch\\net.py"));
    }
}
