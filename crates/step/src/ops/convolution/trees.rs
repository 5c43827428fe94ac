//! Which workspace cuDNN's heuristic chooses for a convolution: trees grown from what it answered.
//!
//! Made by `validation/workspace_grid/pack.py`: the keys of the kernels that were asked about, for each pass its readings, then
//! the trees.

use std::sync::LazyLock;

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::problem::Problem;
use super::reading::Reading;
use super::traits::{self, TRAITS};
use crate::format::Format;

static TABLE: &[u8] = include_bytes!("../../../data/cudnn-plans.bin");

const MAGIC: usize = 8;
const PASSES: usize = 3;
const READING: usize = 8;
const LEAF: u8 = 255;
/// Set in a node whose far end needs three bytes.
const FAR: u8 = 128;

/// What convolutions of one kind share: type, layout, dimensions, grouping, kernel, stride, whether it is dilated.
type Key = [u8; 11];

/// How many trees there are for a pass, at most.
pub(super) type Said = SmallVec<[Reading; 6]>;

fn word(at: usize) -> usize {
    u32::from_le_bytes([TABLE[at], TABLE[at + 1], TABLE[at + 2], TABLE[at + 3]]) as usize
}

/// Where things are in the table.
struct Places {
    /// In order.
    keys: &'static [Key],
    /// By pass.
    readings: [usize; PASSES],
    /// Pass and first node.
    roots: Vec<(usize, usize)>,
}

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let (keys, trees) = (word(MAGIC), word(MAGIC + 4));
    let counts = [0, 1, 2].map(|pass| word(MAGIC + 8 + 4 * pass));
    let roots = MAGIC + 8 + 4 * PASSES;
    let first_key = roots + 8 * trees;
    let first_reading = first_key + keys * size_of::<Key>();
    let (keys, _) = TABLE[first_key..first_reading].as_chunks();
    let after = |passes: usize| first_reading + READING * counts[..passes].iter().sum::<usize>();
    Places {
        keys,
        readings: [after(0), after(1), after(2)],
        roots: (0..trees).map(|tree| (word(roots + 8 * tree), after(PASSES) + word(roots + 8 * tree + 4))).collect(),
    }
});

/// The kind a convolution is of; `None` for types nobody asked about.
fn key(problem: &Problem) -> Option<Key> {
    let precision = match problem.dtype {
        Dtype::Float32 => 0,
        Dtype::Bfloat16 | Dtype::Float16 => 1,
        _ => return None,
    };
    let rank = problem.stride.len();
    let is_last = u8::from(problem.format == Format::ChannelsLast);
    let mut key = [precision, is_last, problem.rank_seen(), problem.grouping(), 1, 1, 1, 1, 1, 1, 0];
    let small = |number: i64| u8::try_from(number).unwrap_or(u8::MAX);
    for dim in 0..rank {
        key[4 + 3 - rank + dim] = small(problem.weight[2 + dim]);
        key[7 + 3 - rank + dim] = small(problem.stride[dim]);
    }
    key[10] = u8::from(problem.dilation.iter().any(|&dilation| dilation > 1));
    Some(key)
}

/// Whether convolutions of this type were asked about, and if so, whether some with this kernel and stride were.
pub(super) fn is_known(problem: &Problem) -> Option<bool> {
    key(problem).map(|key| PLACES.keys.binary_search(&key).is_ok())
}

/// Where a node's two sides begin, what is not above its threshold first.
fn sides(at: usize) -> (usize, usize) {
    let [low, high, far] = [TABLE[at + 3], TABLE[at + 4], TABLE[at + 5]];
    if TABLE[at] & FAR > 0 {
        (at + 6, at + u32::from_le_bytes([low, high, far, 0]) as usize)
    } else {
        (at + 5, at + usize::from(u16::from_le_bytes([low, high])))
    }
}

/// The number of the reading that the tree at this place names. A node is a trait, its threshold and how far on the node for what is above
/// it begins; the one for the rest follows. A leaf is a mark and the reading's number.
fn named(root: usize, traits: &[u16; TRAITS]) -> usize {
    let mut at = root;
    loop {
        let number = u16::from_le_bytes([TABLE[at + 1], TABLE[at + 2]]);
        if TABLE[at] == LEAF {
            return usize::from(number);
        }
        let (rest, above) = sides(at);
        at = if traits[usize::from(TABLE[at] & !FAR)] > number { above } else { rest };
    }
}

/// What each tree of the pass says.
pub(super) fn said(problem: &Problem) -> Said {
    let (places, traits, pass) = (&*PLACES, traits::of(problem), problem.pass as usize);
    let read = |root: usize| {
        let at = places.readings[pass] + READING * named(root, &traits);
        Reading {
            copies: TABLE[at],
            kind: TABLE[at + 1],
            rest: u16::from_le_bytes([TABLE[at + 2], TABLE[at + 3]]),
            value: word(at + 4) as u32,
        }
    };
    places.roots.iter().filter(|root| root.0 == pass).map(|root| read(root.1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_order_and_each_pass_has_trees() {
        assert!(PLACES.keys.is_sorted() && PLACES.keys.len() > 100);
        for pass in 0..PASSES {
            assert!(PLACES.roots.iter().filter(|root| root.0 == pass).count() >= 2);
        }
    }

    #[test]
    fn every_node_leads_to_nodes_of_its_own_tree_and_every_leaf_to_a_reading() {
        let ends: Vec<usize> = PLACES.roots.iter().skip(1).map(|root| root.1).chain([TABLE.len()]).collect();
        for (&(pass, root), end) in PLACES.roots.iter().zip(ends) {
            let readings = word(MAGIC + 8 + 4 * pass);
            let mut at = root;
            while at < end {
                if TABLE[at] == LEAF {
                    assert!(usize::from(u16::from_le_bytes([TABLE[at + 1], TABLE[at + 2]])) < readings);
                    at += 3;
                } else {
                    let (rest, above) = sides(at);
                    assert!(usize::from(TABLE[at] & !FAR) < TRAITS && rest < above && above < end);
                    at = rest;
                }
            }
            assert_eq!(at, end);
        }
    }
}
