//! `torch.autograd.graph.save_on_cpu`: what autograd saves is copied to host memory, and back where backward needs it.
//!
//! C++ packs a function's inputs before the function runs and its results afterwards (`SavedVariable`). A rule records its
//! function when it has allocated, so the forward pass lists the copies of a call first.

use std::collections::VecDeque;
use std::rc::Rc;

use smallvec::SmallVec;
use vramfit_graph::layout::Layout;

use super::node::is_input;
use super::visits::HostTraffic;
use super::{Saved, Tensor};
use crate::memory::SharedMemory;

/// The host memory that takes saved tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostMemory {
    /// `save_on_cpu(pin_memory=True)`: copies are contiguous.
    Pinned,
    /// `save_on_cpu()`: copies keep the strides of dense tensors.
    Pageable,
}

impl HostMemory {
    /// The layout of the copy, which is also the layout of what comes back.
    fn layout(self, tensor: &Tensor) -> Rc<Layout> {
        let layout = tensor.layout();
        match self {
            _ if layout.is_contiguous() => tensor.shared_layout(),
            HostMemory::Pageable if layout.is_dense() => tensor.shared_layout(),
            _ => Rc::new(Layout::contiguous(layout.dtype, &layout.shape)),
        }
    }

    /// A copy between devices needs both sides in one order: what is not so is first copied on the GPU
    /// (`copy_requires_temporaries`).
    fn temporary(self, tensor: &Tensor) -> Option<Rc<Layout>> {
        let layout = tensor.layout();
        let is_same = layout.is_contiguous() || (self == HostMemory::Pageable && layout.is_dense());
        let needs_one = !tensor.is_on_host() && !is_same && layout.elements() > 1;
        needs_one.then(|| Rc::new(Layout::contiguous(layout.dtype, &layout.shape)))
    }
}

/// What a function of a call packs before it runs.
#[derive(Debug, Default)]
struct Early {
    /// Of each saved tensor, whether it is packed then: it existed before the function ran.
    are: SmallVec<[bool; 4]>,
    /// The temporary copies on the GPU.
    temporaries: SmallVec<[Rc<Layout>; 2]>,
}

/// Whether saved tensors go to the host.
#[derive(Debug, Default)]
pub struct Offload {
    to: Option<HostMemory>,
    /// While a call is listed: what each function packs early.
    listed: Option<VecDeque<Early>>,
    /// That of the functions of the running call that are still to come.
    coming: Option<VecDeque<Early>>,
    /// Of the next function's saved tensors, which have been packed.
    packed: SmallVec<[bool; 4]>,
}

/// The host's copies of a node's saved tensors.
#[derive(Debug)]
pub struct HostCopies(SmallVec<[Option<HostCopy>; 4]>);

#[derive(Debug)]
enum HostCopy {
    /// Of a tensor on the GPU.
    OfGpu(Rc<Layout>),
    /// The tensor was on the host.
    OfHost(Tensor),
}

impl HostCopies {
    /// What was copied.
    pub(super) fn traffic(&self) -> HostTraffic {
        let mut traffic = HostTraffic::default();
        for copy in self.0.iter().flatten() {
            if let HostCopy::OfGpu(layout) = copy {
                traffic.tensors += 1;
                traffic.bytes += layout.bytes();
            }
        }
        traffic
    }

    /// The tensors, copied to the GPU again.
    pub(super) fn unpack(&self, memory: &SharedMemory) -> Saved {
        let unpack = |copy: &Option<HostCopy>| {
            copy.as_ref().map(|copy| match copy {
                HostCopy::OfGpu(layout) => Tensor::empty(memory, Rc::clone(layout)),
                HostCopy::OfHost(tensor) => tensor.clone(),
            })
        };
        self.0.iter().map(unpack).collect()
    }
}

impl Offload {
    /// Begins or ends a region in which saved tensors go to the host.
    pub fn set(&mut self, to: Option<HostMemory>) {
        *self = Offload { to, ..Offload::default() };
    }

    /// The host memory of the running region.
    pub fn target(&self) -> Option<HostMemory> {
        self.to
    }

    /// Lists the functions of a call, which runs muted.
    pub(crate) fn begin_listing(&mut self) {
        self.listed = Some(VecDeque::new());
    }

    /// The call that was listed runs now: its first function packs its inputs.
    pub(crate) fn begin_call(&mut self, memory: &SharedMemory) {
        self.coming = self.listed.take();
        self.pack_next_inputs(memory);
    }

    /// The call has run.
    pub(crate) fn end_call(&mut self) {
        self.coming = None;
        self.packed.clear();
    }

    /// Packs a tensor that is not saved by a function of a call.
    pub(crate) fn pack_alone(&self, tensor: &Tensor, memory: &SharedMemory) -> Rc<Layout> {
        let to = self.to.unwrap_or(HostMemory::Pageable);
        drop(to.temporary(tensor).map(|layout| Tensor::empty(memory, layout)));
        to.layout(tensor)
    }

    /// Packs what a new function of the graph saves.
    pub(super) fn pack(
        &mut self,
        to: HostMemory,
        inputs: &[Option<&Tensor>],
        saved: Saved,
        memory: &SharedMemory,
    ) -> Option<HostCopies> {
        if let Some(listed) = &mut self.listed {
            // What a muted call makes has no memory.
            let is_older = |tensor: &Tensor| tensor.storage().is_some_and(|storage| storage.id().is_some());
            let is_early = |tensor: &Option<Tensor>| {
                tensor.as_ref().is_some_and(|tensor| is_older(tensor) || is_input(inputs, tensor))
            };
            let early = saved.iter().filter(|tensor| is_early(tensor)).flatten();
            let temporaries = early.filter_map(|tensor| to.temporary(tensor)).collect();
            listed.push_back(Early { are: saved.iter().map(is_early).collect(), temporaries });
            return None;
        }
        for (index, tensor) in saved.iter().enumerate() {
            let is_packed = self.packed.get(index).copied().unwrap_or(false);
            if let Some(tensor) = tensor.as_ref().filter(|_| !is_packed) {
                drop(to.temporary(tensor).map(|layout| Tensor::empty(memory, layout)));
            }
        }
        let copy = |tensor: &Tensor| match tensor.is_on_host() {
            true => HostCopy::OfHost(tensor.clone()),
            false => HostCopy::OfGpu(to.layout(tensor)),
        };
        let copies = saved.iter().map(|tensor| tensor.as_ref().map(copy)).collect();
        let is_any = saved.iter().any(Option::is_some);
        drop(saved);
        self.pack_next_inputs(memory);
        is_any.then_some(HostCopies(copies))
    }

    fn pack_next_inputs(&mut self, memory: &SharedMemory) {
        let Early { are, temporaries } = self.coming.as_mut().and_then(VecDeque::pop_front).unwrap_or_default();
        temporaries.into_iter().for_each(|layout| drop(Tensor::empty(memory, layout)));
        self.packed = are;
    }
}
