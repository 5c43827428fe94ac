//! The graph as one list of calls: names become numbers, nested graphs are inlined where they are called.

mod argument;

use std::borrow::Cow;

use super::call_site::CallSites;
use super::error::ArchiveError;
use super::graph::{RawArgument, RawGraph, RawInt, RawNode};
use super::node::{argument_tensors, is_by_method, is_for_python, largest_branch, node_location, renamed};
use super::operators::Operators;
use super::scope::Scope;
use super::signature::Alias;
use super::sizes::Sizes;
use super::tensor_meta::{RawSize, TensorMeta};
use crate::check::error::CheckError;
use crate::error::ReadError;
use vramfit_eager::operators::Effect;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

/// How deep graphs may nest.
const GRAPH_LIMIT: usize = 16;

/// A tensor of the graph.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<Size>,
    pub(super) strides: Vec<Size>,
    pub(super) offset: Size,
    pub(super) is_on_host: bool,
    pub(super) requires_grad: bool,
    pub(super) is_view: bool,
    /// The tensor whose memory it shares.
    pub(super) storage: u32,
}

/// A call, its arguments in the operator's order.
#[derive(Clone, Debug)]
pub(super) struct FlatCall {
    pub(super) operator: u32,
    pub(super) arguments: Vec<Argument>,
    pub(super) results: Vec<Option<TensorId>>,
    /// Where it comes from, a number of [`CallSites`].
    pub(super) site: u32,
    /// Whether a method that names a type made it, such as `float`.
    pub(super) is_by_method: bool,
}

impl FlatCall {
    /// Visits every tensor among its arguments.
    pub(super) fn each_tensor(&self, visit: &mut impl FnMut(TensorId)) {
        self.arguments.iter().for_each(|argument| argument.each_tensor(visit));
    }
}

/// One event of the graph.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Call(FlatCall),
    Grad(bool),
    Autocast { is_gpu: bool, dtype: Option<Dtype>, is_enabled: bool, has_cache: bool },
    EndAutocast,
}

/// A graph as one list.
pub(super) struct Flat<'a> {
    pub(super) sizes: Sizes<'a>,
    pub(super) operators: Operators,
    pub(super) sites: CallSites<'a>,
    /// By tensor number.
    pub(super) values: Vec<Value>,
    pub(super) items: Vec<Item>,
    /// The device that takes the role of the GPU.
    pub(super) device: String,
    /// How many of the first tensors are parameters or buffers.
    pub(super) weights: usize,
    /// How many of the first tensors exist before the step, constants excluded.
    pub(super) given: usize,
    /// How often data decides which graph runs; the one that allocates most is taken.
    pub(super) branches: usize,
}

impl Flat<'_> {
    /// Adds a tensor with this type.
    pub(super) fn add_value(
        &mut self,
        meta: &TensorMeta<'_>,
        location: &dyn Fn() -> String,
    ) -> Result<TensorId, ReadError> {
        let mut sizes = |raw: &[RawSize], what: &str| -> Result<Vec<Size>, ReadError> {
            let mut found = Vec::with_capacity(raw.len());
            for (dim, size) in raw.iter().enumerate() {
                let location = || format!("{}: {what} {dim}", location());
                let size = self.sizes.size(*size, location)?;
                if let Size::Known(found @ ..0) = size {
                    return Err(CheckError::NegativeSize { location: location(), found }.into());
                }
                found.push(size);
            }
            Ok(found)
        };
        let (shape, strides) = (sizes(&meta.shape, "dimension")?, sizes(&meta.strides, "stride")?);
        if strides.len() != shape.len() {
            let (found, needed) = (strides.len(), shape.len());
            return Err(ReadError::from(CheckError::WrongDimensionCount {
                location: format!("{}: strides", location()),
                found,
                needed,
                of: "shape",
            }));
        }
        let offset = self.sizes.size(meta.offset, || format!("{}: offset", location()))?;
        let offset = if matches!(offset, Size::Known(..0)) { Size::Known(0) } else { offset };
        let storage = self.values.len() as u32;
        self.values.push(Value {
            dtype: meta.dtype,
            shape,
            strides,
            offset,
            is_on_host: meta.device == "cpu" && self.device != "cpu",
            requires_grad: meta.requires_grad,
            is_view: false,
            storage,
        });
        Ok(TensorId(storage))
    }

    /// Adds the calls of a graph; `outer` is the site of the call that runs it.
    pub(super) fn add_graph<'a>(
        &mut self,
        graph: &'a RawGraph<'a>,
        scope: &mut Scope<'a>,
        outer: Option<u32>,
        depth: usize,
    ) -> Result<(), ReadError> {
        for (at, node) in graph.nodes.iter().enumerate() {
            let site = self.sites.number(node.modules, node.stack, outer);
            match node.target.strip_prefix("torch.ops.higher_order.") {
                Some(name @ ("wrap_with_set_grad_enabled" | "wrap_with_autocast")) => {
                    self.add_region(node, name, scope, (site, at), depth)?;
                }
                Some("cond") => match largest_branch(node) {
                    Some((graph, operands)) => {
                        self.branches += 1;
                        let given = self.operands(operands, scope, &|| node_location(node, at))?;
                        let inner = self.inner_scope(graph, given, (node, at), depth)?;
                        self.add_inner(graph, inner, scope, (node, site, at), depth)?;
                    }
                    None => self.add_node(node, scope, site, at)?,
                },
                _ => self.add_node(node, scope, site, at)?,
            }
        }
        Ok(())
    }

    /// The tensors that a branch is given, by name.
    fn operands(
        &self,
        names: &[Option<Cow<'_, str>>],
        scope: &Scope<'_>,
        location: &dyn Fn() -> String,
    ) -> Result<Vec<Argument>, ReadError> {
        let mut given = Vec::with_capacity(names.len());
        for name in names {
            given.push(match name {
                Some(name) => Argument::Tensor(scope.tensor(name, location)?),
                None => Argument::None,
            });
        }
        Ok(given)
    }

    /// The names that a nested graph begins with: its arguments.
    fn inner_scope<'a>(
        &self,
        graph: &'a RawGraph<'a>,
        given: Vec<Argument>,
        (node, at): (&RawNode<'_>, usize),
        depth: usize,
    ) -> Result<Scope<'a>, ReadError> {
        if depth == GRAPH_LIMIT {
            return Err(ArchiveError::GraphsTooDeep { location: node_location(node, at), limit: GRAPH_LIMIT }.into());
        }
        if given.len() != graph.inputs.len() {
            let (found, needed) = (given.len(), graph.inputs.len());
            return Err(ArchiveError::WrongGraphArguments { location: node_location(node, at), found, needed }.into());
        }
        let mut inner = Scope::new(graph);
        for (input, argument) in graph.inputs.iter().zip(given) {
            match (input, argument) {
                (RawArgument::Tensor(name), Argument::Tensor(tensor)) => inner.define(name, tensor),
                (RawArgument::SymbolicInt(RawInt::Name(name)), Argument::Int(size)) => {
                    inner.given.insert(name, size);
                }
                _ => {}
            }
        }
        Ok(inner)
    }

    /// Adds the calls of a nested graph; its results get the node's names for them.
    fn add_inner<'a>(
        &mut self,
        graph: &'a RawGraph<'a>,
        mut inner: Scope<'a>,
        scope: &mut Scope<'a>,
        (node, site, at): (&'a RawNode<'a>, u32, usize),
        depth: usize,
    ) -> Result<(), ReadError> {
        self.add_graph(graph, &mut inner, Some(site), depth + 1)?;
        let mut inside: Vec<&str> = Vec::new();
        graph.outputs.iter().for_each(|output| argument_tensors(output, &mut |name| inside.push(name)));
        let mut outside: Vec<&'a str> = Vec::new();
        node.outputs.iter().for_each(|output| argument_tensors(output, &mut |name| outside.push(name)));
        if inside.len() != outside.len() {
            let (location, found, needed) =
                (format!("{}: results", node_location(node, at)), outside.len(), inside.len());
            return Err(ArchiveError::WrongGraphArguments { location, found, needed }.into());
        }
        for (name, other) in outside.into_iter().zip(inside) {
            let tensor = inner.tensor(other, || format!("{}: result", node_location(node, at)))?;
            scope.define(name, tensor);
        }
        Ok(())
    }

    /// Inlines a nested graph where it is called.
    fn add_region<'a>(
        &mut self,
        node: &'a RawNode<'a>,
        name: &str,
        scope: &mut Scope<'a>,
        (site, at): (u32, usize),
        depth: usize,
    ) -> Result<(), ReadError> {
        let location = || node_location(node, at);
        let is_graph = |argument: &RawArgument<'_>| matches!(argument, RawArgument::Graph(_));
        let split = node.inputs.iter().position(|input| is_graph(&input.argument));
        let missing = || ReadError::MissingKey { path: location(), key: "as_graph" };
        let split = split.ok_or_else(missing)?;
        let RawArgument::Graph(graph) = &node.inputs[split].argument else { return Err(missing()) };
        let before: Vec<&RawArgument<'_>> = node.inputs[..split].iter().map(|input| &input.argument).collect();
        let mut given = Vec::new();
        for argument in &node.inputs[split + 1..] {
            let location = || format!("{}: argument `{}`", location(), argument.name);
            given.push(self.argument(&argument.argument, scope, &location)?);
        }
        let inner = self.inner_scope(graph, given, (node, at), depth)?;
        let (begin, end) = match name {
            "wrap_with_set_grad_enabled" => {
                let is_on = !matches!(before.first(), Some(RawArgument::Bool(false)));
                (Item::Grad(is_on), Item::Grad(!is_on))
            }
            _ => {
                let device =
                    before.iter().find_map(|it| if let RawArgument::Text(text) = it { Some(text) } else { None });
                let dtype =
                    before.iter().find_map(|it| if let RawArgument::Dtype(dtype) = it { Some(*dtype) } else { None });
                let flags: Vec<bool> = before
                    .iter()
                    .filter_map(|it| if let RawArgument::Bool(it) = it { Some(*it) } else { None })
                    .collect();
                let begin = Item::Autocast {
                    is_gpu: device.is_some_and(|device| *device == self.device || device == "cuda"),
                    dtype,
                    is_enabled: flags.first().copied().unwrap_or(true),
                    has_cache: flags.get(1).copied().unwrap_or(true),
                };
                (begin, Item::EndAutocast)
            }
        };
        self.items.push(begin);
        self.add_inner(graph, inner, scope, (node, site, at), depth)?;
        self.items.push(end);
        Ok(())
    }

    fn add_node<'a>(
        &mut self,
        node: &'a RawNode<'a>,
        scope: &mut Scope<'a>,
        site: u32,
        at: usize,
    ) -> Result<(), ReadError> {
        let mut names: Vec<Option<&'a str>> = Vec::new();
        for output in &node.outputs {
            match output {
                RawArgument::None => names.push(None),
                _ => argument_tensors(output, &mut |name| names.push(Some(name))),
            }
        }
        let name = renamed(node.target.strip_prefix("torch.ops.").unwrap_or(&node.target), node);
        if is_for_python(name) || (names.iter().flatten().next().is_none() && !name.starts_with("aten.")) {
            return Ok(());
        }
        let operator = self.operators.number(name);
        let effect = self.operators.facts(operator).effect;
        let arguments = self.arguments(node, operator, scope, at)?;
        let mut results = Vec::with_capacity(names.len());
        for (number, result) in names.iter().enumerate() {
            let Some(result) = *result else {
                results.push(None);
                continue;
            };
            let location = || format!("{}: result `{result}`", node_location(node, at));
            if scope.tensors.contains_key(result) {
                return Err(
                    ArchiveError::MadeTwice { location: node_location(node, at), name: result.to_owned() }.into()
                );
            }
            let missing = || {
                ReadError::from(ArchiveError::NoTensorValue {
                    location: node_location(node, at),
                    name: result.to_owned(),
                })
            };
            let meta = scope.metas.get(result).copied().ok_or_else(missing)?;
            let tensor = match self.alias_of(operator, number, &arguments) {
                Some((Alias::Written(_), source)) if effect != Effect::ReshapesFirst => source,
                Some((_, source)) => {
                    let tensor = self.add_value(meta, &location)?;
                    let storage = self.values[source.0 as usize].storage;
                    let value = &mut self.values[tensor.0 as usize];
                    (value.is_view, value.storage) = (true, storage);
                    tensor
                }
                None => self.add_value(meta, &location)?,
            };
            scope.define(result, tensor);
            results.push(Some(tensor));
        }
        self.items.push(Item::Call(FlatCall { operator, arguments, results, site, is_by_method: is_by_method(node) }));
        Ok(())
    }

    /// The argument that a result is, or is a view of.
    fn alias_of(&self, operator: u32, result: usize, arguments: &[Argument]) -> Option<(Alias, TensorId)> {
        let effect = self.operators.facts(operator).effect;
        let alias = match self.operators.aliases[operator as usize].get(result) {
            Some(alias) => *alias,
            None if effect == Effect::ListsViews => Alias::View(0),
            None => Alias::New,
        };
        match (alias, arguments) {
            (Alias::Written(at) | Alias::View(at), arguments) => match arguments.get(at) {
                Some(Argument::Tensor(tensor)) => Some((alias, *tensor)),
                _ => None,
            },
            _ => None,
        }
    }
}
