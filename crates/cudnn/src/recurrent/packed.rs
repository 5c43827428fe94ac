//! Memory of recurrent layers on packed sequences: the workspace and the reserve space count the rows that are there.
//!
//! Derived from 324 recorded layers with sequences of different lengths. Input and result need no copies, and PyTorch
//! always requests the standard algorithm (`get_algo`). cuDNN lays its pieces out at multiples of 32 bytes.

use super::problem::{Kind, RecurrentProblem, up};
use super::workspace::{ALWAYS, PER_LAYER, STEPS_AT_ONCE};

impl RecurrentProblem {
    /// Bytes of a piece of so many elements.
    fn piece(&self, elements: i64) -> i64 {
        up(elements * self.size(), 32)
    }

    /// Elements of the states of all sequences, for so many states.
    fn batch_states(&self, states: i64) -> i64 {
        states * self.batch * self.hidden
    }

    /// Bytes that both directions and a projection add to either pass, for `rows` rows.
    fn packed_extras(&self, rows: i64) -> i64 {
        if self.projection > 0 { self.piece(rows * self.hidden * self.directions) } else { 0 }
    }

    fn packed_forward(&self, rows: i64) -> i64 {
        let RecurrentProblem { layers, directions, hidden, .. } = *self;
        let is_both = directions == 2;
        let at_once = if is_both { rows } else { rows.min(STEPS_AT_ONCE * self.batch) };
        let mut bytes = self.piece(self.gates() * at_once * hidden * directions);
        let of_a_layer: &[i64] = match self.kind {
            Kind::Lstm => &[4, 2],
            Kind::Gru => &[3],
            Kind::Tanh | Kind::Relu => &[1],
        };
        for states in of_a_layer {
            bytes += self.piece(self.batch_states(states * layers * directions));
        }
        if is_both {
            bytes += self.piece(4 * rows * hidden) + self.piece(self.batch_states(4 * layers));
        } else if self.has_dropout && layers > 1 {
            bytes += self.piece(rows * hidden);
        }
        bytes + self.packed_extras(rows)
    }

    fn packed_backward(&self, rows: i64) -> i64 {
        let RecurrentProblem { layers, directions, hidden, inputs, .. } = *self;
        let wider = inputs.max(hidden);
        let is_lstm = self.kind == Kind::Lstm;
        let mut bytes = self.piece(rows * wider * directions * directions);
        bytes += self.piece(self.batch_states(if is_lstm { 3 } else { 1 } * layers * directions));
        if directions == 2 {
            bytes += self.piece(rows * hidden * if layers > 1 { 4 } else { 2 });
            bytes += if is_lstm {
                layers * self.piece(self.batch_states(4))
            } else {
                self.piece(self.batch_states(4 * layers))
            };
        } else {
            // Gradients between layers live only while their steps are in flight.
            let together = self.steps_together();
            let in_flight = self.batch_states(together * layers + together.max(8));
            bytes += self.piece(if layers > 1 { (rows * hidden).min(in_flight) } else { rows * hidden });
        }
        bytes + self.packed_extras(rows)
    }

    /// Bytes of the workspace of either pass.
    pub(super) fn packed_workspace(&self, rows: i64) -> u64 {
        let forward = self.packed_forward(rows);
        let steps = if self.is_training { forward.max(self.packed_backward(rows)) } else { forward };
        let fixed = PER_LAYER * self.layers * self.directions + ALWAYS;
        (fixed + self.piece(self.matrices()) + steps).unsigned_abs()
    }

    /// Bytes of the reserve space. Dropout's masks cover the padding too.
    pub(super) fn packed_reserve(&self, rows: i64) -> u64 {
        let RecurrentProblem { layers, directions, .. } = *self;
        let width = rows * self.hidden * directions;
        let mut bytes = match self.kind {
            Kind::Lstm => self.piece(4 * layers * width) + self.piece(layers * width),
            Kind::Gru => self.piece(6 * layers * width),
            Kind::Tanh | Kind::Relu => self.piece(layers * width),
        };
        let projected =
            if self.projection > 0 { layers * (self.hidden + self.projection) * rows * directions } else { 0 };
        bytes += self.piece((layers - 1) * width + projected);
        if self.has_dropout {
            let bits = self.length * self.batch * self.outputs() * directions;
            bytes += (layers - 1) * directions * up((bits + 7) / 8, 32);
        }
        (bytes + ALWAYS).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecurrentPass;
    use super::*;
    use vramfit_graph::dtype::Dtype;

    const SMALL: RecurrentProblem = RecurrentProblem {
        kind: Kind::Lstm,
        dtype: Dtype::Float32,
        is_training: true,
        has_dropout: false,
        layers: 1,
        directions: 1,
        length: 7,
        batch: 3,
        rows: Some(15),
        inputs: 17,
        hidden: 19,
        projection: 0,
    };

    fn both(problem: RecurrentProblem) -> (u64, u64) {
        (problem.workspace(RecurrentPass::Forward), problem.reserve())
    }

    #[test]
    fn packed_layers_ask_for_what_was_recorded_on_an_h200() {
        let half = RecurrentProblem { dtype: Dtype::Bfloat16, ..SMALL };
        assert_eq!(both(SMALL), (8_405_792, 5984));
        assert_eq!(both(half), (8_397_376, 3136));
        assert_eq!(both(RecurrentProblem { kind: Kind::Gru, ..SMALL }), (8_401_216, 7104));
        assert_eq!(both(RecurrentProblem { kind: Kind::Tanh, ..SMALL }), (8_394_176, 1408));
    }

    #[test]
    fn packed_layers_in_both_directions_ask_for_what_was_recorded_on_an_h200() {
        let large = RecurrentProblem {
            layers: 2,
            directions: 2,
            length: 77,
            batch: 16,
            rows: Some(1202),
            inputs: 128,
            hidden: 256,
            ..SMALL
        };
        assert_eq!(both(large), (58_286_336, 27_078_912));
        assert_eq!(both(RecurrentProblem { kind: Kind::Gru, ..large }), (53_268_736, 32_002_304));
    }
}
