//! Scaled dot product attention: four CUDA backends, chosen as PyTorch chooses them.
//!
//! [`select`] says which backend runs; each backend has a file with what it allocates forward and backward and what it
//! saves. [`steps`] are the small operators that attention itself calls around a backend, or instead of one.

mod cudnn;
mod efficient;
mod flash;
mod flops;
mod inputs;
mod mask;
mod math;
mod native;
mod scaled;
mod select;
mod steps;
mod written;

pub use written::{WrittenAttention, WrittenMask, find_written_attention};

use super::facts::*;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Nothing,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.scaled_dot_product_attention.default"],
        Facts {
            memory: Modelled(scaled::attention),
            launch: Launch::Kernel,
            flops: FlopFormula::Counted(flops::attention),
            time: Time { work: Work::Attention, dispatch: "attention" },
            keeps: Keeps::Results,
            autocast: Autocast::Lower,
            evaluation: Evaluation::Zeroes("dropout_p"),
            samples: Samples::Attends,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._native_multi_head_attention.default"],
        Facts { memory: Modelled(native::multi_head_attention), ..FAMILY },
    ),
    Operator::new(
        &["aten._transformer_encoder_layer_fwd.default"],
        Facts { memory: Modelled(native::encoder_layer), ..FAMILY },
    ),
];
