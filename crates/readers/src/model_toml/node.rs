//! The tree of modules that a sketch describes.

use super::error::Fault;
use super::run::Run;
use super::tape::Tensor;
use vramfit_graph::dtype::Dtype;

/// What a module does with what comes in; an error says what it takes.
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

    /// What the body makes of it, plus itself or what the shortcut makes of it.
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
