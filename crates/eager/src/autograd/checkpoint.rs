//! Checkpointed regions: what they hold, and the placeholders of their saved tensors.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use smallvec::SmallVec;
use vramfit_graph::layout::Layout;
use vramfit_graph::model::TensorId;

use super::engine::Recompute;
use super::node::is_input;
use super::offload::HostCopies;
use super::{Context, Edge, Gradients, KeptResults, ResultKind, Saved, Tensor};
use crate::memory::SharedMemory;

/// One run through a checkpointed region.
#[derive(Debug)]
pub struct Frame {
    /// What runs in it.
    pub body: Body,
    /// What the region uses from outside, held until the region's backward pass is over.
    pub inputs: Vec<(TensorId, Held)>,
    keeps: KeptResults,
    /// The results that are kept, in the order in which they were computed.
    kept: RefCell<VecDeque<Results>>,
    holders: RefCell<Vec<Weak<Holder>>>,
    is_recomputed: Cell<bool>,
    /// Of a region with a backward pass of its own: the gradients of its results, and after it those of its arguments.
    pub gradients: RefCell<Gradients>,
    last: Cell<LastSaved>,
}

/// The results of an operator.
pub(crate) type Results = SmallVec<[Tensor; 1]>;

/// What runs in a checkpointed region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The captured steps from the first to the last.
    Steps(usize, usize),
    /// A reentrant checkpoint, which begins and ends at these steps.
    Reentrant(usize, usize),
    /// A chunk of the loss, by its number.
    ChunkOfLoss(usize),
}

/// What a checkpointed region holds of an input.
#[derive(Clone, Debug)]
pub enum Held {
    /// The tensor.
    Tensor(Tensor),
    /// A copy on the host, because saved tensors go there; it is copied back before the region is recomputed.
    HostCopy {
        /// Its layout.
        layout: Rc<Layout>,
        /// Where its gradient goes.
        edge: Option<Edge>,
    },
}

impl Held {
    /// Of a positional argument, which `checkpoint` saves for backward: where saved tensors go to the host, so does it.
    pub fn by_position(context: &Context, tensor: &Tensor) -> Held {
        if context.offload.target().is_none() || tensor.is_on_host() {
            return Held::Tensor(tensor.clone());
        }
        let layout = context.offload.pack_alone(tensor, context.memory());
        Held::HostCopy { layout, edge: tensor.edge().cloned() }
    }

    /// The input, copied to the GPU if it is on the host.
    pub fn tensor(&self, memory: &SharedMemory) -> Tensor {
        match self {
            Held::Tensor(tensor) => tensor.clone(),
            Held::HostCopy { layout, edge } => Tensor::empty(memory, Rc::clone(layout)).with_edge(edge.clone()),
        }
    }
}

/// Where in the region the last tensor is saved: recomputation stops there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LastSaved {
    /// The step of the captured pass.
    step: u32,
    /// Which function of the graph within that step, from 1.
    function: u32,
    /// Whether a result is saved, so that the function has to run.
    saves_result: bool,
}

/// The placeholder of a saved tensor.
#[derive(Debug, Default)]
struct Holder {
    recomputed: RefCell<Option<Tensor>>,
}

/// What stands for a node's saved tensors.
#[derive(Debug)]
pub enum Packed {
    /// In a checkpointed region: placeholders.
    Placeholders(Placeholders),
    /// Copies on the host.
    HostCopies(HostCopies),
}

/// The placeholders of a node's saved tensors.
#[derive(Debug)]
pub struct Placeholders {
    frame: Rc<Frame>,
    holders: SmallVec<[Option<Rc<Holder>>; 4]>,
}

impl Packed {
    /// The saved tensors: recomputed if they are not there, or copied back.
    pub fn unpack(&self, context: &mut Context, recompute: Recompute<'_>) -> Saved {
        match self {
            Packed::Placeholders(placeholders) => placeholders.unpack(context, recompute),
            Packed::HostCopies(copies) => copies.unpack(context.memory()),
        }
    }
}

impl Placeholders {
    fn unpack(&self, context: &mut Context, recompute: Recompute<'_>) -> Saved {
        let needs_any = self.holders.iter().any(Option::is_some);
        if needs_any && !self.frame.is_recomputed.replace(true) {
            recompute(context, &self.frame);
        }
        self.holders.iter().map(|holder| holder.as_ref().and_then(|holder| holder.recomputed.take())).collect()
    }
}

impl Frame {
    /// A run that begins.
    pub fn new(body: Body, inputs: Vec<(TensorId, Held)>, keeps: KeptResults) -> Rc<Frame> {
        Rc::new(Frame {
            body,
            inputs,
            keeps,
            kept: RefCell::default(),
            holders: RefCell::default(),
            is_recomputed: Cell::new(false),
            gradients: RefCell::default(),
            last: Cell::default(),
        })
    }
}

/// Whether functions of the graph save tensors or placeholders.
#[derive(Debug, Default)]
pub struct Checkpointing {
    state: State,
    /// The last step that recorded functions, and how many it recorded.
    counted: (u32, u32),
}

#[derive(Debug, Default)]
enum State {
    /// Tensors are saved.
    #[default]
    Off,
    /// Placeholders are saved.
    Packing(Rc<Frame>),
    /// Tensors are saved, and fill the placeholders.
    Recomputing { frame: Rc<Frame>, filled: usize, is_complete: bool },
}

impl Checkpointing {
    /// A checkpointed region begins.
    pub fn begin(&mut self, frame: Rc<Frame>) {
        self.counted = (u32::MAX, 0);
        self.state = State::Packing(frame);
    }

    /// The recomputation of a region begins.
    pub fn begin_again(&mut self, frame: Rc<Frame>) {
        self.counted = (u32::MAX, 0);
        self.state = State::Recomputing { frame, filled: 0, is_complete: false };
    }

    /// The region ends.
    pub fn end(&mut self, memory: &SharedMemory) {
        self.state = State::Off;
        memory.borrow_mut().set_muted(false);
    }

    /// Whether a region is running.
    pub fn is_on(&self) -> bool {
        !matches!(self.state, State::Off)
    }

    /// Whether all placeholders are filled, so that the recomputation stops.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Recomputing { is_complete: true, .. })
    }

    /// The results of an operator that the running region kept when it ran first. They are kept no longer.
    pub(super) fn take_kept(&self, kind: ResultKind) -> Option<Results> {
        match &self.state {
            State::Recomputing { frame, .. } if frame.keeps.contains(kind) => frame.kept.borrow_mut().pop_front(),
            _ => None,
        }
    }

    /// Keeps the results of an operator if the running region keeps those of its kind.
    pub(super) fn keep(&self, kind: ResultKind, results: &[Tensor]) {
        if let State::Packing(frame) = &self.state
            && frame.keeps.contains(kind)
        {
            frame.kept.borrow_mut().push_back(results.iter().map(Tensor::detach).collect());
        }
    }

    /// A call begins. If it saves the last tensor before it does anything else, recomputation stops before the call.
    pub fn begin_call(&mut self, step: u32, memory: &SharedMemory) {
        if let State::Recomputing { frame, .. } = &self.state {
            mute_before_last(frame, step, 0, memory);
        }
    }

    /// What a new function of the graph saves: tensors or placeholders.
    pub fn pack(
        &mut self,
        inputs: &[Option<&Tensor>],
        saved: Saved,
        memory: &SharedMemory,
    ) -> (Saved, Option<Box<Packed>>) {
        if matches!(self.state, State::Off) {
            return (saved, None);
        }
        let step = memory.borrow().origin();
        let function = if self.counted.0 == step { self.counted.1 + 1 } else { 1 };
        self.counted = (step, function);
        match &mut self.state {
            State::Off => (saved, None),
            State::Packing(frame) => {
                if saved.iter().all(Option::is_none) {
                    return (saved, None);
                }
                let saves_result = saved.iter().flatten().any(|tensor| !is_input(inputs, tensor));
                frame.last.set(LastSaved { step, function, saves_result });
                let mut known = frame.holders.borrow_mut();
                let mut pack = |saved: Option<Tensor>| {
                    saved.map(|_| {
                        let holder = Rc::new(Holder::default());
                        known.push(Rc::downgrade(&holder));
                        holder
                    })
                };
                let holders = saved.into_iter().map(&mut pack).collect();
                (Saved::new(), Some(Box::new(Packed::Placeholders(Placeholders { frame: Rc::clone(frame), holders }))))
            }
            State::Recomputing { frame, filled, is_complete } => {
                let known = frame.holders.borrow();
                for tensor in saved.iter().flatten() {
                    if let Some(holder) = known.get(*filled).and_then(Weak::upgrade) {
                        *holder.recomputed.borrow_mut() = Some(tensor.detach());
                    }
                    *filled += 1;
                }
                if *filled >= known.len() {
                    *is_complete = true;
                    memory.borrow_mut().set_muted(true);
                } else {
                    mute_before_last(frame, step, function, memory);
                }
                (saved, None)
            }
        }
    }
}

/// Mutes memory after `function` functions of a step if the next one saves the last tensor and no result: PyTorch stops
/// the recomputation before that function runs.
fn mute_before_last(frame: &Frame, step: u32, function: u32, memory: &SharedMemory) {
    let last = frame.last.get();
    if last.step == step && last.function == function + 1 && !last.saves_result {
        memory.borrow_mut().set_muted(true);
    }
}
