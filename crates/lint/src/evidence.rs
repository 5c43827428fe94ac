//! What the source shows of the four things that a finding claims, the same way for all rules. A finding stands if nothing is left
//! open; otherwise it is a note.

mod fate;

use ruff_python_ast::Stmt;
use ruff_python_ast::statement_visitor::{self, StatementVisitor};

use crate::analysis::FileFacts;
use crate::analysis::facts::{Event, EventKind, Iterates, LoopId, Repeats, ScopeId};
use crate::analysis::names;

pub use fate::stays_on_gpu;

/// A claim that the source neither shows nor rules out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Open {
    /// That the memory is a GPU's.
    Place,
    /// That the value is a tensor, or that its network runs without a need of its graph.
    Graph,
    /// That it happens so often, or is so large, that it matters.
    Amount,
    /// That nobody wants it as it is.
    Use,
}

impl Open {
    /// What is not shown, in words.
    pub fn words(self) -> &'static str {
        match self {
            Open::Place => "that the memory is on a GPU",
            Open::Graph => "that there is a graph, and nobody needs it",
            Open::Amount => "that it is large, or grows with the data",
            Open::Use => "that nobody wants it on the GPU later",
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Open::Place => "place",
            Open::Graph => "graph",
            Open::Amount => "amount",
            Open::Use => "use",
        }
    }
}

/// Those of some claims that are not shown.
pub fn open(claims: impl IntoIterator<Item = (Open, bool)>) -> Vec<Open> {
    claims.into_iter().filter(|(_, is_shown)| !is_shown).map(|(claim, _)| claim).collect()
}

/// Whether a framework or an accelerator places the networks of the file.
fn has_placing_framework(facts: &FileFacts<'_>) -> bool {
    ["ccelerator", "LightningModule", "Trainer(", "Fabric"].iter().any(|word| facts.source.contains(word))
}

/// Whether the file moves a network to a device: under this name, as a part of what it moves, as the attribute of an object of the
/// same name, or through a framework.
pub fn is_placed(facts: &FileFacts<'_>, network: &str) -> bool {
    let own = |path: &str| names::last(path.strip_suffix(".module").unwrap_or(path)).to_string();
    let usage = &facts.index.usage;
    let mut wholes = std::iter::successors(Some(network), |path| path.rsplit_once('.').map(|(whole, _)| whole));
    wholes.any(|whole| whole != "self" && usage.is_moved(whole))
        || network != "self" && usage.moved().any(|moved| own(moved) == own(network))
        || has_placing_framework(facts)
}

/// Whether the file works on a GPU, or a framework does it for the file.
pub fn uses_gpu(facts: &FileFacts<'_>) -> bool {
    facts.index.has_gpu || has_placing_framework(facts)
}

/// Whether a loop goes through data to its end: its rounds grow with the data, and nothing ends it before.
pub fn goes_through_data(facts: &FileFacts<'_>, number: LoopId) -> bool {
    let loop_ = &facts.loops[number];
    matches!(loop_.iterates, Iterates::Batches(_)) && loop_.repeats != Repeats::Forward && !ends_early(loop_.statement)
}

/// Whether a loop has a `break` of its own.
fn ends_early(statement: Option<&Stmt>) -> bool {
    struct Finder(bool);
    impl<'a> StatementVisitor<'a> for Finder {
        fn visit_stmt(&mut self, statement: &'a Stmt) {
            match statement {
                Stmt::Break(_) => self.0 = true,
                Stmt::For(_) | Stmt::While(_) | Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {}
                _ => statement_visitor::walk_stmt(self, statement),
            }
        }
    }
    let body = match statement {
        Some(Stmt::For(statement)) => &statement.body,
        Some(Stmt::While(statement)) => &statement.body,
        _ => return false,
    };
    let mut finder = Finder(false);
    finder.visit_body(body);
    finder.0
}

/// Whether a loop ends with its first round: its last statement is a `break`.
pub fn ends_at_once(facts: &FileFacts<'_>, number: LoopId) -> bool {
    match facts.loops[number].statement {
        Some(Stmt::For(statement)) => matches!(statement.body.last(), Some(Stmt::Break(_))),
        Some(Stmt::While(statement)) => matches!(statement.body.last(), Some(Stmt::Break(_))),
        _ => false,
    }
}

/// Whether a step of an optimizer is in the same function.
pub fn trains_here(facts: &FileFacts<'_>, events: &[Event<'_>], scope: ScopeId) -> bool {
    let own = facts.function_scope(scope);
    events.iter().any(|event| matches!(event.kind, EventKind::Step { .. }) && facts.function_scope(event.scope) == own)
}

/// Whether a call runs in each round of a loop, or only where the file asks for a GPU or counts rounds.
pub fn runs_each_round(facts: &FileFacts<'_>, scope: ScopeId, number: Option<LoopId>) -> bool {
    facts.branches(scope, number).iter().filter_map(|(test, _)| *test).all(|test| {
        let text = facts.text(test).to_lowercase();
        ["cuda", "gpu", "device", "%"].iter().any(|word| text.contains(word))
    })
}
