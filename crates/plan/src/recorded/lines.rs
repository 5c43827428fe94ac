//! Where the steps of a recorded script come from.

use std::fmt;

use vramfit_graph::model::{Calls, Model, RecordedScript, Step};

/// A line of the script's own files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// The file.
    pub file: String,
    /// The line.
    pub line: u32,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}

/// The rows of [`Model::sources`] and who called them.
#[derive(Clone, Copy)]
pub(super) struct Lines<'m> {
    model: &'m Model,
    script: &'m RecordedScript,
}

impl<'m> Lines<'m> {
    pub(super) fn new(model: &'m Model, script: &'m RecordedScript) -> Lines<'m> {
        Lines { model, script }
    }

    /// The row of a call; `None` for other steps.
    pub(super) fn of(step: &Step) -> Option<u32> {
        match step {
            Step::Call(call) => call.source,
            _ => None,
        }
    }

    /// The line of a row.
    pub(super) fn line(self, row: u32) -> Line {
        let source = &self.model.sources[row as usize];
        Line { file: source.file.clone(), line: source.line }
    }

    /// The statement outside of all modules within which a row runs: what its author can change without touching a model.
    pub(super) fn statement(self, row: u32) -> u32 {
        let called = self.outwards(row).filter_map(|row| {
            let caller = self.script.callers.get(row as usize)?;
            caller.source.filter(|_| caller.is_in_module)
        });
        called.last().unwrap_or(row)
    }

    /// The row that called the function in which a statement is.
    pub(super) fn frame(self, statement: u32) -> Option<u32> {
        self.script.callers.get(statement as usize)?.source
    }

    /// The line of the function that `frame` called, within which a row runs.
    pub(super) fn within(self, frame: Option<u32>, row: u32) -> Option<Line> {
        self.outwards(row).find(|row| self.frame(*row) == frame).map(|row| self.line(row))
    }

    /// Whether an optimizer or a replica makes the calls of a row.
    pub(super) fn is_of_library(self, row: u32) -> bool {
        let calls = self.script.callers.get(row as usize).map(|caller| caller.calls);
        matches!(calls, Some(Calls::Optimizer | Calls::Replica))
    }

    /// A row, the one that called it, and so on.
    fn outwards(self, row: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(row), move |row| self.frame(*row))
    }
}
