//! What a finding is about in a recorded run, and what the recording says about it.

use ruff_python_ast::Stmt;
use ruff_python_ast::visitor::{Visitor, walk_body};
use ruff_text_size::{Ranged, TextRange};

/// The memory that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// None that a recording shows: time, main memory, or a choice.
    Nothing,
    /// What an iteration of a loop allocates and later ones still hold.
    Kept {
        /// The source that allocates it.
        made: Vec<TextRange>,
        /// The header and the statements of the loop, in order; empty if code elsewhere repeats it.
        body: Vec<TextRange>,
    },
    /// What the call of a network leaves in memory.
    Pass,
    /// Gradients, held through a forward pass.
    Gradients,
    /// All that the finding's source allocates.
    Made,
}

/// What a recording says about a finding. Without `has_run` the rest is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Whether the finding's source, or the block around it, allocated memory in the recorded run.
    pub has_run: bool,
    /// The most bytes held at once; `None` if the recording cannot say.
    pub bytes: Option<u64>,
    /// Bytes that an iteration keeps, or that a call of a network leaves.
    pub each: Option<u64>,
    /// How much lower the peak of allocated memory would be; `None` where part of it is needed.
    pub peak_reduction: Option<u64>,
    /// The peak of allocated memory.
    pub peak: u64,
}

/// The innermost block of statements around `range`.
pub(crate) fn block_around(body: &[Stmt], range: TextRange) -> TextRange {
    struct Blocks {
        range: TextRange,
        innermost: TextRange,
    }
    impl<'a> Visitor<'a> for Blocks {
        fn visit_body(&mut self, body: &'a [Stmt]) {
            if let [first, .., last] | [first @ last] = body {
                let block = TextRange::new(first.start(), last.end());
                if block.contains_range(self.range) {
                    self.innermost = block;
                    walk_body(self, body);
                }
            }
        }
    }
    let mut blocks = Blocks { range, innermost: range };
    blocks.visit_body(body);
    blocks.innermost
}
