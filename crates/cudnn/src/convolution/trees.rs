//! Decision trees that predict which workspace cuDNN's heuristic chooses.
//!
//! `validation/workspace_grid/pack.py` makes the table: the kinds of kernels that were recorded; for each pass the number of its trees and the
//! lengths of its parts, deflated and inflated; then the parts: each pass's [workspace forms](super::form) and the nodes of each of its trees.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;

use super::deflated::{Deflated, DeflatedLengths};
use super::features::{self, FEATURES};
use super::form::WorkspaceForm;
use super::numbers::Numbers;
use super::problem::ConvolutionProblem;
use crate::TableError;
use crate::table::{half_word, word};

const PASSES: usize = 3;
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
    passes: [Forest<'t>; PASSES],
    multiprocessors: i64,
}

/// The trees of one pass.
#[derive(Debug)]
struct Forest<'t> {
    forms: Deflated<'t>,
    trees: Vec<Deflated<'t>>,
}

/// The nodes of a tree, the root first.
#[derive(Clone, Copy)]
struct Nodes<'t>(&'t [u8]);

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

impl<'t> Trees<'t> {
    pub fn read(payload: &'t [u8], multiprocessors: i64) -> Result<Trees<'t>, TableError> {
        Trees::parse(payload, multiprocessors).ok_or(TableError::Malformed)
    }

    fn parse(payload: &'t [u8], multiprocessors: i64) -> Option<Trees<'t>> {
        let mut rest = Numbers(payload);
        let kinds = rest.next_length()?.checked_mul(size_of::<KernelKind>())?;
        let kinds = rest.bytes(kinds)?.as_chunks().0;
        let mut lengths: [Vec<DeflatedLengths>; PASSES] = Default::default();
        for lengths in &mut lengths {
            let trees = rest.next()?;
            // The first part are the forms.
            for _ in 0..=trees {
                lengths.push(DeflatedLengths::read(&mut rest)?);
            }
        }
        let mut forests = lengths.iter().map(|lengths| {
            let mut parts = lengths.iter().map(|&lengths| Deflated::read(&mut rest, lengths));
            Some(Forest { forms: parts.next()??, trees: parts.collect::<Option<_>>()? })
        });
        let passes = [forests.next()??, forests.next()??, forests.next()??];
        Some(Trees { kinds, passes, multiprocessors })
    }

    /// Whether a convolution with this kernel and stride was recorded; `None` for types that were not recorded.
    pub fn knows_kernel(&self, problem: &ConvolutionProblem) -> Option<bool> {
        kind_of(problem).map(|kind| self.kinds.binary_search(&kind).is_ok())
    }

    /// The form that each tree of the pass predicts.
    pub fn forms(&self, problem: &ConvolutionProblem) -> Forms {
        let features = features::of(problem, self.multiprocessors);
        let forest = &self.passes[problem.pass as usize];
        let forms = forest.forms();
        let predicted = |tree: &Deflated<'_>| {
            let form = forms.get(Nodes(tree.bytes()).leaf(&features)?)?;
            Some(WorkspaceForm {
                copies: form[0],
                kind: form[1],
                rest: u16::from_le_bytes([form[2], form[3]]),
                value: word(form, 4)?,
            })
        };
        forest.trees.iter().filter_map(predicted).collect()
    }
}

impl Forest<'_> {
    fn forms(&self) -> &[[u8; FORM]] {
        self.forms.bytes().as_chunks().0
    }
}

impl Nodes<'_> {
    /// The sides of a node: first what is not above the threshold. A node is a feature, a threshold, and the forms of those sides that are
    /// leaves; without leaves, the distance to the upper side. Sides that are nodes follow, in order.
    fn sides(&self, at: usize) -> Option<(Side, Side)> {
        let next = at + HEAD;
        Some(match self.0.get(at)? & !FEATURE {
            0 => match half_word(self.0, next)? {
                distance if distance < NEAR => (Side::Node(next + 2), Side::Node(at + distance)),
                low => {
                    let high = usize::from(*self.0.get(next + 2)?);
                    (Side::Node(next + 3), Side::Node(at + low - NEAR + NEAR * high))
                }
            },
            LEAF_BELOW => (Side::Leaf(half_word(self.0, next)?), Side::Node(next + 2)),
            LEAF_ABOVE => (Side::Node(next + 2), Side::Leaf(half_word(self.0, next)?)),
            _ => (Side::Leaf(half_word(self.0, next)?), Side::Leaf(half_word(self.0, next + 2)?)),
        })
    }

    /// The index of the form that the tree predicts.
    fn leaf(&self, features: &[u16; FEATURES]) -> Option<usize> {
        let mut at = 0;
        loop {
            let (below, above) = self.sides(at)?;
            let feature = features.get(usize::from(self.0.get(at)? & FEATURE))?;
            let is_above = usize::from(*feature) > half_word(self.0, at + 1)?;
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
    use crate::convolution::deflated::tests::deflate;
    use crate::convolution::problem::tests::square;

    /// Feature 27, the last side: above 10 a node, else form 0. Then feature 5, the kernel's elements: up to 4 form 1, else form 2.
    const NODES: [u8; 12] = [27 | LEAF_BELOW, 10, 0, 0, 0, 5 | LEAF_BELOW | LEAF_ABOVE, 4, 0, 1, 0, 2, 0];

    /// One tree for the forward pass with three leaves, one form each, and one recorded kernel.
    fn payload(nodes: &[u8]) -> Vec<u8> {
        let forms = [100_u32, 200, 300].into_iter().flat_map(|value| [[0; 4], value.to_le_bytes()].concat());
        let parts = [forms.collect(), nodes.to_vec(), vec![], vec![]];
        let deflated = parts.each_ref().map(|part: &Vec<u8>| deflate(part));
        let lengths = |part: usize| [deflated[part].len() as u8, parts[part].len() as u8];
        let mut bytes = vec![1, 0, 0, 2, 0, 1, 3, 3, 1, 1, 1, 0];
        bytes.extend([[1].as_slice(), &lengths(0), &lengths(1), &[0], &lengths(2), &[0], &lengths(3)].concat());
        bytes.extend(deflated.concat());
        bytes
    }

    fn values(trees: &Trees<'_>, problem: &ConvolutionProblem) -> Vec<u32> {
        trees.forms(problem).iter().map(|form| form.value).collect()
    }

    #[test]
    fn a_tree_is_walked_by_features_to_the_form_of_a_leaf() {
        let payload = payload(&NODES);
        let trees = Trees::read(&payload, 132).unwrap();
        assert_eq!(values(&trees, &square([4, 8], 10, 3, 1, 1)), [100]);
        assert_eq!(values(&trees, &square([4, 8], 11, 1, 1, 0)), [200]);
        assert_eq!(values(&trees, &square([4, 8], 11, 3, 1, 1)), [300]);
    }

    #[test]
    fn a_kernel_is_known_if_one_with_the_same_sides_and_stride_was_recorded() {
        let payload = payload(&NODES);
        let trees = Trees::read(&payload, 132).unwrap();
        assert_eq!(trees.knows_kernel(&square([4, 8], 10, 3, 1, 1)), Some(true));
        assert_eq!(trees.knows_kernel(&square([4, 8], 10, 3, 2, 1)), Some(false));
        assert_eq!(trees.knows_kernel(&square([4, 8], 400, 300, 1, 1)), Some(false));
        let double = ConvolutionProblem { dtype: Dtype::Float64, ..square([4, 8], 10, 3, 1, 1) };
        assert_eq!(trees.knows_kernel(&double), None);
    }

    #[test]
    fn damaged_payloads_are_refused_or_answered_without_a_panic() {
        let payload = payload(&NODES);
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
        let mut nodes = NODES;
        nodes[..5].copy_from_slice(&[27, 0, 0, 0, 0]);
        assert_eq!(values(&Trees::read(&payload(&nodes), 132).unwrap(), &square([4, 8], 11, 3, 1, 1)), []);
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
        assert!(trees.passes.iter().all(|forest| forest.trees.len() >= 2));
    }

    #[test]
    fn every_node_leads_to_nodes_of_its_own_tree_and_every_leaf_to_a_form() {
        let trees = shipped();
        for (forest, tree) in trees.passes.iter().flat_map(|forest| forest.trees.iter().map(move |tree| (forest, tree)))
        {
            let nodes = Nodes(tree.bytes());
            let (mut next, mut waiting) = (0, vec![0]);
            while let Some(at) = waiting.pop() {
                // Nodes are stored in the order in which a walk meets them, without gaps.
                assert!(at == next && usize::from(nodes.0[at] & FEATURE) < FEATURES);
                let (below, above) = nodes.sides(at).unwrap();
                let leaves = [&below, &above].iter().filter(|side| matches!(side, Side::Leaf(_))).count();
                let is_far = half_word(nodes.0, at + HEAD).unwrap() >= NEAR;
                next = at + HEAD + if leaves > 0 { 2 * leaves } else { 2 + usize::from(is_far) };
                for side in [above, below] {
                    match side {
                        Side::Leaf(form) => assert!(form < forest.forms().len()),
                        Side::Node(node) => waiting.push(node),
                    }
                }
            }
            assert_eq!(next, nodes.0.len());
        }
    }
}
