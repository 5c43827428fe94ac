//! Pooling.

use super::super::arguments::{Given, Kind, Made, boolean, ints};
use super::super::call::{Arguments, LayerCall};
use super::super::dimension::Dimension;
use super::super::error::{Fault, SketchError};
use super::super::node::Node;
use super::super::tensor::Tensor;
use vramfit_graph::dtype::Dtype;

pub(super) const NAMES: [&str; 8] = [
    "MaxPool1d",
    "MaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    let dimensions = if call.class.ends_with("1d") { 1 } else { 2 };
    Some(match call.class.as_str() {
        class if class.starts_with("Adaptive") => adaptive(call, location, dimensions),
        class => pool(call, location, dimensions, class.starts_with("Max")),
    })
}

fn check_rank(input: &Tensor, dimensions: usize) -> Result<(), Fault> {
    let sizes = ["length", "height, width"][dimensions - 1];
    if input.shape().len() == dimensions + 2 {
        return Ok(());
    }
    Err(Fault::Needed(format!("[batch, channels, {sizes}] is needed")))
}

fn pool(call: &LayerCall, location: &str, dimensions: usize, is_max: bool) -> Result<Node, SketchError> {
    let names: &[&str] = if is_max {
        &["kernel_size", "stride", "padding", "dilation"]
    } else {
        &["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    };
    let arguments = Arguments::new(call, location, names)?;
    let each = |name: &str, least: i64| arguments.each(name, dimensions, least);
    let kernel = each("kernel_size", 1)?.ok_or_else(|| arguments.unfit("kernel_size", "a whole number from 1 on"))?;
    let stride = each("stride", 1)?.unwrap_or_else(|| kernel.clone());
    let padding = each("padding", 0)?.unwrap_or_else(|| vec![0; dimensions]);
    if padding.iter().zip(&kernel).any(|(padding, kernel)| *padding > kernel / 2) {
        return Err(arguments.unfit("padding", "at most half of kernel_size"));
    }
    let dilation = each("dilation", 1)?.unwrap_or_else(|| vec![1; dimensions]);
    if arguments.bool_or("ceil_mode", false)? {
        return Err(arguments.unfit("ceil_mode", "False; True is not modelled"));
    }
    let counts_padding = arguments.bool_or("count_include_pad", true)?;
    Ok(Node::new(&call.class, move |run, input| {
        check_rank(input, dimensions)?;
        let mut shape = input.shape()[..2].to_vec();
        for (at, size) in input.shape()[2..].iter().enumerate() {
            let reach = dilation[at] * (kernel[at] - 1) + 1;
            let output = size.plus(2 * padding[at] - reach).over(stride[at]).plus(1);
            if output.known().is_some_and(|size| size < 1) {
                return Err(Fault::Needed(format!("which a window of {reach} is too large for")));
            }
            shape.push(output);
        }
        let mut given = vec![Given::Tensor(input.clone()), ints(&kernel), ints(&stride), ints(&padding)];
        if is_max {
            given.extend([ints(&dilation), boolean(false)]);
        } else {
            given.extend([boolean(false), boolean(counts_padding)]);
        }
        let kind = if is_max { "max" } else { "avg" };
        Ok(run.one(&format!("aten.{kind}_pool{dimensions}d.default"), given, Made::contiguous(shape)))
    }))
}

fn adaptive(call: &LayerCall, location: &str, dimensions: usize) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["output_size"])?;
    let sizes = arguments.each("output_size", dimensions, 1)?;
    let sizes = sizes.ok_or_else(|| arguments.unfit("output_size", "a whole number from 1 on"))?;
    let is_max = call.class.starts_with("AdaptiveMax");
    Ok(Node::new(&call.class, move |run, input| {
        check_rank(input, dimensions)?;
        let mut shape = input.shape()[..2].to_vec();
        shape.extend(sizes.iter().copied().map(Dimension::from));
        let given = vec![Given::Tensor(input.clone()), ints(&sizes)];
        if !is_max {
            let operator = format!("aten.adaptive_avg_pool{dimensions}d.default");
            return Ok(run.one(&operator, given, Made::contiguous(shape)));
        }
        let places = Made { kind: Kind::Exactly(Dtype::Int64), ..Made::contiguous(shape.clone()) };
        let operator = format!("aten.adaptive_max_pool{dimensions}d.default");
        let mut results = run.tape.call(&operator, given, vec![Made::contiguous(shape), places]);
        Ok(results.swap_remove(0))
    }))
}
