//! What bitsandbytes runs instead of a linear layer.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Call, Cast, RecordedBackward, Size, Step, TensorId};

use crate::Quantize;
use crate::layers::Layer;
use crate::numbering::{BLOCK, LayerTensors, NESTED_BLOCK};
use crate::writer::{Writer, cast_arguments, int, sizes};

/// From this size on, inputs of eight-bit products are multiplied apart; transformers' default.
const THRESHOLD: f64 = 6.0;

/// A quantised layer that is called.
pub(crate) struct QuantizedCall<'a> {
    pub layer: &'a Layer,
    pub tensors: &'a LayerTensors,
    pub input: TensorId,
    pub bias: Option<TensorId>,
    /// What the layer returns.
    pub result: TensorId,
    /// The type of the weight before it was quantised.
    pub source: Dtype,
}

impl QuantizedCall<'_> {
    /// Adds its calls. Returns the backward of its function, where gradients need one.
    pub fn write(&self, writer: &mut Writer<'_>, quantize: Quantize) -> Option<RecordedBackward> {
        match quantize {
            Quantize::Nf4 { compute } => self.four_bits(writer, compute),
            Quantize::Int8 => self.eight_bits(writer),
        }
    }

    fn function(&self, writer: &mut Writer<'_>, name: &str, arguments: &[TensorId]) {
        let name = format!("bitsandbytes.autograd._functions.{name}");
        writer.steps.push(Step::Function { name, arguments: arguments.to_vec() });
    }

    fn four_bits(&self, writer: &mut Writer<'_>, compute: Dtype) -> Option<RecordedBackward> {
        let needs_grad = writer.has_grad && writer.requires_grad(self.input);
        let is_cast = writer.dtype(self.input) != compute;
        let input = if is_cast { writer.cast(self.input, compute, Cast::No) } else { self.input };
        let packed = self.flattened(writer, self.tensors.weight);
        let output = if is_cast { writer.make(compute, writer.shape(self.result)) } else { self.result };
        let arguments: Vec<TensorId> = [Some(input), Some(packed), self.bias].into_iter().flatten().collect();
        let mut backward = None;
        if needs_grad {
            self.function(writer, "MatMul4Bit", &arguments);
            writer.has_grad = false;
            let again = self.flattened(writer, packed);
            self.multiply(writer, input, again, output);
            writer.has_grad = true;
            let end = writer.steps.len();
            writer.steps.push(Step::EndFunction { results: vec![output], saved: vec![again] });
            writer.rows[output.0 as usize].requires_grad = true;
            writer.rows[output.0 as usize].is_leaf = false;
            writer.free(&[again, packed]);
            backward = Some(self.four_bits_backward(writer, end, arguments, input, output, again));
        } else {
            self.multiply(writer, input, packed, output);
            writer.free(&[packed]);
        }
        if is_cast {
            let dtype = writer.dtype(self.input);
            writer.call("aten.to.dtype", cast_arguments(output, dtype, false), &[self.result]);
            writer.free(&[output, input]);
        }
        backward
    }

    /// `B.view(-1, 1)`.
    fn flattened(&self, writer: &mut Writer<'_>, weight: TensorId) -> TensorId {
        let made = writer.view(weight, writer.shape(weight));
        let arguments = vec![("self", Argument::Tensor(weight)), ("size", sizes(&[Size::Known(-1), Size::Known(1)]))];
        writer.call("aten.view.default", arguments, &[made]);
        made
    }

    fn multiply(&self, writer: &mut Writer<'_>, input: TensorId, packed: TensorId, output: TensorId) {
        let [_, offset, outer_scales, scales, outer_code] = self.tensors.states[..] else { return };
        let tensor = Argument::Tensor;
        let arguments = vec![
            ("A", tensor(input)),
            ("B", tensor(packed)),
            ("shapeB", self.weight_shape()),
            ("absmax", tensor(outer_scales)),
            ("blocksize", int(BLOCK)),
            ("quant_type", Argument::Text("nf4".to_owned())),
            ("bias", self.bias.map_or(Argument::None, tensor)),
            ("absmax_8bit", tensor(scales)),
            ("absmax_code", tensor(outer_code)),
            ("absmax_offset", tensor(offset)),
        ];
        writer.call("bitsandbytes.gemm_4bit.default", arguments, &[output]);
    }

    fn weight_shape(&self) -> Argument {
        sizes(&[Size::Known(self.layer.outputs), Size::Known(self.layer.inputs)])
    }

    fn four_bits_backward(
        &self,
        writer: &mut Writer<'_>,
        end: usize,
        arguments: Vec<TensorId>,
        input: TensorId,
        output: TensorId,
        packed: TensorId,
    ) -> RecordedBackward {
        let mut steps = Steps { writer, made: Vec::new() };
        let gradient = steps.writer.make(steps.writer.dtype(output), steps.writer.shape(output));
        let mut results = vec![None; arguments.len()];
        if let [_, offset, outer_scales, scales, outer_code] = self.tensors.states[..] {
            let tensor = Argument::Tensor;
            let unpacked = steps.make(Dtype::Float32, steps.writer.shape(scales));
            let with = vec![
                ("A", tensor(scales)),
                ("absmax", tensor(outer_scales)),
                ("code", tensor(outer_code)),
                ("blocksize", int(NESTED_BLOCK)),
                ("dtype", Argument::Dtype(Dtype::Float32)),
            ];
            steps.call("bitsandbytes.dequantize_blockwise.default", with, unpacked);
            let with = vec![("self", tensor(unpacked)), ("other", tensor(offset)), ("alpha", int(1))];
            steps.call("aten.add_.Tensor", with, unpacked);
            let shape = vec![Size::Known(self.layer.outputs), Size::Known(self.layer.inputs)];
            let mut weight = steps.make(self.source, shape.clone());
            let with = vec![
                ("A", tensor(packed)),
                ("absmax", tensor(unpacked)),
                ("blocksize", int(BLOCK)),
                ("quant_type", Argument::Text("nf4".to_owned())),
                ("shape", self.weight_shape()),
                ("dtype", Argument::Dtype(self.source)),
            ];
            steps.call("bitsandbytes.dequantize_4bit.default", with, weight);
            steps.free(&[unpacked]);
            let wanted = steps.writer.dtype(gradient);
            if wanted != self.source {
                let cast = steps.make(wanted, shape);
                steps.call("aten.to.dtype", cast_arguments(weight, wanted, false), cast);
                steps.free(&[weight]);
                weight = cast;
            }
            let made = steps.make(wanted, steps.writer.shape(input));
            steps.call("aten.matmul.default", vec![("self", tensor(gradient)), ("other", tensor(weight))], made);
            steps.free(&[weight]);
            results[0] = Some(made);
        }
        let steps = steps.made;
        RecordedBackward {
            end,
            arguments: Some(arguments),
            kept: vec![packed],
            gradients: vec![Some(gradient)],
            results,
            steps,
        }
    }

    fn eight_bits(&self, writer: &mut Writer<'_>) -> Option<RecordedBackward> {
        let tensor = Argument::Tensor;
        let (dtype, shape) = (writer.dtype(self.input), writer.shape(self.input));
        let needs_grad = writer.has_grad && writer.requires_grad(self.input);
        let arguments: Vec<TensorId> =
            [Some(self.input), Some(self.tensors.weight), self.bias].into_iter().flatten().collect();
        self.function(writer, "MatMul8bitLt", &arguments);
        let before = std::mem::replace(&mut writer.has_grad, false);
        let (inputs, outputs) = (Size::Known(self.layer.inputs), Size::Known(self.layer.outputs));
        let samples = writer.product(&shape[..shape.len() - 1]);
        let is_flattened = shape.len() == 3;
        let flat = if is_flattened { self.reshaped(writer, self.input, &[samples, inputs]) } else { self.input };
        let is_cast = dtype != Dtype::Float16;
        let half = if is_cast { writer.cast(flat, Dtype::Float16, Cast::No) } else { flat };
        let quantized = writer.make(Dtype::Int8, writer.shape(flat));
        let scales = writer.make(Dtype::Float32, vec![samples]);
        let columns = writer.make(Dtype::Int64, vec![Size::Known(0)]);
        let with = vec![("A", tensor(half)), ("threshold", Argument::Float(THRESHOLD))];
        writer.call("bitsandbytes.int8_vectorwise_quant.default", with, &[quantized, scales, columns]);
        if is_cast {
            writer.free(&[half]);
        }
        let mut flat_shape = writer.shape(flat);
        flat_shape.pop();
        flat_shape.push(outputs);
        let product = if is_flattened { writer.make(dtype, flat_shape) } else { self.result };
        let outliers = writer.make(dtype, vec![Size::Known(0)]);
        let row_scales = self.tensors.states.first().copied().unwrap_or(self.tensors.weight);
        let with = vec![
            ("A", tensor(flat)),
            ("CA", tensor(quantized)),
            ("CB", tensor(self.tensors.weight)),
            ("SCA", tensor(scales)),
            ("SCB", tensor(row_scales)),
            ("outlier_cols", tensor(columns)),
            ("bias", self.bias.map_or(Argument::None, tensor)),
        ];
        writer.call("bitsandbytes.int8_mixed_scaled_mm.default", with, &[product, outliers]);
        if is_flattened {
            let with = vec![("self", tensor(product)), ("shape", sizes(&writer.shape(self.result)))];
            // The result shares the product's memory.
            writer.rows[self.result.0 as usize].storage = writer.rows[product.0 as usize].storage;
            writer.rows[self.result.0 as usize].is_view = true;
            writer.call("aten.reshape.default", with, &[self.result]);
            writer.free(&[quantized, scales, product]);
        } else {
            writer.free(&[quantized, scales]);
        }
        writer.has_grad = before;
        let end = writer.steps.len();
        let kept = if needs_grad { vec![outliers, flat, columns] } else { Vec::new() };
        writer.steps.push(Step::EndFunction { results: vec![self.result], saved: kept.clone() });
        let row = &mut writer.rows[self.result.0 as usize];
        (row.requires_grad, row.is_leaf) = (needs_grad, !needs_grad);
        let left = [is_flattened.then_some(flat), Some(outliers), Some(columns)];
        writer.free(&left.into_iter().flatten().collect::<Vec<_>>());
        needs_grad.then(|| self.eight_bits_backward(writer, end, arguments, kept, row_scales))
    }

    fn reshaped(&self, writer: &mut Writer<'_>, source: TensorId, shape: &[Size]) -> TensorId {
        let made = writer.view(source, shape.to_vec());
        let arguments = vec![("self", Argument::Tensor(source)), ("shape", sizes(shape))];
        writer.call("aten.reshape.default", arguments, &[made]);
        made
    }

    fn eight_bits_backward(
        &self,
        writer: &mut Writer<'_>,
        end: usize,
        arguments: Vec<TensorId>,
        kept: Vec<TensorId>,
        scales: TensorId,
    ) -> RecordedBackward {
        let tensor = Argument::Tensor;
        let (dtype, shape) = (writer.dtype(self.input), writer.shape(self.input));
        let samples = writer.product(&shape[..shape.len() - 1]);
        let (inputs, outputs) = (Size::Known(self.layer.inputs), Size::Known(self.layer.outputs));
        let is_flattened = shape.len() == 3;
        let gradient = writer.make(dtype, writer.shape(self.result));
        let mut steps = Steps { writer, made: Vec::new() };
        let flat = if is_flattened {
            let flat = steps.writer.view(gradient, vec![samples, outputs]);
            let with = vec![("self", tensor(gradient)), ("shape", sizes(&[samples, outputs]))];
            steps.call("aten.reshape.default", with, flat);
            flat
        } else {
            gradient
        };
        let weight = steps.make(dtype, vec![outputs, inputs]);
        steps.call("aten.to.dtype", cast_arguments(self.tensors.weight, dtype, true), weight);
        let column = steps.writer.view(scales, vec![outputs, Size::Known(1)]);
        steps.call("aten.unsqueeze.default", vec![("self", tensor(scales)), ("dim", int(1))], column);
        let factor = steps.make(Dtype::Float32, vec![outputs, Size::Known(1)]);
        steps.call("aten.mul.Tensor", vec![("self", tensor(column)), ("other", Argument::Float(1.0 / 127.0))], factor);
        steps.free(&[column]);
        steps.call("aten.mul_.Tensor", vec![("self", tensor(weight)), ("other", tensor(factor))], weight);
        steps.free(&[factor]);
        let product = steps.make(dtype, vec![samples, inputs]);
        steps.call("aten.matmul.default", vec![("self", tensor(flat)), ("other", tensor(weight))], product);
        let result = steps.writer.view(product, shape.clone());
        steps.call("aten.view.default", vec![("self", tensor(product)), ("size", sizes(&shape))], result);
        let left = [Some(product), is_flattened.then_some(flat), Some(weight)];
        steps.free(&left.into_iter().flatten().collect::<Vec<_>>());
        let steps = steps.made;
        let mut results = vec![None; arguments.len()];
        results[0] = Some(result);
        RecordedBackward { end, arguments: Some(arguments), kept, gradients: vec![Some(gradient)], results, steps }
    }
}

/// Steps of a backward, which are not among those of the pass.
struct Steps<'w, 'm> {
    writer: &'w mut Writer<'m>,
    made: Vec<Step>,
}

impl Steps<'_, '_> {
    fn make(&mut self, dtype: Dtype, shape: Vec<Size>) -> TensorId {
        self.writer.make(dtype, shape)
    }

    fn call(&mut self, name: &str, arguments: Vec<(&str, Argument)>, result: TensorId) {
        let call: Call = self.writer.made_call(name, arguments, &[result], Cast::No);
        self.made.push(Step::Call(call));
    }

    fn free(&mut self, tensors: &[TensorId]) {
        self.made.push(Step::Free(tensors.to_vec()));
    }
}
