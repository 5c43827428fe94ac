//! What peft's layers run beside a linear layer: `result + lora_B(lora_A(dropout(x))) * scaling`.

use std::collections::BTreeMap;

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Cast, Size, TensorId};

use crate::Lora;
use crate::writer::Writer;

/// The type of peft's adapters, whatever the model's is.
const ADAPTER: Dtype = Dtype::Float32;
const MILLION: f64 = 1e6;

/// Which of peft's layers it is: they differ in what they cast and hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// A plain linear layer.
    Plain,
    /// One with a weight of four bits.
    FourBit,
    /// One with a weight of eight bits.
    EightBit,
}

/// An adapter and where it is called.
pub(crate) struct Adapter<'a> {
    pub lora: &'a Lora,
    /// The layer's input.
    pub input: TensorId,
    /// What the layer itself returns.
    pub base: TensorId,
    /// What both return together.
    pub result: TensorId,
    pub weights: (TensorId, TensorId),
    pub kind: Base,
    /// The type of autocast, where it is on.
    pub autocast: Option<Dtype>,
    pub is_training: bool,
}

impl Adapter<'_> {
    /// Adds its calls. `cast_weights` are the adapters that autocast has cast already.
    pub fn write(&self, writer: &mut Writer<'_>, cast_weights: &mut BTreeMap<TensorId, TensorId>) {
        let base = match self.kind {
            Base::Plain | Base::EightBit => self.base,
            Base::FourBit => {
                let copy = writer.make(writer.dtype(self.base), writer.shape(self.base));
                let arguments = vec![("self", Argument::Tensor(self.base)), ("memory_format", Argument::None)];
                writer.call("aten.clone.default", arguments, &[copy]);
                writer.free(&[self.base]);
                copy
            }
        };
        let is_converted = self.kind == Base::Plain || self.autocast.is_none();
        let is_cast = is_converted && writer.dtype(self.input) != ADAPTER;
        let input = if is_cast { writer.cast(self.input, ADAPTER, Cast::No) } else { self.input };
        let scaled = self.scaled(writer, input, cast_weights);
        let expected = writer.dtype(self.result);
        if self.kind == Base::Plain {
            let promoted = promoted(writer.dtype(base), writer.dtype(scaled));
            let sum = if promoted == expected { self.result } else { writer.make(promoted, writer.shape(self.result)) };
            add(writer, base, scaled, sum);
            writer.free(&[scaled, base]);
            if sum != self.result {
                writer.call("aten.to.dtype", crate::writer::cast_arguments(sum, expected, false), &[self.result]);
                writer.free(&[sum]);
            }
            if is_cast {
                writer.free(&[input]);
            }
            return;
        }
        let output = if is_converted && writer.dtype(scaled) != expected {
            let output = writer.cast(scaled, expected, Cast::No);
            writer.free(&[scaled]);
            output
        } else {
            scaled
        };
        add(writer, base, output, self.result);
        let locals = [Some(base), is_cast.then_some(input), Some(output)];
        writer.free(&locals.into_iter().flatten().collect::<Vec<_>>());
    }

    /// `lora_B(lora_A(dropout(x))) * scaling`.
    fn scaled(
        &self,
        writer: &mut Writer<'_>,
        input: TensorId,
        cast_weights: &mut BTreeMap<TensorId, TensorId>,
    ) -> TensorId {
        let mut dropped = input;
        if self.lora.dropout > 0 && self.is_training {
            dropped = writer.make(writer.dtype(input), writer.shape(input));
            let arguments = vec![
                ("input", Argument::Tensor(input)),
                ("p", Argument::Float(f64::from(self.lora.dropout) / MILLION)),
                ("train", Argument::Bool(true)),
            ];
            writer.call("aten.dropout.default", arguments, &[dropped]);
        }
        let first = self.product(writer, dropped, self.weights.0, cast_weights);
        if dropped != input {
            writer.free(&[dropped]);
        }
        let second = self.product(writer, first, self.weights.1, cast_weights);
        writer.free(&[first]);
        let scaled = writer.make(writer.dtype(second), writer.shape(second));
        let arguments = vec![("self", Argument::Tensor(second)), ("other", Argument::Float(1.0))];
        writer.call("aten.mul.Tensor", arguments, &[scaled]);
        writer.free(&[second]);
        scaled
    }

    /// A linear layer without a bias.
    fn product(
        &self,
        writer: &mut Writer<'_>,
        input: TensorId,
        weight: TensorId,
        cast_weights: &mut BTreeMap<TensorId, TensorId>,
    ) -> TensorId {
        let (mut given, mut used, mut cast) = (input, weight, None);
        if let Some(dtype) = self.autocast {
            used = writer.cast_of(weight, dtype, cast_weights);
            if writer.dtype(input) != dtype {
                given = writer.cast(input, dtype, Cast::ForCall);
                cast = Some(given);
            }
        }
        let mut shape: Vec<Size> = writer.shape(given);
        shape.pop();
        shape.extend(writer.shape(weight).first());
        let made = writer.make(writer.dtype(given), shape);
        let arguments =
            vec![("input", Argument::Tensor(given)), ("weight", Argument::Tensor(used)), ("bias", Argument::None)];
        writer.call("aten.linear.default", arguments, &[made]);
        if let Some(cast) = cast {
            writer.free(&[cast]);
        }
        made
    }
}

fn add(writer: &mut Writer<'_>, first: TensorId, second: TensorId, sum: TensorId) {
    let arguments =
        vec![("self", Argument::Tensor(first)), ("other", Argument::Tensor(second)), ("alpha", crate::writer::int(1))];
    writer.call("aten.add.Tensor", arguments, &[sum]);
}

/// The wider of two types, as sums have it.
fn promoted(first: Dtype, second: Dtype) -> Dtype {
    if first == second || first == Dtype::Float32 { first } else { Dtype::Float32 }
}
