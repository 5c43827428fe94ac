//! The arguments of a node, with numbers for names.

use super::super::error::ArchiveError;
use super::super::graph::{RawArgument, RawInt, RawNode};
use super::super::node::{PAD, node_location};
use super::super::scope::Scope;
use super::Flat;
use crate::error::ReadError;
use vramfit_graph::model::{Argument, Size};

impl Flat<'_> {
    /// A node's arguments in the operator's order, defaults filled in.
    pub(super) fn arguments(
        &mut self,
        node: &RawNode<'_>,
        operator: u32,
        scope: &Scope<'_>,
        at: usize,
    ) -> Result<Vec<Argument>, ReadError> {
        let is_known = !self.operators.rows[operator as usize].arguments.is_empty();
        if !is_known {
            // An operator without a signature takes the arguments that its first call has.
            let names: Vec<String> = node.inputs.iter().map(|input| input.name.clone().into_owned()).collect();
            self.operators.defaults[operator as usize] = vec![Argument::None; names.len()];
            self.operators.rows[operator as usize].arguments = names;
        }
        let mut arguments = self.operators.defaults(operator);
        for (number, input) in node.inputs.iter().enumerate() {
            let location = || format!("{}: argument `{}`", node_location(node, at), input.name);
            let named = self.operators.argument(operator, &input.name).filter(|_| !input.name.is_empty());
            let found = match named {
                Some(found) => found,
                None if input.name.is_empty() && number < arguments.len() => number,
                None if input.name == "mode" && self.operators.name(operator) == PAD => continue,
                None => {
                    let operator = self.operators.name(operator).to_owned();
                    return Err(ReadError::from(ArchiveError::UnknownArgument {
                        location: node_location(node, at),
                        operator,
                        name: input.name.clone().into_owned(),
                    }));
                }
            };
            arguments[found] = self.argument(&input.argument, scope, &location)?;
        }
        Ok(arguments)
    }

    /// An argument with numbers for names.
    pub(super) fn argument(
        &mut self,
        raw: &RawArgument<'_>,
        scope: &Scope<'_>,
        location: &dyn Fn() -> String,
    ) -> Result<Argument, ReadError> {
        let int = |value: i64| Argument::Int(Size::Known(value));
        Ok(match raw {
            RawArgument::None | RawArgument::MemoryFormat(None) => Argument::None,
            RawArgument::Tensor(name) => Argument::Tensor(scope.tensor(name, location)?),
            RawArgument::Tensors(names) => {
                let mut tensors = Vec::with_capacity(names.len());
                for name in names {
                    tensors.push(match name {
                        Some(name) => Argument::Tensor(scope.tensor(name, location)?),
                        None => Argument::None,
                    });
                }
                Argument::List(tensors)
            }
            RawArgument::Int(value) => int(*value),
            RawArgument::Ints(values) => Argument::List(values.iter().map(|value| int(*value)).collect()),
            RawArgument::Float(value) => Argument::Float(*value),
            RawArgument::Floats(values) => Argument::List(values.iter().map(|value| Argument::Float(*value)).collect()),
            RawArgument::Bool(value) => Argument::Bool(*value),
            RawArgument::Bools(values) => Argument::List(values.iter().map(|value| Argument::Bool(*value)).collect()),
            RawArgument::Text(text) => Argument::Text(text.clone().into_owned()),
            RawArgument::SymbolicInt(value) => Argument::Int(self.integer(value, scope, location)?),
            RawArgument::SymbolicInts(values) => {
                let mut sizes = Vec::with_capacity(values.len());
                for value in values {
                    sizes.push(Argument::Int(self.integer(value, scope, location)?));
                }
                Argument::List(sizes)
            }
            RawArgument::Dtype(dtype) => Argument::Dtype(*dtype),
            RawArgument::MemoryFormat(Some(format)) => Argument::MemoryFormat(*format),
            RawArgument::Device(device) => Argument::Device { is_host: device == "cpu" && self.device != "cpu" },
            RawArgument::Graph(_) | RawArgument::Other => Argument::Other,
        })
    }

    fn integer(
        &mut self,
        raw: &RawInt<'_>,
        scope: &Scope<'_>,
        location: &dyn Fn() -> String,
    ) -> Result<Size, ReadError> {
        let name = match raw {
            RawInt::Known(value) => return Ok(Size::Known(*value)),
            RawInt::Name(name) => name,
        };
        if let Some(size) = scope.given.get(&**name) {
            return Ok(*size);
        }
        let unknown = || {
            ReadError::from(ArchiveError::UnknownValue {
                location: location(),
                what: "size",
                name: name.clone().into_owned(),
            })
        };
        let size = scope.integers.get(&**name).copied().ok_or_else(unknown)?;
        self.sizes.size(size, location)
    }
}
