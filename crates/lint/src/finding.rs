//! A finding: where it is, what is wrong, what it costs, and how to fix it.

use ruff_text_size::TextRange;

use crate::evidence::Open;
use crate::recorded::{Recorded, Subject};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Note,
    /// Memory or time is wasted.
    Warning,
    /// Memory grows without bound, or the training is wrong.
    Error,
}

/// A replacement of source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The replaced range; empty for an insertion.
    pub range: TextRange,
    /// The new text.
    pub text: String,
}

/// The edits that fix a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// In a few words.
    pub title: String,
    /// Whether the program computes the same afterwards.
    pub is_safe: bool,
    /// The edits; they do not overlap.
    pub edits: Vec<Edit>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's code.
    pub code: &'static str,
    /// The source range it is about.
    pub range: TextRange,
    /// What is wrong.
    pub message: String,
    /// What it costs.
    pub cost: String,
    /// What to write instead.
    pub advice: String,
    /// How much it matters.
    pub severity: Severity,
    /// How `--fix` would fix it.
    pub fix: Option<Fix>,
    /// The memory that it is about.
    pub subject: Subject,
    /// The innermost block of statements around it.
    pub block: TextRange,
    /// What it claims and the source does not show: then it is a note.
    pub open: Vec<Open>,
    /// What a recording says about it; whoever has one fills this in.
    pub recorded: Option<Recorded>,
}

impl Finding {
    /// A warning without a fix.
    pub fn new(code: &'static str, range: TextRange, message: impl Into<String>) -> Finding {
        Finding {
            code,
            range,
            message: message.into(),
            cost: String::new(),
            advice: String::new(),
            severity: Severity::Warning,
            fix: None,
            subject: Subject::Nothing,
            block: range,
            open: Vec::new(),
            recorded: None,
        }
    }

    /// Sets the memory that it is about.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Finding {
        self.subject = subject;
        self
    }

    /// Sets what the source leaves open.
    #[must_use]
    pub fn leaves_open(mut self, open: Vec<Open>) -> Finding {
        self.open = open;
        self
    }

    /// Whether the source shows all that it claims.
    pub fn is_shown(&self) -> bool {
        self.open.is_empty()
    }

    /// Sets what it costs.
    #[must_use]
    pub fn costs(mut self, cost: impl Into<String>) -> Finding {
        self.cost = cost.into();
        self
    }

    /// Sets what to write instead.
    #[must_use]
    pub fn advises(mut self, advice: impl Into<String>) -> Finding {
        self.advice = advice.into();
        self
    }

    /// Sets the severity.
    #[must_use]
    pub fn rated(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    /// Sets the fix.
    #[must_use]
    pub fn fixed_by(mut self, title: &str, is_safe: bool, edits: Vec<Edit>) -> Finding {
        self.fix = Some(Fix { title: title.into(), is_safe, edits });
        self
    }
}
