//! Interning: each distinct string, frame and call stack is stored once and has a number.
//!
//! Each table has its contents end to end in one buffer, and its hash table has numbers only. So a million stacks take
//! little more memory than their frames.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

/// The number of a string in [`Strings`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringId(pub u32);

/// The number of a call stack in [`Stacks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

impl StackId {
    /// The empty stack: the event was recorded without frames.
    pub const NONE: StackId = StackId(0);

    /// Whether no frames were recorded.
    pub fn is_none(self) -> bool {
        self == StackId::NONE
    }
}

/// The number of a frame in [`Stacks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// One frame of a call stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The source file as recorded; `??` for native code without debug information.
    pub file: StringId,
    /// The line in that file, 0 if unknown.
    pub line: u32,
    /// The function's name.
    pub function: StringId,
}

/// Distinct strings, each stored once. Id 0 is the empty string.
#[derive(Clone, Debug)]
pub struct Strings {
    text: String,
    ends: Vec<usize>,
    ids: HashTable<StringId>,
    hasher: DefaultHashBuilder,
}

impl Default for Strings {
    fn default() -> Self {
        let mut strings = Strings {
            text: String::new(),
            ends: Vec::new(),
            ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        };
        strings.intern("");
        strings
    }
}

impl Strings {
    /// The id of `text`, which is added if it is new.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = self.hasher.hash_one(text);
        let Strings { text: buffer, ends, ids, hasher } = self;
        if let Some(&id) = ids.find(hash, |&id| slice(buffer, ends, id) == text) {
            return id;
        }
        let id = StringId(u32::try_from(ends.len()).expect("fewer than 2^32 distinct strings"));
        buffer.push_str(text);
        ends.push(buffer.len());
        ids.insert_unique(hash, id, |&id| hasher.hash_one(slice(buffer, ends, id)));
        id
    }

    /// The string with this id.
    pub fn get(&self, id: StringId) -> &str {
        slice(&self.text, &self.ends, id)
    }

    /// How many distinct strings there are, the empty one included.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is only the empty string.
    pub fn is_empty(&self) -> bool {
        self.ends.len() <= 1
    }

    /// About how many bytes of memory the table takes.
    pub fn memory(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * size_of::<usize>() + self.ids.capacity() * size_of::<StringId>()
    }
}

#[inline]
fn slice<'a>(text: &'a str, ends: &[usize], id: StringId) -> &'a str {
    let index = id.0 as usize;
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &text[start..ends[index]]
}

/// Distinct frames and call stacks, each stored once. Stack id 0 is the empty stack.
#[derive(Clone, Debug)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_ids: HashTable<FrameId>,
    stack_frames: Vec<FrameId>,
    stack_ends: Vec<usize>,
    stack_ids: HashTable<StackId>,
    hasher: DefaultHashBuilder,
}

impl Default for Stacks {
    fn default() -> Self {
        let mut stacks = Stacks {
            frames: Vec::new(),
            frame_ids: HashTable::new(),
            stack_frames: Vec::new(),
            stack_ends: Vec::new(),
            stack_ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        };
        stacks.intern_stack(&[]);
        stacks
    }
}

impl Stacks {
    /// The id of `frame`, which is added if it is new.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        let hash = self.hasher.hash_one(frame);
        let Stacks { frames, frame_ids, hasher, .. } = self;
        if let Some(&id) = frame_ids.find(hash, |&id| frames[id.0 as usize] == frame) {
            return id;
        }
        let id = FrameId(u32::try_from(frames.len()).expect("fewer than 2^32 distinct frames"));
        frames.push(frame);
        frame_ids.insert_unique(hash, id, |&id| hasher.hash_one(frames[id.0 as usize]));
        id
    }

    /// The id of the stack of `frames`, innermost first, which is added if it is new.
    pub fn intern_stack(&mut self, frames: &[FrameId]) -> StackId {
        let hash = hash_stack(&self.hasher, frames);
        let Stacks { stack_frames, stack_ends, stack_ids, hasher, .. } = self;
        if let Some(&id) = stack_ids.find(hash, |&id| stack(stack_frames, stack_ends, id) == frames) {
            return id;
        }
        let id = StackId(u32::try_from(stack_ends.len()).expect("fewer than 2^32 distinct stacks"));
        stack_frames.extend_from_slice(frames);
        stack_ends.push(stack_frames.len());
        stack_ids.insert_unique(hash, id, |&id| hash_stack(hasher, stack(stack_frames, stack_ends, id)));
        id
    }

    /// The frame with this id.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames[id.0 as usize]
    }

    /// The ids of the frames of `stack`, innermost first.
    pub fn frame_ids(&self, id: StackId) -> &[FrameId] {
        stack(&self.stack_frames, &self.stack_ends, id)
    }

    /// The frames of `stack`, innermost first.
    pub fn frames(&self, stack: StackId) -> impl DoubleEndedIterator<Item = Frame> + ExactSizeIterator + '_ {
        self.frame_ids(stack).iter().map(|&id| self.frame(id))
    }

    /// How many distinct stacks there are, the empty one included.
    pub fn len(&self) -> usize {
        self.stack_ends.len()
    }

    /// Whether there is only the empty stack.
    pub fn is_empty(&self) -> bool {
        self.stack_ends.len() <= 1
    }

    /// About how many bytes of memory the tables take.
    pub fn memory(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + (self.frame_ids.capacity() + self.stack_frames.capacity() + self.stack_ids.capacity()) * size_of::<u32>()
            + self.stack_ends.capacity() * size_of::<usize>()
    }
}

#[inline]
fn stack<'a>(frames: &'a [FrameId], ends: &[usize], id: StackId) -> &'a [FrameId] {
    let index = id.0 as usize;
    let start = if index == 0 { 0 } else { ends[index - 1] };
    &frames[start..ends[index]]
}

/// Hashes two ids at a time for speed: a stack is hashed for each event, and stacks are long.
fn hash_stack(hasher: &DefaultHashBuilder, frames: &[FrameId]) -> u64 {
    let mut state = hasher.build_hasher();
    let (pairs, rest) = frames.as_chunks::<2>();
    for [first, second] in pairs {
        state.write_u64(u64::from(first.0) << 32 | u64::from(second.0));
    }
    if let [last] = rest {
        state.write_u32(last.0);
    }
    state.write_usize(frames.len());
    state.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_stored_once_and_found_again() {
        let mut strings = Strings::default();
        let first = strings.intern("train.py");
        let second = strings.intern("model.py");
        assert_eq!(strings.intern("train.py"), first);
        assert_ne!(first, second);
        assert_eq!(strings.get(first), "train.py");
        assert_eq!(strings.get(second), "model.py");
        assert_eq!(strings.intern(""), StringId(0));
        assert_eq!(strings.len(), 3);
    }

    #[test]
    fn a_thousand_strings_keep_their_ids_while_the_table_grows() {
        let mut strings = Strings::default();
        let ids: Vec<StringId> = (0..1000).map(|number| strings.intern(&number.to_string())).collect();
        for (number, &id) in ids.iter().enumerate() {
            assert_eq!(strings.get(id), number.to_string());
            assert_eq!(strings.intern(&number.to_string()), id);
        }
    }

    #[test]
    fn equal_stacks_share_an_id_and_order_matters() {
        let mut stacks = Stacks::default();
        let inner = stacks.intern_frame(Frame { file: StringId(0), line: 1, function: StringId(0) });
        let outer = stacks.intern_frame(Frame { file: StringId(0), line: 2, function: StringId(0) });
        let stack = stacks.intern_stack(&[inner, outer]);
        assert_eq!(stacks.intern_stack(&[inner, outer]), stack);
        assert_ne!(stacks.intern_stack(&[outer, inner]), stack);
        assert_eq!(stacks.intern_stack(&[]), StackId::NONE);
        assert_eq!(stacks.frames(stack).map(|frame| frame.line).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(stacks.frames(StackId::NONE).len(), 0);
    }

    #[test]
    fn the_memory_of_the_tables_is_that_of_their_contents() {
        let mut strings = Strings::default();
        let mut stacks = Stacks::default();
        assert!(strings.is_empty() && stacks.is_empty());
        for number in 0..1000 {
            strings.intern(&format!("{number:04}"));
            let frame = stacks.intern_frame(Frame { file: StringId(0), line: number, function: StringId(0) });
            stacks.intern_stack(&[frame]);
        }
        assert!(!strings.is_empty() && !stacks.is_empty());
        assert_eq!((strings.len(), stacks.len()), (1001, 1001));
        let least = 1000 * (4 + size_of::<usize>() + size_of::<StringId>());
        assert!((least..4 * least).contains(&strings.memory()), "{} of {least}", strings.memory());
        let least = 1000 * (size_of::<Frame>() + 3 * size_of::<u32>() + size_of::<usize>());
        assert!((least..4 * least).contains(&stacks.memory()), "{} of {least}", stacks.memory());
    }
}
