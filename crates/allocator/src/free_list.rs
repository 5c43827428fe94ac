//! Cached blocks in best fit's order.
//!
//! Kept as short sorted runs: a training has some hundred cached blocks, and moving a few neighbours aside is quicker
//! than walking a tree; runs keep it so where there are a hundred thousand.

use crate::block::BlockId;

/// Best fit's order: by stream, then size, then address.
pub(crate) type SizeKey = (u64, u64, u64);

/// The longest run.
const RUN: usize = 64;

/// Cached blocks by [`SizeKey`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    /// None is empty; each ends before the next begins.
    runs: Vec<Vec<(SizeKey, BlockId)>>,
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    run: usize,
    at: usize,
}

impl FreeList {
    /// The place of the first block that does not come before `key`.
    #[inline]
    pub fn first_from(&self, key: SizeKey) -> Position {
        let run = self.runs.partition_point(|run| run.last().is_some_and(|(last, _)| *last < key));
        let at = self.runs.get(run).map_or(0, |run| run.partition_point(|(found, _)| *found < key));
        Position { run, at }
    }

    /// The block at a place.
    #[inline]
    pub fn at(&self, position: Position) -> Option<(SizeKey, BlockId)> {
        self.runs.get(position.run)?.get(position.at).copied()
    }

    /// The place after.
    #[inline]
    pub fn next(&self, position: Position) -> Position {
        let is_last = self.runs.get(position.run).is_none_or(|run| position.at + 1 >= run.len());
        if is_last { Position { run: position.run + 1, at: 0 } } else { Position { at: position.at + 1, ..position } }
    }

    /// Adds a block.
    #[inline]
    pub fn insert(&mut self, key: SizeKey, id: BlockId) {
        let Position { mut run, mut at } = self.first_from(key);
        if run == self.runs.len() {
            match self.runs.last() {
                None => self.runs.push(Vec::with_capacity(RUN)),
                Some(last) => at = last.len(),
            }
            run = self.runs.len() - 1;
        }
        let list = &mut self.runs[run];
        if list.len() < RUN {
            list.insert(at, (key, id));
            return;
        }
        let mut upper = Vec::with_capacity(RUN);
        upper.extend(list.drain(RUN / 2..));
        if at <= RUN / 2 {
            list.insert(at, (key, id));
        } else {
            upper.insert(at - RUN / 2, (key, id));
        }
        self.runs.insert(run + 1, upper);
    }

    /// Takes the block at a place out.
    #[inline]
    pub fn remove_at(&mut self, position: Position) -> Option<(SizeKey, BlockId)> {
        let run = self.runs.get_mut(position.run)?;
        if position.at >= run.len() {
            return None;
        }
        let removed = run.remove(position.at);
        if run.is_empty() {
            self.runs.remove(position.run);
        }
        Some(removed)
    }

    /// Takes the block with this key out.
    #[inline]
    pub fn remove(&mut self, key: &SizeKey) -> Option<BlockId> {
        let position = self.first_from(*key);
        match self.at(position) {
            Some((found, id)) if found == *key => {
                self.remove_at(position);
                Some(id)
            }
            _ => None,
        }
    }

    /// All blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        self.runs.iter().flatten().copied()
    }

    /// The block with this key.
    pub fn get(&self, key: SizeKey) -> Option<BlockId> {
        self.at(self.first_from(key)).filter(|(found, _)| *found == key).map(|(_, id)| id)
    }

    /// The blocks that do not come before `key`, in order.
    pub fn from(&self, key: SizeKey) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.iter().skip_while(move |(found, _)| *found < key)
    }

    /// The blocks before `key`, from the last on.
    pub fn before(&self, key: SizeKey) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.iter().rev().skip_while(move |(found, _)| *found >= key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_list_is_an_ordered_map() {
        let (mut list, mut map) = (FreeList::default(), BTreeMap::new());
        let mut state = 1_u64;
        for number in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 62, (state >> 40) % 23, (state >> 33) % 97);
            let grows = (number / 2000) % 2 == 0;
            if grows != (state >> 13).is_multiple_of(3) {
                if !map.contains_key(&key) {
                    map.insert(key, BlockId(number));
                    list.insert(key, BlockId(number));
                }
            } else {
                assert_eq!(list.remove(&key), map.remove(&key));
            }
            let position = list.first_from(key);
            let mut expected = map.range(key..).map(|(key, id)| (*key, *id));
            assert_eq!(list.at(position), expected.next());
            if list.at(position).is_some() {
                assert_eq!(list.at(list.next(position)), expected.next());
            }
            if number % 97 == 0 {
                assert!(list.iter().eq(map.iter().map(|(key, id)| (*key, *id))));
                assert!(list.before(key).eq(map.range(..key).rev().map(|(key, id)| (*key, *id))));
                assert!(list.runs.iter().all(|run| !run.is_empty() && run.len() <= RUN));
            }
        }
    }
}
