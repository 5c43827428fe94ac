//! A module's forward pass: what its layers are written with.

use super::error::{Fault, SketchError};
use super::node::Node;
use super::tape::{Given, Kind, Made, Tape, Tensor, drop_in_order};
use vramfit_graph::model::{Mode, Step};

/// A module being run.
pub(super) struct Run<'a> {
    pub(super) tape: &'a Tape,
    pub(super) node: &'a Node,
    path: String,
}

impl Run<'_> {
    /// Runs the whole model.
    pub(super) fn model(tape: &Tape, node: &Node, input: &Tensor) -> Result<Tensor, SketchError> {
        let outer = Run { tape, node, path: String::new() };
        match outer.enter(node, String::new(), std::slice::from_ref(input)) {
            Ok(output) => Ok(output),
            Err(Fault::Inside(error)) => Err(*error),
            Err(Fault::Needed(needed)) => Err(outer.mismatch(node, "model", input, needed)),
        }
    }

    pub(super) fn is_training(&self) -> bool {
        self.tape.mode() == Mode::Train
    }

    /// Whether PyTorch's fused inference kernels may run.
    pub(super) fn is_plain_inference(&self) -> bool {
        self.tape.mode() == Mode::Eval && self.tape.lower().is_none()
    }

    /// The module's own parameter of that name, if it has one.
    pub(super) fn parameter(&self, name: &str) -> Option<Tensor> {
        parameter_of(self.tape, self.node, name)
    }

    /// The module's own buffer of that name, if it has one.
    pub(super) fn buffer(&self, name: &str) -> Option<Tensor> {
        let at = self.node.buffers.iter().position(|(known, ..)| known == name)?;
        Some(self.tape.given(self.node.first.1 + at as u32))
    }

    /// Calls a child with one tensor.
    pub(super) fn call(&self, child: &Node, input: &Tensor) -> Result<Tensor, Fault> {
        self.call_with(child, std::slice::from_ref(input))
    }

    /// Calls a child with several tensors, of which its forward pass sees the first.
    pub(super) fn call_with(&self, child: &Node, inputs: &[Tensor]) -> Result<Tensor, Fault> {
        let path = if self.path.is_empty() { child.name.clone() } else { format!("{}.{}", self.path, child.name) };
        match self.enter(child, path.clone(), inputs) {
            Err(Fault::Needed(needed)) => Err(Fault::Inside(Box::new(self.mismatch(child, &path, &inputs[0], needed)))),
            other => other,
        }
    }

    fn enter(&self, node: &Node, path: String, inputs: &[Tensor]) -> Result<Tensor, Fault> {
        self.tape.step(Step::Enter(node.module, inputs.iter().map(Tensor::id).collect()));
        let run = Run { tape: self.tape, node, path };
        let output = (node.forward)(&run, &inputs[0])?;
        self.tape.step(Step::Exit(node.module, vec![output.id()]));
        Ok(output)
    }

    fn mismatch(&self, node: &Node, layer: &str, input: &Tensor, needed: String) -> SketchError {
        SketchError::Mismatch { layer: layer.to_owned(), class: node.class.clone(), found: input.shape_text(), needed }
    }

    /// An operator of one new tensor.
    pub(super) fn one(&self, operator: &str, given: Vec<Given>, made: Made) -> Tensor {
        let mut results = self.tape.call(operator, given, vec![made]);
        results.swap_remove(0)
    }

    /// An operator that computes each element on its own.
    pub(super) fn pointwise(&self, operator: &str, input: &Tensor, more: Vec<Given>) -> Tensor {
        let mut given = vec![Given::Tensor(input.clone())];
        given.extend(more);
        self.one(operator, given, Made::like(input))
    }

    /// The sum; `left` is let go of first.
    pub(super) fn add(&self, left: Tensor, right: Tensor) -> Tensor {
        let sum = self.add_to(&left, &right);
        drop_in_order([left, right]);
        sum
    }

    /// The sum of two tensors of one shape.
    pub(super) fn add_to(&self, left: &Tensor, right: &Tensor) -> Tensor {
        let made = Made { kind: Kind::Promoted, ..Made::like(left) };
        let given = vec![Given::Tensor(left.clone()), Given::Tensor(right.clone())];
        self.one("aten.add.Tensor", given, made)
    }
}

/// The module's own parameter of that name, if it has one.
pub(super) fn parameter_of(tape: &Tape, node: &Node, name: &str) -> Option<Tensor> {
    let at = node.parameters.iter().position(|(known, _)| known == name)?;
    Some(tape.given(node.first.0 + at as u32))
}
