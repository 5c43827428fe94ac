//! Simulated tensors: shape, strides, element type, and a storage that lives as long as a tensor on it does.
//!
//! A [`Tensor`] is a counted handle on one tensor, as `at::Tensor` is; a view is another tensor on the same storage. So
//! the counts that PyTorch asks for (may this gradient be taken over, may this buffer be added to in place) are here
//! the same counts.

use std::rc::Rc;

use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::Edge;
use crate::memory::{SharedMemory, Storage};

/// A tensor's insides.
#[derive(Debug)]
pub struct TensorBody {
    // A tensor lets go of the graph before it lets go of its memory.
    /// Where its gradient goes.
    pub edge: Option<Edge>,
    /// The memory it lies on; `None` for tensors on the host.
    pub storage: Option<Rc<Storage>>,
    /// What it is; tensors that are alike share it.
    pub layout: Rc<Layout>,
    /// A view holds the tensor it is a view of, which is one owner more of the memory.
    base: Option<Rc<Storage>>,
}

/// A handle on a tensor.
#[derive(Clone, Debug)]
pub struct Tensor(Rc<TensorBody>);

impl Tensor {
    /// A new tensor in memory of its own, as large as its layout needs.
    pub fn empty(memory: &SharedMemory, layout: impl Into<Rc<Layout>>) -> Tensor {
        let layout = layout.into();
        let storage = Storage::new(memory, layout.bytes());
        Tensor(Rc::new(TensorBody { storage: Some(storage), layout, edge: None, base: None }))
    }

    /// A tensor on the host.
    pub fn on_host(layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor(Rc::new(TensorBody { storage: None, layout: layout.into(), edge: None, base: None }))
    }

    /// A view as autograd knows it: another tensor on the same storage, which holds its base.
    pub fn view(&self, layout: impl Into<Rc<Layout>>) -> Tensor {
        let (base, layout) = (self.0.storage.clone(), layout.into());
        Tensor(Rc::new(TensorBody { storage: self.0.storage.clone(), layout, edge: None, base }))
    }

    /// Another tensor on the same storage that autograd does not know as a view, such as `_unsafe_view` and kernels
    /// make.
    pub fn unsafe_view(&self, layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor(Rc::new(TensorBody { storage: self.0.storage.clone(), layout: layout.into(), edge: None, base: None }))
    }

    /// The same tensor without its place in the graph: another tensor on the same storage.
    pub fn detach(&self) -> Tensor {
        self.unsafe_view(self.shared_layout())
    }

    /// The tensor with its gradient going to `edge`. Only for tensors that nothing else holds yet.
    #[must_use]
    pub fn with_edge(mut self, edge: Option<Edge>) -> Tensor {
        if let Some(body) = Rc::get_mut(&mut self.0) {
            body.edge = edge;
            return self;
        }
        let (storage, layout, base) = (self.0.storage.clone(), self.0.layout.clone(), self.0.base.clone());
        Tensor(Rc::new(TensorBody { storage, layout, edge, base }))
    }

    /// Lets go of this handle; if it was the last, the memory goes, and what is left is where the gradient went.
    pub fn into_edge(self) -> Option<Edge> {
        Rc::into_inner(self.0).and_then(|body| body.edge)
    }

    /// What it is.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// What it is, for tensors like it.
    pub fn shared_layout(&self) -> Rc<Layout> {
        Rc::clone(&self.0.layout)
    }

    /// The layout `empty_like` gives, with elements of this type.
    pub fn like(&self, dtype: Dtype) -> Rc<Layout> {
        let layout = self.layout();
        if layout.dtype == dtype && layout.is_dense() { self.shared_layout() } else { Rc::new(layout.like(dtype)) }
    }

    /// Its shape.
    pub fn shape(&self) -> &[i64] {
        &self.0.layout.shape
    }

    /// Its elements' type.
    pub fn dtype(&self) -> Dtype {
        self.0.layout.dtype
    }

    /// Where its gradient goes.
    pub fn edge(&self) -> Option<&Edge> {
        self.0.edge.as_ref()
    }

    /// Whether it takes part in the graph.
    pub fn requires_grad(&self) -> bool {
        self.0.edge.is_some()
    }

    /// Its storage; `None` for tensors on the host.
    pub fn storage(&self) -> Option<&Rc<Storage>> {
        self.0.storage.as_ref()
    }

    /// Whether it lives on the host.
    pub fn is_on_host(&self) -> bool {
        self.0.storage.is_none()
    }

    /// `use_count` of the tensor.
    pub fn handles(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// `use_count` of the storage.
    pub fn storage_handles(&self) -> usize {
        self.0.storage.as_ref().map_or(0, Rc::strong_count)
    }

    /// Whether both handles are on one tensor.
    pub fn is(&self, other: &Tensor) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
