//! A recurrent layer as cuDNN sees it, and its reserve space.

use vramfit_graph::dtype::Dtype;

/// Which cell a recurrent layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `nn.LSTM`.
    Lstm,
    /// `nn.GRU`.
    Gru,
    /// `nn.RNN` with tanh.
    Tanh,
    /// `nn.RNN` with ReLU.
    Relu,
}

/// A call of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentProblem {
    /// The layer's cell.
    pub kind: Kind,
    /// Element type of inputs and weights.
    pub dtype: Dtype,
    /// Whether the call keeps a reserve space for a backward pass.
    pub is_training: bool,
    /// Whether the layer drops out between stacked layers.
    pub has_dropout: bool,
    /// Stacked layers.
    pub layers: i64,
    /// 2 for a bidirectional layer, else 1.
    pub directions: i64,
    /// Sequence length.
    pub length: i64,
    /// Batch size.
    pub batch: i64,
    /// Rows of a packed batch; `None` where all sequences have the full length.
    pub rows: Option<i64>,
    /// Features of an input.
    pub inputs: i64,
    /// Features of a hidden state.
    pub hidden: i64,
    /// Width of an LSTM's projected states, 0 without a projection.
    pub projection: i64,
}

impl RecurrentProblem {
    /// Gates of a cell: matrices per layer and direction.
    pub fn gates(&self) -> i64 {
        match self.kind {
            Kind::Lstm => 4,
            Kind::Gru => 3,
            Kind::Tanh | Kind::Relu => 1,
        }
    }

    /// Features of a layer's result in one direction.
    pub fn outputs(&self) -> i64 {
        if self.projection > 0 { self.projection } else { self.hidden }
    }

    /// Elements of all matrices.
    pub fn matrices(&self) -> i64 {
        let layer = |inputs: i64| {
            let gates = self.gates() * self.hidden * (inputs + self.outputs());
            (gates + self.projection * self.hidden) * self.directions
        };
        layer(self.inputs) + (self.layers - 1) * layer(self.outputs() * self.directions)
    }

    /// Bytes of an element.
    pub fn size(&self) -> i64 {
        self.dtype.bytes().cast_signed()
    }

    /// Bytes of a hidden state for every step of the sequence.
    fn states(&self) -> i64 {
        self.length * self.batch * self.hidden * self.size()
    }

    /// Bytes of the reserve space that training keeps for the backward pass: gates and states of every layer except the last one's result,
    /// and dropout's bit masks.
    pub fn reserve(&self) -> u64 {
        if let Some(rows) = self.rows {
            return self.packed_reserve(rows);
        }
        let kept = match self.kind {
            Kind::Lstm => 6,
            Kind::Gru => 7,
            Kind::Tanh | Kind::Relu => 2,
        };
        let mut body = (kept * self.layers - 1) * self.directions * self.states();
        if self.projection > 0 {
            let wide = self.layers * self.hidden + self.layers * self.projection;
            body += wide * self.length * self.batch * self.directions * self.size();
        }
        let bits = self.length * self.batch * self.hidden * self.directions * self.directions;
        let masks = if self.has_dropout { (self.layers - 1) * up((bits + 7) / 8, 32) } else { 0 };
        (up(body, 32) + masks + 256).unsigned_abs()
    }
}

/// Rounds up to a multiple.
pub(super) fn up(number: i64, multiple: i64) -> i64 {
    (number + multiple - 1) / multiple * multiple
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_LAYERS: RecurrentProblem = RecurrentProblem {
        kind: Kind::Lstm,
        dtype: Dtype::Float32,
        is_training: true,
        has_dropout: true,
        layers: 2,
        directions: 1,
        length: 35,
        batch: 20,
        rows: None,
        inputs: 200,
        hidden: 300,
        projection: 0,
    };

    #[test]
    fn the_reserve_holds_gates_and_states_of_every_layer_and_dropouts_bits() {
        assert_eq!(TWO_LAYERS.reserve(), 9_266_528);
        assert_eq!(RecurrentProblem { has_dropout: false, ..TWO_LAYERS }.reserve(), 9_240_256);
        let gru = RecurrentProblem { kind: Kind::Gru, has_dropout: false, ..TWO_LAYERS };
        assert_eq!(gru.reserve(), 10_920_256);
    }

    #[test]
    fn a_projected_layer_reserves_its_projected_states_too() {
        let projected = RecurrentProblem {
            dtype: Dtype::Bfloat16,
            has_dropout: false,
            layers: 1,
            length: 64,
            inputs: 100,
            hidden: 320,
            projection: 160,
            ..TWO_LAYERS
        };
        assert_eq!(projected.reserve(), 5_325_056);
        assert_eq!(
            RecurrentProblem { layers: 4, batch: 4, length: 512, hidden: 256, projection: 128, ..projected }.reserve(),
            30_408_960
        );
    }
}
