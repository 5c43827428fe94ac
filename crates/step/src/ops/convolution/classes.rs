//! Which class of plan cuDNN chooses for a convolution: trees grown from the recorded choices.
//!
//! Made by `validation/workspace_grid/pack.py`, whose `Shape.traits` has the same list.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::problem::Problem;
use crate::format::Format;

static TREES: &[u8] = include_bytes!("../../../data/cudnn-classes.bin");
const HEADER: usize = 12;
const ROOT: usize = 8;
const NODE: usize = 6;
const LEAF: u8 = 255;
const UNIT: f64 = 1024.0;
const TILE: i64 = 128;

/// How many traits a tree decides by.
const TRAITS: usize = 32;

fn doublings(number: i64) -> i32 {
    ((number.max(1) as f64).log2() * UNIT).round() as i32
}

fn evenness(number: i64) -> i32 {
    number.trailing_zeros().min(5).cast_signed()
}

fn tiles(high: i64, wide: i64) -> i32 {
    doublings(((high + TILE - 1) / TILE) * ((wide + TILE - 1) / TILE))
}

/// What stands last in a list of sizes.
fn last(dims: &[i64]) -> i64 {
    dims.last().copied().unwrap_or(1)
}

fn traits(problem: &Problem) -> [i32; TRAITS] {
    let (image, result, weight) = (&problem.image, &problem.result, &problem.weight);
    let (batch, inputs, outputs, of_group) = (image[0], image[1], result[1], weight[1]);
    let (area, after): (i64, i64) = (image[2..].iter().product(), result[2..].iter().product());
    let kernel: i64 = weight[2..].iter().product();
    let (rows, inner) = (batch * after, of_group * kernel);
    let (stride, dilation) = (last(&problem.stride).max(1), last(&problem.dilation));
    let unpadded = (last(image) - dilation * (last(weight) - 1) - 1).div_euclid(stride) + 1;
    let small = |number: i64| i32::try_from(number).unwrap_or(i32::MAX);
    [
        i32::from(problem.dtype != Dtype::Float32),
        i32::from(problem.dtype == Dtype::Float16),
        i32::from(problem.format == Format::ChannelsLast),
        i32::from(problem.rank_seen()),
        i32::from(problem.grouping()),
        small(kernel),
        small(last(weight)),
        small(stride),
        small(dilation),
        i32::from(last(result) > unpadded),
        doublings(batch),
        doublings(area),
        doublings(inputs),
        doublings(outputs),
        doublings(rows),
        doublings(inner * outputs),
        doublings(problem.groups),
        doublings(after),
        doublings(batch * area),
        doublings(rows * outputs),
        doublings(batch * area * inputs),
        doublings(inner),
        doublings(rows.saturating_mul(outputs).saturating_mul(inner)),
        evenness(inputs),
        evenness(outputs),
        evenness(of_group),
        evenness(after),
        small(last(image)),
        small(last(result)),
        tiles(rows, outputs),
        tiles(outputs, inner),
        tiles(batch * area, inputs),
    ]
}

fn word(at: usize) -> usize {
    u32::from_le_bytes([TREES[at], TREES[at + 1], TREES[at + 2], TREES[at + 3]]) as usize
}

/// The class that the tree at this node names. A node is a trait, its threshold and the node for what is above it; the one
/// for the rest follows.
fn named(nodes: &[u8], root: usize, traits: &[i32; TRAITS]) -> u16 {
    let mut at = root;
    loop {
        let node = &nodes[at * NODE..(at + 1) * NODE];
        let threshold = u16::from_le_bytes([node[1], node[2]]);
        if node[0] == LEAF {
            return threshold;
        }
        let is_above = traits[usize::from(node[0])] > i32::from(threshold);
        let right = u32::from_le_bytes([node[3], node[4], node[5], 0]) as usize;
        at = if is_above { root + right } else { at + 1 };
    }
}

/// The classes that trees name, the one with most votes first.
pub(super) fn votes(problem: &Problem) -> SmallVec<[u16; 6]> {
    let traits = traits(problem);
    let trees = word(8);
    let nodes = &TREES[HEADER + trees * ROOT..];
    let mut found: SmallVec<[(u16, u32); 6]> = SmallVec::new();
    for tree in 0..trees {
        let at = HEADER + tree * ROOT;
        if word(at) == problem.pass as usize {
            let class = named(nodes, word(at + 4), &traits);
            match found.iter_mut().find(|(known, _)| *known == class) {
                Some((_, votes)) => *votes += 1,
                None => found.push((class, 1)),
            }
        }
    }
    found.sort_by_key(|&(_, votes)| std::cmp::Reverse(votes));
    found.into_iter().map(|(class, _)| class).collect()
}
