//! What the linter says: where, what is wrong, what it costs, and how to change it.

use ruff_text_size::TextRange;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something to know.
    Note,
    /// Memory or time is wasted.
    Warning,
    /// Memory grows, or the training is wrong.
    Error,
}

/// A change of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is replaced.
    pub range: TextRange,
    /// By what.
    pub text: String,
}

/// Changes that mend a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// In a few words.
    pub title: String,
    /// Whether the program computes the same afterwards.
    pub is_safe: bool,
    /// The changes; they do not overlap.
    pub edits: Vec<Edit>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule's code.
    pub code: &'static str,
    /// Where.
    pub range: TextRange,
    /// What is wrong.
    pub message: String,
    /// What it costs.
    pub cost: String,
    /// What to write instead.
    pub advice: String,
    /// How much it matters.
    pub severity: Severity,
    /// How it can be mended.
    pub fix: Option<Fix>,
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
        }
    }

    /// The same with what it costs.
    #[must_use]
    pub fn costs(mut self, cost: impl Into<String>) -> Finding {
        self.cost = cost.into();
        self
    }

    /// The same with what to write instead.
    #[must_use]
    pub fn advises(mut self, advice: impl Into<String>) -> Finding {
        self.advice = advice.into();
        self
    }

    /// The same, more or less grave.
    #[must_use]
    pub fn rated(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    /// The same with a fix.
    #[must_use]
    pub fn fixed_by(mut self, title: &str, is_safe: bool, edits: Vec<Edit>) -> Finding {
        self.fix = Some(Fix { title: title.into(), is_safe, edits });
        self
    }
}
