//! Recurrent layers through cuDNN: weights in one piece, a reserve that training keeps, a workspace a pass.

mod cell;
mod layer;
mod packed;

pub use layer::is_flattened;

use vramfit_cudnn::recurrent::Kind;

use self::layer::{recurrent, recurrent_packed};
use super::facts::*;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Cudnn,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Results,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.lstm.input"],
        Facts {
            memory: Modelled(|context, call| recurrent(context, call, Kind::Lstm)),
            time: Time { work: Work::Recurrent("recurrent_LSTM"), dispatch: "lstm" },
            evaluation: Evaluation::Unsets("train"),
            samples: Samples::Steps { batch_first: 8 },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.lstm.data"],
        Facts {
            memory: Modelled(|context, call| recurrent_packed(context, call, Kind::Lstm)),
            time: Time { work: Work::Recurrent("recurrent_LSTM"), dispatch: "lstm" },
            evaluation: Evaluation::Unsets("train"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.gru.input"],
        Facts {
            memory: Modelled(|context, call| recurrent(context, call, Kind::Gru)),
            time: Time { work: Work::Recurrent("recurrent_GRU"), dispatch: "gru" },
            evaluation: Evaluation::Unsets("train"),
            samples: Samples::Steps { batch_first: 8 },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.gru.data"],
        Facts {
            memory: Modelled(|context, call| recurrent_packed(context, call, Kind::Gru)),
            time: Time { work: Work::Recurrent("recurrent_GRU"), dispatch: "gru" },
            evaluation: Evaluation::Unsets("train"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.rnn_tanh.input"],
        Facts {
            memory: Modelled(|context, call| recurrent(context, call, Kind::Tanh)),
            time: Time { work: Work::Recurrent("recurrent_RNN"), dispatch: "lstm" },
            evaluation: Evaluation::Unsets("train"),
            samples: Samples::Steps { batch_first: 8 },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.rnn_tanh.data"],
        Facts {
            memory: Modelled(|context, call| recurrent_packed(context, call, Kind::Tanh)),
            time: Time { work: Work::Recurrent("recurrent_RNN"), dispatch: "lstm" },
            evaluation: Evaluation::Unsets("train"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.rnn_relu.data"],
        Facts {
            memory: Modelled(|context, call| recurrent_packed(context, call, Kind::Relu)),
            time: Time { work: Work::Recurrent("recurrent_RNN"), dispatch: "lstm" },
            evaluation: Evaluation::Unsets("train"),
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.rnn_relu.input"],
        Facts {
            memory: Modelled(|context, call| recurrent(context, call, Kind::Relu)),
            time: Time { work: Work::Recurrent("recurrent_RNN"), dispatch: "lstm" },
            evaluation: Evaluation::Unsets("train"),
            samples: Samples::Steps { batch_first: 8 },
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.gru_cell.default"],
        Facts {
            memory: Modelled(cell::gru_cell),
            library: Library::Own,
            keeps: Keeps::Nothing,
            autocast: Autocast::Lower,
            samples: Samples::First,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.lstm_cell.default"],
        Facts {
            memory: Modelled(cell::lstm_cell),
            library: Library::Own,
            keeps: Keeps::Nothing,
            autocast: Autocast::Lower,
            samples: Samples::First,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.rnn_relu_cell.default", "aten.rnn_tanh_cell.default"],
        Facts {
            memory: Modelled(cell::simple_cell),
            library: Library::Own,
            keeps: Keeps::Nothing,
            autocast: Autocast::Lower,
            samples: Samples::First,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._pack_padded_sequence.default"],
        Facts { memory: Modelled(packed::pack), library: Library::Own, keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(
        &["aten._pad_packed_sequence.default"],
        Facts { memory: Modelled(packed::pad), library: Library::Own, keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(&["aten._cudnn_rnn.default"], Facts { keeps: Keeps::Nothing, ..FAMILY }),
    Operator::new(
        &["aten._thnn_fused_gru_cell.default", "aten._thnn_fused_lstm_cell.default"],
        Facts { library: Library::Own, keeps: Keeps::Nothing, autocast: Autocast::Lower, ..FAMILY },
    ),
];
