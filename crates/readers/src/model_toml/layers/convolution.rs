//! Convolutions and transposed convolutions in one to three dimensions.

use super::super::arguments::{Given, Made, boolean, int, ints, maybe};
use super::super::call::{Arguments, LayerCall, Value};
use super::super::dimension::Dimension;
use super::super::error::{Fault, SketchError};
use super::super::node::{Node, Run};
use super::super::tensor::Tensor;
use vramfit_graph::model::Argument;

pub(super) const NAMES: [&str; 6] =
    ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"];

/// What both kinds have.
#[derive(Clone)]
struct Convolution {
    dimensions: usize,
    inputs: i64,
    outputs: i64,
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
    /// The word that the padding was given as, which takes another way through PyTorch.
    padding_word: Option<String>,
    output_padding: Vec<i64>,
}

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    let dimensions = match call.class.chars().rev().nth(1)? {
        '1' => 1,
        '2' => 2,
        _ => 3,
    };
    let is_transposed = call.class.starts_with("ConvTranspose");
    Some(node(call, location, dimensions, is_transposed))
}

fn node(call: &LayerCall, location: &str, dimensions: usize, is_transposed: bool) -> Result<Node, SketchError> {
    let names: &[&str] = if is_transposed {
        &[
            "in_channels",
            "out_channels",
            "kernel_size",
            "stride",
            "padding",
            "output_padding",
            "groups",
            "bias",
            "dilation",
        ]
    } else {
        &["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"]
    };
    let arguments = Arguments::new(call, location, names)?;
    let each = |name: &str, least: i64| arguments.each(name, dimensions, least);
    let kernel = each("kernel_size", 1)?.ok_or_else(|| arguments.unfit("kernel_size", "a whole number from 1 on"))?;
    let ones = vec![1; dimensions];
    let (stride, dilation) = (each("stride", 1)?.unwrap_or_else(|| ones.clone()), each("dilation", 1)?.unwrap_or(ones));
    let padding_word = match arguments.find("padding") {
        Some(Value::Text(word)) if !is_transposed => Some(word.clone()),
        _ => None,
    };
    let padding = match &padding_word {
        Some(_) => named_padding(&arguments, &kernel, &stride, &dilation)?,
        None => each("padding", 0)?.unwrap_or_else(|| vec![0; dimensions]),
    };
    let convolution = Convolution {
        dimensions,
        inputs: arguments.count("in_channels")?,
        outputs: arguments.count("out_channels")?,
        kernel,
        stride,
        padding,
        dilation,
        groups: arguments.count_or("groups", 1)?,
        padding_word,
        output_padding: each("output_padding", 0)?.unwrap_or_else(|| vec![0; dimensions]),
    };
    let (inputs, outputs, groups) = (convolution.inputs, convolution.outputs, convolution.groups);
    if inputs % groups != 0 || outputs % groups != 0 {
        return Err(arguments.unfit("groups", "a divisor of in_channels and out_channels"));
    }
    let bias = arguments.bool_or("bias", true)?;
    let sides = if is_transposed { [inputs, outputs / groups] } else { [outputs, inputs / groups] };
    let shape = [&sides[..], &convolution.kernel].concat();
    let node = Node::new(&call.class, move |run, input| {
        let channels = input.shape().get(1).and_then(Dimension::known);
        if input.shape().len() != convolution.dimensions + 2 || channels != Some(convolution.inputs) {
            let sizes = ["length", "height, width", "depth, height, width"][convolution.dimensions - 1];
            return Err(Fault::Needed(format!("[batch, {}, {sizes}] is needed", convolution.inputs)));
        }
        if is_transposed { transposed(&convolution, run, input) } else { forward(&convolution, run, input) }
    });
    Ok(node.with_parameter("weight", &shape).with_parameter_if(bias, "bias", &[outputs]))
}

fn named_padding(
    arguments: &Arguments<'_>,
    kernel: &[i64],
    stride: &[i64],
    dilation: &[i64],
) -> Result<Vec<i64>, SketchError> {
    match arguments.text_or("padding", "")?.as_str() {
        "valid" => Ok(vec![0; kernel.len()]),
        "same" if stride.iter().any(|step| *step != 1) => {
            Err(arguments.unfit("padding", "a number, for a stride over 1"))
        }
        "same" => {
            let total: Vec<i64> = kernel.iter().zip(dilation).map(|(size, step)| step * (size - 1)).collect();
            if total.iter().any(|total| total % 2 != 0) {
                return Err(arguments.unfit("padding", "a number: `same` is modelled for odd kernels"));
            }
            Ok(total.into_iter().map(|total| total / 2).collect())
        }
        _ => Err(arguments.unfit("padding", "a whole number, 'same' or 'valid'")),
    }
}

fn forward(convolution: &Convolution, run: &Run<'_>, input: &Tensor) -> Result<Tensor, Fault> {
    let Convolution { kernel, stride, padding, dilation, .. } = convolution;
    let mut shape = vec![input.shape()[0].clone(), convolution.outputs.into()];
    for (at, size) in input.shape()[2..].iter().enumerate() {
        let reach = dilation[at] * (kernel[at] - 1) + 1;
        let output = size.plus(2 * padding[at] - reach).over(stride[at]).plus(1);
        if output.known().is_some_and(|size| size < 1) {
            return Err(Fault::Needed(format!("which its kernel, reaching over {reach}, is too large for")));
        }
        shape.push(output);
    }
    let mut given = vec![Given::Tensor(input.clone()), maybe(run.parameter("weight")), maybe(run.parameter("bias"))];
    let operator = match &convolution.padding_word {
        None => {
            given.extend([ints(stride), ints(padding), ints(dilation)]);
            format!("aten.conv{}d.default", convolution.dimensions)
        }
        // Autocast has a rule for what is inside only.
        Some(_) if run.tape.lower().is_some() => {
            given.extend([ints(stride), ints(padding), ints(dilation)]);
            given.extend([boolean(false), ints(&vec![0; convolution.dimensions])]);
            "aten.convolution.default".to_owned()
        }
        Some(word) => {
            given.extend([ints(stride), Given::Plain(Argument::Text(word.clone())), ints(dilation)]);
            format!("aten.conv{}d.padding", convolution.dimensions)
        }
    };
    given.push(int(convolution.groups));
    Ok(run.one(&operator, given, Made::contiguous(shape)))
}

fn transposed(convolution: &Convolution, run: &Run<'_>, input: &Tensor) -> Result<Tensor, Fault> {
    let Convolution { kernel, stride, padding, dilation, output_padding, .. } = convolution;
    let mut shape = vec![input.shape()[0].clone(), convolution.outputs.into()];
    for (at, size) in input.shape()[2..].iter().enumerate() {
        let more = dilation[at] * (kernel[at] - 1) + output_padding[at] + 1 - 2 * padding[at];
        shape.push(size.plus(-1).times(&stride[at].into()).plus(more));
    }
    let given = vec![
        Given::Tensor(input.clone()),
        maybe(run.parameter("weight")),
        maybe(run.parameter("bias")),
        ints(stride),
        ints(padding),
        ints(output_padding),
        int(convolution.groups),
        ints(dilation),
    ];
    let operator = format!(
        "aten.conv_transpose{}d.{}",
        convolution.dimensions,
        ["default", "input", "input"][convolution.dimensions - 1]
    );
    Ok(run.one(&operator, given, Made::contiguous(shape)))
}
