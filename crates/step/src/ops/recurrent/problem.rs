//! A recurrent layer as cuDNN sees it, and the reserve it keeps.

use vramfit_graph::dtype::Dtype;

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
    /// Matrices of a layer and direction.
    pub(super) fn gates(&self) -> i64 {
        match self.kind {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Tanh | Kind::Relu => 1,
        }
    }

    /// Elements of all matrices.
    pub(super) fn matrices(&self) -> i64 {
        let layer = |inputs: i64| self.gates() * self.hidden * (inputs + self.hidden) * self.directions;
        layer(self.inputs) + (self.layers - 1) * layer(self.hidden * self.directions)
    }

    /// Bytes of an element.
    pub(super) fn size(&self) -> i64 {
        self.dtype.bytes().cast_signed()
    }

    /// Bytes of one result of every step.
    fn states(&self) -> i64 {
        self.length * self.batch * self.hidden * self.size()
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
}

/// The next multiple.
pub(super) fn up(number: i64, multiple: i64) -> i64 {
    (number + multiple - 1) / multiple * multiple
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
}
