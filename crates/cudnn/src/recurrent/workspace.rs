//! The workspace of cuDNN's recurrent layers, as a formula.
//!
//! Derived from recorded layers (`docs/cudnn-workspaces.md`): 8 MiB per layer and direction, a copy of the matrices, and what the steps of the
//! sequence need. Training requests the larger of what its two passes need.

use vramfit_graph::dtype::Dtype;

use super::problem::{Kind, RecurrentProblem, up};

/// Bytes per layer and direction, whatever their size.
pub(super) const PER_LAYER: i64 = 8 << 20;
/// Bytes of every workspace, beside eight per sequence of the batch.
pub(super) const ALWAYS: i64 = 256;
/// In one direction cuDNN computes the gates of so many steps at once.
pub(super) const STEPS_AT_ONCE: i64 = 256;

/// Which pass requests the workspace. PyTorch chooses the algorithm again for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentPass {
    /// The forward call.
    Forward,
    /// The backward calls, for data and weights.
    Backward,
}

impl RecurrentProblem {
    fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Tanh | Kind::Relu)
    }

    /// Whether PyTorch requests persistent kernels, which keep the matrices on the multiprocessors (`get_algo`). It does so for bfloat16 too,
    /// but there cuDNN has none.
    fn is_persistent(&self, pass: RecurrentPass) -> bool {
        let widest = match (self.is_plain(), pass) {
            (true, RecurrentPass::Forward) => 384,
            (true, RecurrentPass::Backward) => 256,
            (false, RecurrentPass::Forward) => 192,
            (false, RecurrentPass::Backward) => 128,
        };
        let is_small = matches!(self.dtype, Dtype::Float32 | Dtype::Float16) && self.hidden <= widest;
        self.projection == 0 && (is_small || self.is_static())
    }

    /// Whether PyTorch requests the static persistent kernels: for wider layers in half precision, on GPUs with 98 multiprocessors or more.
    fn is_static(&self) -> bool {
        let fits = self.layers == 1 && self.directions == 1 && self.hidden <= 1024;
        let is_even = self.hidden % 128 == 0 && self.inputs % 128 == 0 && self.batch % 8 == 0 && self.batch <= 128;
        let is_fast = match self.kind {
            Kind::Lstm => true,
            Kind::Gru => false,
            Kind::Tanh | Kind::Relu => self.batch < 96 || self.hidden < 896,
        };
        self.dtype == Dtype::Float16 && fits && is_even && is_fast
    }

    fn has_both_directions(&self) -> bool {
        self.directions == 2
    }

    /// Elements per sequence of the batch that the forward pass needs.
    fn of_forward(&self, is_persistent: bool) -> i64 {
        let RecurrentProblem { length, inputs, hidden, layers, directions, .. } = *self;
        let at_once = if is_persistent || self.has_both_directions() { length } else { length.min(STEPS_AT_ONCE) };
        let mut steps = length * ((hidden + self.projection) * directions + inputs);
        steps += at_once * self.gates() * hidden * directions;
        let mut of_a_layer = match (self.kind, is_persistent) {
            (Kind::Lstm, false) => 10,
            (Kind::Gru, false) => 5,
            (Kind::Tanh | Kind::Relu, false) => 3,
            (Kind::Lstm, true) => 8,
            (_, true) => 4,
        } * directions;
        if self.has_both_directions() {
            steps += 4 * length * hidden;
            of_a_layer += if is_persistent { 2 } else { 4 };
        } else if self.has_dropout && layers > 1 {
            steps += length * hidden;
        }
        if is_persistent {
            steps += 4 * self.gates() * length * hidden;
        }
        steps + of_a_layer * layers * hidden + self.projected(2, -2) * layers
    }

    /// Elements that a projection adds to a layer: so many times its own width, so many times the hidden width.
    fn projected(&self, own: i64, hidden: i64) -> i64 {
        let is_projected = i64::from(self.projection > 0);
        self.directions * (own * self.projection + hidden * self.hidden * is_projected)
    }

    /// Elements per sequence of the batch that the backward pass needs.
    fn of_backward(&self, is_persistent: bool) -> i64 {
        let RecurrentProblem { length, inputs, hidden, layers, directions, .. } = *self;
        let is_both = self.has_both_directions();
        let mut steps = length * (3 * hidden * directions + 2 * inputs + self.projected(2, -1));
        let wider = inputs.max(hidden);
        steps += if is_both || is_persistent || layers == 1 {
            length * wider * directions * directions
        } else {
            // Gradients between layers live only while their steps are in flight.
            let together = self.steps_together();
            (length * wider).min(length * (wider - hidden) + (together * layers + together.max(8)) * hidden)
        };
        let mut of_a_layer = if self.kind == Kind::Lstm { 11 } else { 5 } * directions;
        if is_both {
            of_a_layer += 4;
            steps += if layers > 1 { 2 * length * hidden } else { 0 };
        }
        if is_persistent {
            let states = match self.kind {
                Kind::Lstm => 12,
                Kind::Gru => 14,
                Kind::Tanh | Kind::Relu => 9,
            };
            let is_stacked = layers > 1 && !is_both;
            steps += (states + i64::from(is_stacked)) * length * hidden;
            of_a_layer += i64::from(!is_both);
        }
        steps + of_a_layer * layers * hidden + self.projected(4, -4) * layers
    }

    /// Steps that a layer runs before the layer below starts on them.
    pub(super) fn steps_together(&self) -> i64 {
        let by_batch = match self.batch {
            ..=1 => 32,
            2..=8 => 16,
            9..=16 => 8,
            17..=96 => 4,
            _ => 2,
        };
        if self.length >= 128 { by_batch.max(8) } else { by_batch }
    }

    /// Bytes of the workspace.
    pub fn workspace(&self, pass: RecurrentPass) -> u64 {
        if let Some(rows) = self.rows {
            return self.packed_workspace(rows);
        }
        let is_persistent = self.is_persistent(pass);
        let forward = self.of_forward(is_persistent);
        let steps = if self.is_training { forward.max(self.of_backward(is_persistent)) } else { forward };
        let elements = self.matrices() + self.batch * steps;
        let fixed = PER_LAYER * self.layers * self.directions + ALWAYS + up(8 * self.batch, 32);
        (fixed + elements * self.size()).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Table, TableKind, word};

    /// Recorded layers with the workspaces of both passes, from `validation/workspace_grid/pack_recurrent.py`.
    static RECORDED: &[u8] = include_bytes!("../../data/cudnn-recurrent.bin");
    const COUNT: usize = 4;
    const ENTRY: usize = 24;

    #[test]
    fn the_recorded_layers_are_intact() {
        let table = Table::read(RECORDED, TableKind::Recurrent).unwrap();
        assert!(table.is_intact());
        assert_eq!(table.payload.len(), COUNT + ENTRY * word(table.payload, 0).unwrap() as usize);
    }

    fn recorded() -> impl Iterator<Item = (RecurrentProblem, u64, u64)> {
        let payload = Table::read(RECORDED, TableKind::Recurrent).unwrap().payload;
        payload[COUNT..].chunks_exact(ENTRY).map(|entry| {
            let half = |at: usize| i64::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
            let word =
                |at: usize| u64::from(u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]));
            let problem = RecurrentProblem {
                kind: [Kind::Lstm, Kind::Gru, Kind::Tanh, Kind::Relu][usize::from(entry[0])],
                dtype: [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16][usize::from(entry[1])],
                is_training: entry[2] != 0,
                has_dropout: entry[5] != 0,
                layers: i64::from(entry[3]),
                directions: i64::from(entry[4]),
                length: half(6),
                batch: half(8),
                rows: None,
                inputs: half(10),
                hidden: half(12),
                projection: half(14),
            };
            (problem, word(16), word(20))
        })
    }

    #[test]
    fn recorded_workspaces_are_the_formulas_to_the_block() {
        let (mut all, mut near, mut same) = (0, 0, 0);
        for (problem, forward, backward) in recorded() {
            for (pass, bytes) in [(RecurrentPass::Forward, forward), (RecurrentPass::Backward, backward)] {
                if bytes > 0 {
                    let found = problem.workspace(pass);
                    all += 1;
                    near += u32::from(found.abs_diff(bytes) <= 1024);
                    same += u32::from(found.div_ceil(512) == bytes.div_ceil(512));
                }
            }
        }
        assert_eq!(all, 10_561);
        assert!(near >= 10_553 && same >= 10_472, "{near} to a kilobyte, {same} in the same blocks");
    }

    #[test]
    fn a_plain_layer_of_300_persists_on_the_way_forward_only() {
        let found = recorded().find(|(problem, ..)| problem.is_plain() && problem.hidden == 300 && problem.is_training);
        let (problem, forward, backward) = found.unwrap();
        assert!(
            problem.workspace(RecurrentPass::Forward) > problem.workspace(RecurrentPass::Backward)
                && forward > backward
        );
    }
}
