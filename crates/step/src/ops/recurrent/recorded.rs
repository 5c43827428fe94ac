//! Workspaces that cuDNN was seen to take for recurrent layers, and what they say about others.
//!
//! Of a workspace, 8 MiB a layer and direction and a copy of the weights are certain; the rest grows with the sequence. For
//! settings that are not in the table, the nearest entries tell how fast (`docs/cudnn-workspaces.md`).

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use crate::ops::convolution::Spread;

static TABLE: &[u8] = include_bytes!("../../../data/cudnn-recurrent.bin");
const HEADER: usize = 12;
const ENTRY: usize = 18;
const NEIGHBOURS: usize = 3;
const OF_A_LAYER: f64 = 8_388_608.0;

/// A recurrent layer's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

/// A call of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub kind: Kind,
    pub dtype: Dtype,
    pub is_training: bool,
    pub has_dropout: bool,
    pub layers: i64,
    pub directions: i64,
    pub length: i64,
    pub batch: i64,
    pub inputs: i64,
    pub hidden: i64,
}

impl Problem {
    fn gates(&self) -> i64 {
        match self.kind {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Tanh | Kind::Relu => 1,
        }
    }

    /// Numbers of all weights and biases.
    fn weights(&self) -> i64 {
        let layer = |inputs: i64| self.gates() * self.hidden * (inputs + self.hidden + 2) * self.directions;
        layer(self.inputs) + (self.layers - 1) * layer(self.hidden * self.directions)
    }

    fn size(&self) -> i64 {
        self.dtype.bytes().cast_signed()
    }

    /// Bytes of one result of every step.
    fn states(&self) -> i64 {
        self.length * self.batch * self.hidden * self.size()
    }

    /// What every workspace holds, and what the rest is in proportion to.
    fn parts(&self) -> (f64, f64) {
        let fixed = OF_A_LAYER * (self.layers * self.directions) as f64 + (self.weights() * self.size()) as f64;
        let dropped = if self.has_dropout { self.states() * self.directions } else { 0 };
        let steps = self.length * self.batch * (4 * self.hidden * self.directions + 2 * self.inputs);
        (fixed + dropped as f64, ((steps + 16 * self.batch * self.hidden) * self.size()) as f64)
    }

    /// The reserve that training keeps for the backward pass: gates and states of every layer, the last one's result
    /// apart, and the bits of dropout.
    pub fn reserve(&self) -> u64 {
        let kept = match self.kind {
            Kind::Lstm => 6,
            Kind::Gru => 7,
            Kind::Tanh | Kind::Relu => 2,
        };
        let body = (kept * self.layers - 1) * self.directions * self.states();
        let bits = self.length * self.batch * self.hidden * self.directions * self.directions;
        let masks = if self.has_dropout { (self.layers - 1) * up((bits + 7) / 8, 32) } else { 0 };
        (up(body, 32) + masks + 256).unsigned_abs()
    }

    fn distance(&self, other: &Problem) -> f64 {
        let doublings = |one: i64, other: i64| ((one as f64) / (other as f64)).log2().abs();
        let differs = |differs: bool, weight: f64| if differs { weight } else { 0.0 };
        let is_single = |problem: &Problem| problem.dtype == Dtype::Float32;
        let is_plain = |problem: &Problem| matches!(problem.kind, Kind::Tanh | Kind::Relu);
        let other_kind = if is_plain(self) && is_plain(other) { 0.2 } else { 6.0 };
        doublings(self.length, other.length)
            + doublings(self.batch, other.batch)
            + doublings(self.inputs, other.inputs)
            + 2.0 * doublings(self.hidden, other.hidden)
            + 2.0 * self.layers.abs_diff(other.layers) as f64
            + 4.0 * self.directions.abs_diff(other.directions) as f64
            + differs(is_single(self) != is_single(other), 3.0)
            + differs(self.dtype != other.dtype, 0.5)
            + differs(self.is_training != other.is_training, 1.0)
            + differs(self.has_dropout != other.has_dropout, 0.1)
            + differs(self.kind != other.kind, other_kind)
    }
}

fn up(number: i64, multiple: i64) -> i64 {
    (number + multiple - 1) / multiple * multiple
}

/// The entry's settings and workspace.
fn read(entry: &[u8]) -> (Problem, u64) {
    let half = |at: usize| i64::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
    let kind = match entry[0] {
        0 => Kind::Lstm,
        1 => Kind::Gru,
        2 => Kind::Tanh,
        _ => Kind::Relu,
    };
    let dtype = match entry[1] {
        0 => Dtype::Float32,
        1 => Dtype::Bfloat16,
        _ => Dtype::Float16,
    };
    let problem = Problem {
        kind,
        dtype,
        is_training: entry[2] != 0,
        has_dropout: entry[5] != 0,
        layers: i64::from(entry[3]),
        directions: i64::from(entry[4]),
        length: half(6),
        batch: half(8),
        inputs: half(10),
        hidden: half(12),
    };
    let workspace = u32::from_le_bytes([entry[14], entry[15], entry[16], entry[17]]);
    (problem, u64::from(workspace))
}

/// The workspace of a call.
pub(super) fn workspace(problem: &Problem) -> Spread {
    let mut nearest: SmallVec<[(f64, Problem, u64); NEIGHBOURS + 1]> = SmallVec::new();
    for entry in TABLE[HEADER..].chunks_exact(ENTRY) {
        let (other, bytes) = read(entry);
        if other == *problem {
            return Spread::exactly(bytes);
        }
        let far = problem.distance(&other);
        let place = nearest.iter().position(|(known, ..)| *known > far).unwrap_or(nearest.len());
        if place < NEIGHBOURS {
            nearest.insert(place, (far, other, bytes));
            nearest.truncate(NEIGHBOURS);
        }
    }
    let (fixed, growing) = problem.parts();
    let mut found: SmallVec<[u64; NEIGHBOURS]> = nearest
        .iter()
        .map(|(_, other, bytes)| {
            let (other_fixed, other_growing) = other.parts();
            let speed = ((*bytes as f64 - other_fixed) / other_growing).max(0.0);
            (fixed + speed * growing) as u64
        })
        .collect();
    found.sort_unstable();
    let at = |index: usize| found.get(index).copied().unwrap_or(fixed as u64);
    Spread { expected: at(found.len() / 2), least: at(0), most: at(found.len().saturating_sub(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_LAYERS: Problem = Problem {
        kind: Kind::Lstm,
        dtype: Dtype::Float32,
        is_training: true,
        has_dropout: true,
        layers: 2,
        directions: 1,
        length: 35,
        batch: 20,
        inputs: 200,
        hidden: 300,
    };

    #[test]
    fn the_reserve_holds_gates_and_states_of_every_layer_and_dropouts_bits() {
        assert_eq!(TWO_LAYERS.reserve(), 9_266_528);
        assert_eq!(Problem { has_dropout: false, ..TWO_LAYERS }.reserve(), 9_240_256);
        let gru = Problem { kind: Kind::Gru, has_dropout: false, ..TWO_LAYERS };
        assert_eq!(gru.reserve(), 10_920_256);
    }

    #[test]
    fn a_workspace_that_was_not_recorded_is_near_the_measured_one() {
        let guess = workspace(&TWO_LAYERS);
        let error = (guess.expected as f64 / 28_137_632.0 - 1.0).abs();
        assert!(error < 0.1, "{guess:?}");
    }
}
