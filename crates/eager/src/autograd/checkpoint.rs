//! A checkpointed region under way: what it holds, and what stands for its saved tensors.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use smallvec::SmallVec;
use vramfit_graph::model::TensorId;

use crate::autograd::Context;
use crate::autograd::Saved;
use crate::autograd::Tensor;
use crate::autograd::engine::Recompute;
use crate::memory::{SharedMemory, Storage};

/// One run through a checkpointed region.
#[derive(Debug)]
pub struct Frame {
    /// The steps it consists of, the last included.
    pub steps: (usize, usize),
    /// What the region uses of its surroundings, held until the region's backward pass is over.
    pub inputs: Vec<(TensorId, Tensor)>,
    holders: RefCell<Vec<Weak<Holder>>>,
    is_recomputed: Cell<bool>,
    last: Cell<LastSaved>,
}

/// Where in the region the last tensor is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LastSaved {
    /// The step.
    place: u32,
    /// The how-manieth function of the graph in that step.
    function: u32,
    /// Whether a result is saved, so that the function has to run.
    saves_result: bool,
}

/// Stands for a saved tensor.
#[derive(Debug, Default)]
struct Holder {
    recomputed: RefCell<Option<Tensor>>,
}

/// What a node has in place of its saved tensors.
#[derive(Debug)]
pub struct Packed {
    frame: Rc<Frame>,
    holders: SmallVec<[Option<Rc<Holder>>; 4]>,
}

impl Packed {
    /// The saved tensors, made again if they are not there.
    pub fn unpack(&self, context: &mut Context, recompute: Recompute<'_>) -> Saved {
        let needs_any = self.holders.iter().any(Option::is_some);
        if needs_any && !self.frame.is_recomputed.replace(true) {
            recompute(context, &self.frame);
        }
        self.holders.iter().map(|holder| holder.as_ref().and_then(|holder| holder.recomputed.take())).collect()
    }
}

impl Frame {
    /// A region that begins.
    pub fn new(steps: (usize, usize), inputs: Vec<(TensorId, Tensor)>) -> Rc<Frame> {
        Rc::new(Frame {
            steps,
            inputs,
            holders: RefCell::default(),
            is_recomputed: Cell::new(false),
            last: Cell::default(),
        })
    }
}

/// What happens to tensors that functions of the graph save.
#[derive(Debug, Default)]
pub struct Checkpointing {
    state: State,
    /// The step that functions were last put into the graph in, and how many.
    counted: (u32, u32),
}

#[derive(Debug, Default)]
enum State {
    /// They are saved.
    #[default]
    Off,
    /// Holders are saved in their place.
    Packing(Rc<Frame>),
    /// They are saved, and fill the holders.
    Recomputing { frame: Rc<Frame>, filled: usize, is_complete: bool },
}

impl Checkpointing {
    /// A checkpointed region begins.
    pub fn begin(&mut self, frame: Rc<Frame>) {
        self.counted = (u32::MAX, 0);
        self.state = State::Packing(frame);
    }

    /// A checkpointed region is run again.
    pub fn begin_again(&mut self, frame: Rc<Frame>) {
        self.counted = (u32::MAX, 0);
        self.state = State::Recomputing { frame, filled: 0, is_complete: false };
    }

    /// The region ends.
    pub fn end(&mut self, memory: &SharedMemory) {
        self.state = State::Off;
        memory.borrow_mut().set_muted(false);
    }

    /// Whether a region is under way.
    pub fn is_on(&self) -> bool {
        !matches!(self.state, State::Off)
    }

    /// Whether all that was asked for has been made again, so that the region stops.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Recomputing { is_complete: true, .. })
    }

    /// A call begins: if it is the one that saves the last tensor, and does so before it does anything else, it does not
    /// happen.
    pub fn begin_call(&mut self, place: u32, memory: &SharedMemory) {
        if let State::Recomputing { frame, .. } = &self.state {
            mute_before_last(frame, place, 0, memory);
        }
    }

    /// What a new function of the graph saves: tensors, or what stands for them.
    pub fn pack(
        &mut self,
        inputs: &[Option<&Tensor>],
        saved: Saved,
        memory: &SharedMemory,
    ) -> (Saved, Option<Box<Packed>>) {
        if matches!(self.state, State::Off) {
            return (saved, None);
        }
        let place = memory.borrow().place();
        let function = if self.counted.0 == place { self.counted.1 + 1 } else { 1 };
        self.counted = (place, function);
        match &mut self.state {
            State::Off => (saved, None),
            State::Packing(frame) => {
                if saved.iter().all(Option::is_none) {
                    return (saved, None);
                }
                let saves_result = saved.iter().flatten().any(|tensor| !is_input(inputs, tensor));
                frame.last.set(LastSaved { place, function, saves_result });
                let mut known = frame.holders.borrow_mut();
                let mut pack = |saved: Option<Tensor>| {
                    saved.map(|_| {
                        let holder = Rc::new(Holder::default());
                        known.push(Rc::downgrade(&holder));
                        holder
                    })
                };
                let holders = saved.into_iter().map(&mut pack).collect();
                (Saved::new(), Some(Box::new(Packed { frame: Rc::clone(frame), holders })))
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
                    mute_before_last(frame, place, function, memory);
                }
                (saved, None)
            }
        }
    }
}

/// After `function` functions of the step `place`: if the next one saves the last tensor, and only inputs, it will not
/// have run.
fn mute_before_last(frame: &Frame, place: u32, function: u32, memory: &SharedMemory) {
    let last = frame.last.get();
    if last.place == place && last.function == function + 1 && !last.saves_result {
        memory.borrow_mut().set_muted(true);
    }
}

/// Whether a saved tensor is one of the function's inputs.
fn is_input(inputs: &[Option<&Tensor>], tensor: &Tensor) -> bool {
    let same = |one: &Rc<Storage>, other: &Rc<Storage>| Rc::ptr_eq(one, other);
    inputs.iter().flatten().any(|input| match (input.storage(), tensor.storage()) {
        (Some(one), Some(other)) => same(one, other),
        (None, None) => true,
        _ => false,
    })
}
