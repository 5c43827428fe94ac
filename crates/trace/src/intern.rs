//! Interning: each distinct string, frame and call stack is stored once and named by a number.

use std::collections::HashMap;

use crate::snapshot::{Frame, FrameId, StackId, StringId};

/// Distinct strings, each stored once. Id 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Strings {
    texts: Vec<Box<str>>,
    ids: HashMap<Box<str>, StringId>,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Strings { texts: Vec::new(), ids: HashMap::new() };
        strings.intern("");
        strings
    }
}

impl Strings {
    /// The id of `text`, stored now if it was not yet known.
    pub fn intern(&mut self, text: &str) -> StringId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = StringId(u32::try_from(self.texts.len()).expect("fewer than 2^32 distinct strings"));
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    /// The string `id` names.
    pub fn get(&self, id: StringId) -> &str {
        &self.texts[id.0 as usize]
    }
}

/// Distinct frames and call stacks, each stored once. Stack id 0 is the empty stack.
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_ids: HashMap<Frame, FrameId>,
    stacks: Vec<Box<[FrameId]>>,
    stack_ids: HashMap<Box<[FrameId]>, StackId>,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut stacks =
            Stacks { frames: Vec::new(), frame_ids: HashMap::new(), stacks: Vec::new(), stack_ids: HashMap::new() };
        stacks.intern_stack(&[]);
        stacks
    }
}

impl Stacks {
    /// The id of `frame`, stored now if it was not yet known.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        if let Some(&id) = self.frame_ids.get(&frame) {
            return id;
        }
        let id = FrameId(u32::try_from(self.frames.len()).expect("fewer than 2^32 distinct frames"));
        self.frames.push(frame);
        self.frame_ids.insert(frame, id);
        id
    }

    /// The id of the stack made of `frames`, innermost first, stored now if it was not yet known.
    pub fn intern_stack(&mut self, frames: &[FrameId]) -> StackId {
        if let Some(&id) = self.stack_ids.get(frames) {
            return id;
        }
        let id = StackId(u32::try_from(self.stacks.len()).expect("fewer than 2^32 distinct stacks"));
        self.stacks.push(frames.into());
        self.stack_ids.insert(frames.into(), id);
        id
    }

    /// The frame `id` names.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.0 as usize]
    }

    /// The frames of `stack`, innermost first.
    pub fn frames(&self, stack: StackId) -> impl DoubleEndedIterator<Item = Frame> + ExactSizeIterator + '_ {
        self.stacks[stack.0 as usize].iter().map(|&id| self.frame(id))
    }

    /// How many distinct stacks there are, the empty one included.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Whether no stack but the empty one is known.
    pub fn is_empty(&self) -> bool {
        self.stacks.len() <= 1
    }
}
