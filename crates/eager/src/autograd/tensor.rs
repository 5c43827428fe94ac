//! Simulated tensors: shape, strides, element type, and a storage that lives as long as a tensor on it does.
//!
//! A [`Tensor`] is a reference-counted handle, as `at::Tensor` is; a view is another tensor on the same storage. So the
//! reference counts that PyTorch looks at (may this gradient be stolen, may this buffer be added to in place) are the
//! same here.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::{Edge, Rows};
use crate::memory::{SharedMemory, Storage};

/// What the handles of one tensor share.
#[derive(Debug)]
pub struct TensorBody {
    // Fields drop in order: PyTorch frees the graph before the memory.
    /// Where its gradient goes.
    pub edge: Option<Edge>,
    /// Its memory; `None` for tensors on the host and for sparse ones.
    pub storage: Option<Rc<Storage>>,
    /// Its shape, strides and element type.
    pub layout: Rc<Layout>,
    /// A view's base, which is one more owner of the memory.
    base: Option<Rc<Storage>>,
    /// The `.grad` of a leaf that requires none for now.
    frozen_gradient: Option<LeafGradient>,
    /// The rows that a sparse tensor has.
    rows: Option<Box<RefCell<Rows>>>,
}

/// The `.grad` of a leaf.
pub type LeafGradient = Rc<RefCell<Option<Tensor>>>;

/// A handle on a tensor.
#[derive(Clone, Debug)]
pub struct Tensor(Rc<TensorBody>);

impl Tensor {
    /// A tensor outside the graph.
    fn new(storage: Option<Rc<Storage>>, layout: impl Into<Rc<Layout>>) -> Tensor {
        let layout = layout.into();
        Tensor(Rc::new(TensorBody { edge: None, storage, layout, base: None, frozen_gradient: None, rows: None }))
    }

    /// Allocates a new tensor.
    pub fn empty(memory: &SharedMemory, layout: impl Into<Rc<Layout>>) -> Tensor {
        let layout = layout.into();
        let storage = Storage::new(memory, layout.bytes());
        Tensor::new(Some(storage), layout)
    }

    /// A tensor on a storage that exists.
    pub fn on_storage(storage: Rc<Storage>, layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor::new(Some(storage), layout)
    }

    /// A tensor on the host.
    pub fn on_host(layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor::new(None, layout)
    }

    /// A view that autograd tracks: another tensor on the same storage, which holds its base.
    pub fn view(&self, layout: impl Into<Rc<Layout>>) -> Tensor {
        let (storage, layout) = (self.storage_of_view(), layout.into());
        let base = storage.clone();
        Tensor(Rc::new(TensorBody { edge: None, storage, layout, base, frozen_gradient: None, rows: None }))
    }

    /// Another tensor on the same storage that autograd does not track as a view, as `_unsafe_view` makes.
    pub fn unsafe_view(&self, layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor::new(self.storage_of_view(), layout)
    }

    fn storage_of_view(&self) -> Option<Rc<Storage>> {
        self.0.storage.as_ref().map(Storage::of_view)
    }

    /// A sparse tensor of this shape, which has these rows.
    pub fn sparse(rows: Rows, layout: impl Into<Rc<Layout>>) -> Tensor {
        let rows = Some(Box::new(RefCell::new(rows)));
        Tensor(Rc::new(TensorBody {
            edge: None,
            storage: None,
            layout: layout.into(),
            base: None,
            frozen_gradient: None,
            rows,
        }))
    }

    /// The rows of a sparse tensor; `None` for others.
    pub fn rows(&self) -> Option<&RefCell<Rows>> {
        self.0.rows.as_deref()
    }

    /// Whether it is sparse.
    pub fn is_sparse(&self) -> bool {
        self.0.rows.is_some()
    }

    /// Another tensor on the same storage, outside the graph.
    pub fn detach(&self) -> Tensor {
        if let Some(rows) = self.rows() {
            return Tensor::sparse(rows.borrow().clone(), self.shared_layout());
        }
        self.unsafe_view(self.shared_layout())
    }

    /// The leaf after `requires_grad_(False)`: outside the graph, with the `.grad` it had.
    pub fn frozen(&self) -> Tensor {
        let (storage, layout) = (self.storage_of_view(), self.shared_layout());
        let frozen_gradient = self.leaf_gradient();
        Tensor(Rc::new(TensorBody { edge: None, storage, layout, base: None, frozen_gradient, rows: None }))
    }

    /// The `.grad` of a leaf; `None` for other tensors.
    pub fn leaf_gradient(&self) -> Option<LeafGradient> {
        let of_node = self.edge().and_then(|edge| edge.node.backward.gradient());
        of_node.or(self.0.frozen_gradient.as_ref()).cloned()
    }

    /// Sets where the gradient goes. Call it before other handles exist: else it makes another tensor on the storage.
    #[must_use]
    pub fn with_edge(mut self, edge: Option<Edge>) -> Tensor {
        if let Some(body) = Rc::get_mut(&mut self.0) {
            body.edge = edge;
            return self;
        }
        let (storage, layout, base) = (self.0.storage.clone(), self.0.layout.clone(), self.0.base.clone());
        let rows = self.0.rows.clone();
        Tensor(Rc::new(TensorBody { storage, layout, edge, base, frozen_gradient: None, rows }))
    }

    /// Drops this handle; if it was the last, the tensor is freed and its edge returned.
    pub fn into_edge(self) -> Option<Edge> {
        Rc::into_inner(self.0).and_then(|body| body.edge)
    }

    /// Its shape, strides and element type.
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Its layout, to be shared with tensors of the same layout.
    pub fn shared_layout(&self) -> Rc<Layout> {
        Rc::clone(&self.0.layout)
    }

    /// The layout of `empty_like` with this element type.
    pub fn like(&self, dtype: Dtype) -> Rc<Layout> {
        let layout = self.layout();
        if layout.dtype == dtype && layout.is_dense() { self.shared_layout() } else { Rc::new(layout.like(dtype)) }
    }

    /// Its shape.
    pub fn shape(&self) -> &[i64] {
        &self.0.layout.shape
    }

    /// Its element type.
    pub fn dtype(&self) -> Dtype {
        self.0.layout.dtype
    }

    /// Where its gradient goes.
    pub fn edge(&self) -> Option<&Edge> {
        self.0.edge.as_ref()
    }

    /// Whether it is part of the graph.
    pub fn requires_grad(&self) -> bool {
        self.0.edge.is_some()
    }

    /// Its storage; `None` for tensors on the host and for sparse ones.
    pub fn storage(&self) -> Option<&Rc<Storage>> {
        self.0.storage.as_ref()
    }

    /// The bytes of its memory, on the GPU or on the host.
    pub fn memory_bytes(&self) -> u64 {
        self.storage().map_or_else(|| self.layout().bytes(), |storage| storage.bytes())
    }

    /// Whether it is on the host.
    pub fn is_on_host(&self) -> bool {
        self.0.storage.is_none() && self.0.rows.is_none()
    }

    /// `use_count` of the tensor.
    pub fn handles(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// `use_count` of the storage.
    pub fn storage_handles(&self) -> usize {
        self.0.storage.as_ref().map_or(0, Rc::strong_count)
    }

    /// Whether both handles refer to the same tensor.
    pub fn is(&self, other: &Tensor) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}
