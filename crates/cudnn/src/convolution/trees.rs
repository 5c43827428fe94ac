//! Decision trees that predict which workspace cuDNN's heuristic chooses.
//!
//! `validation/workspace_grid/pack.py` makes the table: counts, the roots of the trees, the kinds of kernels that were recorded, each pass's
//! [workspace forms](super::form), and the nodes.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::features::{self, FEATURES};
use super::form::WorkspaceForm;
use super::problem::ConvolutionProblem;
use crate::TableError;
use crate::table::{half_word, word};

const PASSES: usize = 3;
/// Bytes of the counts and of a root.
const COUNTS: usize = 20;
const ROOT: usize = 8;
const FORM: usize = 8;
/// A node's first byte: the feature, and whether the lower or the upper side is a leaf.
const FEATURE: u8 = 63;
const LEAF_BELOW: u8 = 64;
const LEAF_ABOVE: u8 = 128;
/// Bytes of a feature and its threshold.
const HEAD: usize = 3;
/// Distances from here on have a third byte.
const NEAR: usize = 1 << 15;

/// What convolutions of one kind share: type, layout, rank, grouping, kernel, stride, whether it is dilated.
type KernelKind = [u8; 11];

/// One form for each tree of a pass.
pub(super) type Forms = SmallVec<[WorkspaceForm; 6]>;

/// The trees of all passes. The payload may be damaged: a damaged tree then predicts nothing or a wrong form, but does not panic.
#[derive(Debug)]
pub(super) struct Trees<'t> {
    /// Sorted.
    kinds: &'t [KernelKind],
    /// By pass.
    forms: [&'t [[u8; FORM]]; PASSES],
    /// Pass and first node.
    roots: Vec<(usize, usize)>,
    nodes: &'t [u8],
    multiprocessors: i64,
}

/// One side of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The index of a form.
    Leaf(usize),
    /// The offset of another node.
    Node(usize),
}

/// The kind of a convolution; `None` for types that were not recorded.
fn kind_of(problem: &ConvolutionProblem) -> Option<KernelKind> {
    let precision = match problem.dtype {
        Dtype::Float32 => 0,
        Dtype::Bfloat16 | Dtype::Float16 => 1,
        _ => return None,
    };
    let rank = problem.stride.len();
    let is_last = u8::from(problem.format == Format::ChannelsLast);
    let mut kind = [precision, is_last, problem.recorded_rank(), problem.grouping(), 1, 1, 1, 1, 1, 1, 0];
    // No recorded kernel or stride reaches 255, so larger ones match none.
    let small = |number: i64| u8::try_from(number).unwrap_or(u8::MAX);
    for dim in 0..rank {
        kind[4 + 3 - rank + dim] = small(problem.weight[2 + dim]);
        kind[7 + 3 - rank + dim] = small(problem.stride[dim]);
    }
    kind[10] = u8::from(problem.dilation.iter().any(|&dilation| dilation > 1));
    Some(kind)
}

/// Splits `count` items of `SIZE` bytes off.
fn split_off<'t, const SIZE: usize>(bytes: &mut &'t [u8], count: u32) -> Result<&'t [[u8; SIZE]], TableError> {
    let length = (count as usize).checked_mul(SIZE).ok_or(TableError::Malformed)?;
    let (items, rest) = bytes.split_at_checked(length).ok_or(TableError::Malformed)?;
    *bytes = rest;
    Ok(items.as_chunks().0)
}

impl<'t> Trees<'t> {
    pub fn read(payload: &'t [u8], multiprocessors: i64) -> Result<Trees<'t>, TableError> {
        let (counts, mut rest) = payload.split_at_checked(COUNTS).ok_or(TableError::Malformed)?;
        let count = |index: usize| word(counts, 4 * index).ok_or(TableError::Malformed);
        let roots = split_off::<ROOT>(&mut rest, count(1)?)?;
        let kinds = split_off(&mut rest, count(0)?)?;
        let forms =
            [split_off(&mut rest, count(2)?)?, split_off(&mut rest, count(3)?)?, split_off(&mut rest, count(4)?)?];
        let number = |root: &[u8; ROOT], at: usize| word(root, at).map(|number| number as usize);
        let roots = roots.iter().map(|root| Some((number(root, 0)?, number(root, 4)?))).collect::<Option<_>>();
        Ok(Trees { kinds, forms, roots: roots.ok_or(TableError::Malformed)?, nodes: rest, multiprocessors })
    }

    /// Whether a convolution with this kernel and stride was recorded; `None` for types that were not recorded.
    pub fn knows_kernel(&self, problem: &ConvolutionProblem) -> Option<bool> {
        kind_of(problem).map(|kind| self.kinds.binary_search(&kind).is_ok())
    }

    /// The form that each tree of the pass predicts.
    pub fn forms(&self, problem: &ConvolutionProblem) -> Forms {
        let (features, pass) = (features::of(problem, self.multiprocessors), problem.pass as usize);
        let predicted = |root: usize| {
            let form = self.forms[pass].get(self.leaf(root, &features)?)?;
            Some(WorkspaceForm {
                copies: form[0],
                kind: form[1],
                rest: u16::from_le_bytes([form[2], form[3]]),
                value: word(form, 4)?,
            })
        };
        self.roots.iter().filter(|root| root.0 == pass).filter_map(|root| predicted(root.1)).collect()
    }

    /// The sides of a node: first what is not above the threshold. A node is a feature, a threshold, and the forms of those sides that are
    /// leaves; without leaves, the distance to the upper side. Sides that are nodes follow, in order.
    fn sides(&self, at: usize) -> Option<(Side, Side)> {
        let next = at + HEAD;
        Some(match self.nodes.get(at)? & !FEATURE {
            0 => match half_word(self.nodes, next)? {
                distance if distance < NEAR => (Side::Node(next + 2), Side::Node(at + distance)),
                low => {
                    let high = usize::from(*self.nodes.get(next + 2)?);
                    (Side::Node(next + 3), Side::Node(at + low - NEAR + NEAR * high))
                }
            },
            LEAF_BELOW => (Side::Leaf(half_word(self.nodes, next)?), Side::Node(next + 2)),
            LEAF_ABOVE => (Side::Node(next + 2), Side::Leaf(half_word(self.nodes, next)?)),
            _ => (Side::Leaf(half_word(self.nodes, next)?), Side::Leaf(half_word(self.nodes, next + 2)?)),
        })
    }

    /// The index of the form that a tree predicts.
    fn leaf(&self, root: usize, features: &[u16; FEATURES]) -> Option<usize> {
        let mut at = root;
        loop {
            let (below, above) = self.sides(at)?;
            let feature = features.get(usize::from(self.nodes.get(at)? & FEATURE))?;
            let is_above = usize::from(*feature) > half_word(self.nodes, at + 1)?;
            match if is_above { above } else { below } {
                Side::Leaf(form) => return Some(form),
                // Sides always follow their node; a damaged table must not lead in circles.
                Side::Node(next) if next > at => at = next,
                Side::Node(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::problem::tests::square;

    /// One tree for the forward pass with two nodes and three leaves, one form each, and one recorded kernel.
    fn payload() -> Vec<u8> {
        let counts = [1_u32, 1, 3, 0, 0];
        let root = [0_u32, 0];
        let mut bytes: Vec<u8> = counts.into_iter().chain(root).flat_map(u32::to_le_bytes).collect();
        bytes.extend([0, 0, 2, 0, 1, 3, 3, 1, 1, 1, 0]);
        for value in [100_u32, 200, 300] {
            bytes.extend([0, 0, 0, 0]);
            bytes.extend(value.to_le_bytes());
        }
        // Feature 27, the last side: above 10 a node, else form 0. Then feature 5, the kernel's elements: up to 4 form 1, else form 2.
        bytes.extend([27 | LEAF_BELOW, 10, 0, 0, 0]);
        bytes.extend([5 | LEAF_BELOW | LEAF_ABOVE, 4, 0, 1, 0, 2, 0]);
        bytes
    }

    fn values(trees: &Trees<'_>, problem: &ConvolutionProblem) -> Vec<u32> {
        trees.forms(problem).iter().map(|form| form.value).collect()
    }

    #[test]
    fn a_tree_is_walked_by_features_to_the_form_of_a_leaf() {
        let payload = payload();
        let trees = Trees::read(&payload, 132).unwrap();
        assert_eq!(values(&trees, &square([4, 8], 10, 3, 1, 1)), [100]);
        assert_eq!(values(&trees, &square([4, 8], 11, 1, 1, 0)), [200]);
        assert_eq!(values(&trees, &square([4, 8], 11, 3, 1, 1)), [300]);
    }

    #[test]
    fn a_kernel_is_known_if_one_with_the_same_sides_and_stride_was_recorded() {
        let payload = payload();
        let trees = Trees::read(&payload, 132).unwrap();
        assert_eq!(trees.knows_kernel(&square([4, 8], 10, 3, 1, 1)), Some(true));
        assert_eq!(trees.knows_kernel(&square([4, 8], 10, 3, 2, 1)), Some(false));
        assert_eq!(trees.knows_kernel(&square([4, 8], 400, 300, 1, 1)), Some(false));
        let double = ConvolutionProblem { dtype: Dtype::Float64, ..square([4, 8], 10, 3, 1, 1) };
        assert_eq!(trees.knows_kernel(&double), None);
    }

    #[test]
    fn damaged_payloads_are_refused_or_answered_without_a_panic() {
        let payload = payload();
        let problems = [square([4, 8], 10, 3, 1, 1), square([4, 8], 11, 1, 1, 0)];
        let ask = |bytes: &[u8]| match Trees::read(bytes, 132) {
            Ok(trees) => problems.iter().for_each(|problem| {
                let bytes: Vec<u64> = trees.forms(problem).iter().map(|form| form.bytes(problem)).collect();
                assert!(bytes.len() <= 1 && trees.knows_kernel(problem).is_some());
            }),
            Err(error) => assert_eq!(error, TableError::Malformed),
        };
        (0..payload.len()).for_each(|length| ask(&payload[..length]));
        for (index, byte) in (0..payload.len()).flat_map(|index| (0..=255).map(move |byte| (index, byte))) {
            let mut damaged = payload.clone();
            damaged[index] = byte;
            ask(&damaged);
        }
    }

    #[test]
    fn a_node_that_leads_back_to_itself_ends_the_walk() {
        let mut payload = payload();
        let node = payload.len() - 12;
        payload[node..node + 5].copy_from_slice(&[27, 0, 0, 0, 0]);
        assert_eq!(values(&Trees::read(&payload, 132).unwrap(), &square([4, 8], 11, 3, 1, 1)), []);
    }
}

#[cfg(test)]
#[cfg(feature = "tables")]
mod shipped_tests {
    use super::*;
    use crate::convolution::shipped;
    use crate::table::{Table, TableKind};

    fn shipped() -> Trees<'static> {
        Trees::read(Table::read(shipped::TREES, TableKind::Trees).unwrap().payload, 132).unwrap()
    }

    #[test]
    fn kinds_are_sorted_none_has_a_side_of_255_and_each_pass_has_trees() {
        let trees = shipped();
        assert!(trees.kinds.is_sorted() && trees.kinds.len() > 100);
        assert!(trees.kinds.iter().flatten().all(|&number| number < u8::MAX));
        for pass in 0..PASSES {
            assert!(trees.roots.iter().filter(|root| root.0 == pass).count() >= 2);
        }
    }

    #[test]
    fn every_node_leads_to_nodes_of_its_own_tree_and_every_leaf_to_a_form() {
        let trees = shipped();
        let ends: Vec<usize> = trees.roots.iter().skip(1).map(|root| root.1).chain([trees.nodes.len()]).collect();
        for (&(pass, root), end) in trees.roots.iter().zip(ends) {
            let (mut next, mut waiting) = (root, vec![root]);
            while let Some(at) = waiting.pop() {
                // Nodes are stored in the order in which a walk meets them, without gaps.
                assert!(at == next && usize::from(trees.nodes[at] & FEATURE) < FEATURES);
                let (below, above) = trees.sides(at).unwrap();
                let leaves = [&below, &above].iter().filter(|side| matches!(side, Side::Leaf(_))).count();
                let is_far = half_word(trees.nodes, at + HEAD).unwrap() >= NEAR;
                next = at + HEAD + if leaves > 0 { 2 * leaves } else { 2 + usize::from(is_far) };
                for side in [above, below] {
                    match side {
                        Side::Leaf(form) => assert!(form < trees.forms[pass].len()),
                        Side::Node(node) => waiting.push(node),
                    }
                }
            }
            assert_eq!(next, end);
        }
    }
}
