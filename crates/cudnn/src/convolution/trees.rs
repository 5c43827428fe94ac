//! Which workspace cuDNN's heuristic chooses for a convolution: trees grown from what it answered.
//!
//! Made by `validation/workspace_grid/pack.py`: the keys of the kernels that were asked about, for each pass its readings, then
//! the trees.

use std::sync::LazyLock;

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::features::{self, TRAITS};
use super::form::Reading;
use super::problem::Problem;
use vramfit_graph::format::Format;

static TABLE: &[u8] = include_bytes!("../../data/cudnn-plans.bin");

const MAGIC: usize = 8;
const PASSES: usize = 3;
const READING: usize = 8;
/// Of a node's first byte: the trait, and whether what is not above the threshold, or what is, is a leaf.
const TRAIT: u8 = 63;
const LEAF_BELOW: u8 = 64;
const LEAF_ABOVE: u8 = 128;
/// Bytes of a trait and its threshold.
const HEAD: usize = 3;
/// A distance that is not below it has a third byte.
const NEAR: usize = 1 << 15;

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

fn half_word(at: usize) -> usize {
    usize::from(u16::from_le_bytes([TABLE[at], TABLE[at + 1]]))
}

/// One side of a node: the number of a reading, or the place of another node.
enum Side {
    Leaf(usize),
    Node(usize),
}

/// A node's two sides, what is not above its threshold first. A node is a trait, a threshold, and the readings of those sides that are leaves; where none is,
/// how far on the second side begins. Sides that are nodes follow, in order.
fn sides(at: usize) -> (Side, Side) {
    let next = at + HEAD;
    match TABLE[at] & !TRAIT {
        0 => match half_word(next) {
            distance if distance < NEAR => (Side::Node(next + 2), Side::Node(at + distance)),
            low => (Side::Node(next + 3), Side::Node(at + low - NEAR + NEAR * usize::from(TABLE[next + 2]))),
        },
        LEAF_BELOW => (Side::Leaf(half_word(next)), Side::Node(next + 2)),
        LEAF_ABOVE => (Side::Node(next + 2), Side::Leaf(half_word(next))),
        _ => (Side::Leaf(half_word(next)), Side::Leaf(half_word(next + 2))),
    }
}

/// The number of the reading that the tree at this place names.
fn named(root: usize, traits: &[u16; TRAITS]) -> usize {
    let mut at = root;
    loop {
        let (below, above) = sides(at);
        let is_above = usize::from(traits[usize::from(TABLE[at] & TRAIT)]) > half_word(at + 1);
        match if is_above { above } else { below } {
            Side::Leaf(reading) => return reading,
            Side::Node(next) => at = next,
        }
    }
}

/// What each tree of the pass says.
pub(super) fn said(problem: &Problem) -> Said {
    let (places, traits, pass) = (&*PLACES, features::of(problem), problem.pass as usize);
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
            let (mut next, mut waiting) = (root, vec![root]);
            while let Some(at) = waiting.pop() {
                // Nodes lie in the order in which a walk meets them, with nothing between.
                assert!(at == next && usize::from(TABLE[at] & TRAIT) < TRAITS);
                let (below, above) = sides(at);
                let leaves = [&below, &above].iter().filter(|side| matches!(side, Side::Leaf(_))).count();
                next = at + HEAD + if leaves > 0 { 2 * leaves } else { 2 + usize::from(half_word(at + HEAD) >= NEAR) };
                for side in [above, below] {
                    match side {
                        Side::Leaf(reading) => assert!(reading < readings),
                        Side::Node(node) => waiting.push(node),
                    }
                }
            }
            assert_eq!(next, end);
        }
    }
}
