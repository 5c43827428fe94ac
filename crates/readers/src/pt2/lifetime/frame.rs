//! The state of running `forward` functions.

use super::super::statement::ParsedLine;
use vramfit_graph::model::TensorId;

/// A statement of a `forward` that is being executed.
pub(super) struct Statement<'a> {
    /// Its number among all statements of the step.
    pub(super) number: usize,
    pub(super) line: u32,
    pub(super) parsed: &'a ParsedLine<'a>,
    /// The module calls it has made; the last may still be running.
    pub(super) children: Vec<u32>,
    /// The tensors it has created so far.
    pub(super) made: Vec<TensorId>,
    /// The tensors its last module call returned.
    pub(super) returned: Vec<TensorId>,
    /// Whether it calls an operator before its first module call. If it is a loop on one line, so does every iteration.
    pub(super) begins_itself: bool,
    /// The tensors it has used since its last module call; that may be the next iteration.
    pub(super) used: Vec<TensorId>,
    /// Tensors without further use, freed already, that variables of a function it calls may still hold.
    pub(super) unused: Vec<TensorId>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(number: usize, line: u32, parsed: &'a ParsedLine<'a>, child: Option<u32>) -> Statement<'a> {
        Statement {
            number,
            line,
            parsed,
            children: child.into_iter().collect(),
            made: Vec::new(),
            returned: Vec::new(),
            begins_itself: false,
            used: Vec::new(),
            unused: Vec::new(),
        }
    }
}

/// A running `forward`.
pub(super) struct Frame<'a> {
    pub(super) call: u32,
    pub(super) arguments: Vec<TensorId>,
    pub(super) locals: Vec<(&'a str, Vec<TensorId>)>,
    pub(super) statement: Option<Statement<'a>>,
    /// Tensors that may live until the function returns.
    pub(super) unsure: Vec<TensorId>,
    /// Tensors that may live until the next statement ends.
    pub(super) soon: Vec<TensorId>,
}
