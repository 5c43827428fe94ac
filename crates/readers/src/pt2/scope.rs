//! The names of a graph.

use hashbrown::HashMap;

use super::error::ArchiveError;
use super::graph::RawGraph;
use super::tensor_meta::{RawSize, TensorMeta};
use crate::error::ReadError;
use vramfit_graph::model::{Size, TensorId};

/// The names of one graph.
#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) tensors: HashMap<&'a str, TensorId>,
    pub(super) metas: HashMap<&'a str, &'a TensorMeta<'a>>,
    pub(super) integers: HashMap<&'a str, RawSize>,
    /// Sizes that the caller of the graph gives.
    pub(super) given: HashMap<&'a str, Size>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(graph: &'a RawGraph<'a>) -> Scope<'a> {
        Scope {
            metas: graph.tensors.iter().map(|(name, meta)| (&**name, &**meta)).collect(),
            integers: graph.integers.iter().map(|(name, size)| (&**name, *size)).collect(),
            ..Scope::default()
        }
    }

    pub(super) fn define(&mut self, name: &'a str, tensor: TensorId) {
        self.tensors.insert(name, tensor);
    }

    pub(super) fn tensor(&self, name: &str, location: impl Fn() -> String) -> Result<TensorId, ReadError> {
        let unknown = || {
            ReadError::from(ArchiveError::UnknownValue { location: location(), what: "tensor", name: name.to_owned() })
        };
        self.tensors.get(name).copied().ok_or_else(unknown)
    }
}
