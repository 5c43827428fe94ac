//! The tree of modules that a sketch describes, and how their forward passes run.

use super::arguments::{Given, Kind, Made};
use super::error::{Fault, SketchError};
use super::tape::Tape;
use super::tensor::{Tensor, drop_in_order};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Mode, Step};

/// The forward pass of a module; an error says what input it takes.
pub(super) type Forward = Box<dyn Fn(&Run<'_>, &Tensor) -> Result<Tensor, Fault>>;

/// A module.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) class: String,
    /// Its own parameters, in order.
    pub(super) parameters: Vec<(String, Vec<i64>)>,
    /// Its own buffers, in order.
    pub(super) buffers: Vec<(String, Vec<i64>, Dtype)>,
    pub(super) children: Vec<Node>,
    pub(super) forward: Forward,
    /// Its row of the model's modules.
    pub(super) module: u32,
    /// The tensor of its first own parameter, and of its first own buffer.
    pub(super) first: (u32, u32),
}

impl Node {
    pub(super) fn new(class: &str, forward: impl Fn(&Run<'_>, &Tensor) -> Result<Tensor, Fault> + 'static) -> Node {
        Node {
            name: String::new(),
            class: class.to_owned(),
            parameters: Vec::new(),
            buffers: Vec::new(),
            children: Vec::new(),
            forward: Box::new(forward),
            module: 0,
            first: (0, 0),
        }
    }

    pub(super) fn with_parameter(mut self, name: &str, shape: &[i64]) -> Node {
        self.parameters.push((name.to_owned(), shape.to_vec()));
        self
    }

    pub(super) fn with_parameter_if(self, is_there: bool, name: &str, shape: &[i64]) -> Node {
        if is_there { self.with_parameter(name, shape) } else { self }
    }

    pub(super) fn with_buffer(mut self, name: &str, shape: &[i64], dtype: Dtype) -> Node {
        self.buffers.push((name.to_owned(), shape.to_vec(), dtype));
        self
    }

    pub(super) fn with_child(mut self, name: &str, mut child: Node) -> Node {
        child.name = name.to_owned();
        self.children.push(child);
        self
    }

    /// `nn.Sequential`.
    pub(super) fn sequential(children: Vec<Node>) -> Node {
        let mut node = Node::new("Sequential", |run, input| {
            let mut value = input.clone();
            for child in &run.node.children {
                value = run.call(child, &value)?;
            }
            Ok(value)
        });
        node.children = children;
        node
    }

    /// The output of the body, plus the input or the output of the shortcut.
    pub(super) fn residual(body: Node, shortcut: Option<Node>) -> Node {
        let node = Node::new("Residual", |run, input| {
            let made = run.call(&run.node.children[0], input)?;
            let other = match run.node.children.get(1) {
                Some(shortcut) => run.call(shortcut, input)?,
                None => input.clone(),
            };
            if made.shape() != other.shape() {
                return Err(Fault::Needed(format!(
                    "but the body makes {} of it and the other side of the sum is {}",
                    made.shape_text(),
                    other.shape_text()
                )));
            }
            Ok(run.add(made, other))
        });
        let node = node.with_child("body", body);
        match shortcut {
            Some(shortcut) => node.with_child("shortcut", shortcut),
            None => node,
        }
    }
}

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

    /// The sum; `left` is dropped first.
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
