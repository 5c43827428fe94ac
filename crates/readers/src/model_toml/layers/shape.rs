//! Layers that change shapes: `Flatten`, `Upsample`, `PixelShuffle`.

use super::super::arguments::{Given, Made, boolean, int};
use super::super::call::{Arguments, LayerCall, Value};
use super::super::dimension::{Dimension, product};
use super::super::error::{Fault, SketchError};
use super::super::node::Node;
use vramfit_graph::model::Argument;

pub(super) const NAMES: [&str; 3] = ["Flatten", "Upsample", "PixelShuffle"];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    Some(match call.class.as_str() {
        "Flatten" => flatten(call, location),
        "Upsample" => upsample(call, location),
        _ => pixel_shuffle(call, location),
    })
}

fn flatten(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["start_dim", "end_dim"])?;
    let (start, end) = (arguments.int_or("start_dim", 1)?, arguments.int_or("end_dim", -1)?);
    Ok(Node::new("Flatten", move |run, input| {
        let rank = input.shape().len() as i64;
        let wrap = |dim: i64| if dim < 0 { dim + rank } else { dim };
        let (first, last) = (wrap(start), wrap(end));
        if first < 0 || last >= rank || first > last {
            return Err(Fault::Needed(format!("which has no dimensions from {start} to {end}")));
        }
        let more = vec![int(start), int(end)];
        let mut given = vec![Given::Tensor(input.clone())];
        given.extend(more.iter().cloned());
        if first == last {
            run.tape.call_in_place("aten.flatten.using_ints", given, Some(input));
            return Ok(input.clone());
        }
        let (first, last) = (first as usize, last as usize);
        let mut shape = input.shape()[..first].to_vec();
        shape.push(product(&input.shape()[first..=last]));
        shape.extend_from_slice(&input.shape()[last + 1..]);
        if input.strides().is_none() {
            return Ok(run.tape.view("aten.flatten.using_ints", input, more, shape, None, input.offset()));
        }
        Ok(run.one("aten.flatten.using_ints", given, Made::contiguous(shape)))
    }))
}

fn upsample(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["size", "scale_factor", "mode", "align_corners"])?;
    let mode = arguments.text_or("mode", "nearest")?;
    let align = arguments.bool_or("align_corners", false)?;
    if !["nearest", "linear", "bilinear"].contains(&mode.as_str()) {
        return Err(arguments.unfit("mode", "'nearest', 'linear' or 'bilinear'; others are not modelled"));
    }
    let rank_of_size = match arguments.find("size") {
        Some(Value::Tuple(sizes)) => sizes.len(),
        _ => 1,
    };
    let size = arguments.each("size", rank_of_size, 1)?;
    let scale = arguments.float_or("scale_factor", 0.0)?;
    let is_whole = scale.fract() == 0.0 && scale >= 1.0;
    if size.is_some() == is_whole {
        return Err(arguments.unfit("scale_factor", "a whole number from 1 on, or a size instead"));
    }
    Ok(Node::new("Upsample", move |run, input| {
        let dimensions = input.shape().len().saturating_sub(2);
        let kind = match (mode.as_str(), dimensions) {
            ("nearest", 1 | 2) => format!("upsample_nearest{dimensions}d"),
            ("linear", 1) => "upsample_linear1d".to_owned(),
            ("bilinear", 2) => "upsample_bilinear2d".to_owned(),
            _ => return Err(Fault::Needed(format!("which mode '{mode}' does not fit"))),
        };
        let sizes: Vec<Dimension> = match &size {
            Some(sizes) if sizes.len() == 1 => vec![sizes[0].into(); dimensions],
            Some(sizes) if sizes.len() == dimensions => sizes.iter().copied().map(Dimension::from).collect(),
            Some(_) => return Err(Fault::Needed("which has another number of sizes than `size`".to_owned())),
            None => input.shape()[2..].iter().map(|size| size.times(&(scale as i64).into())).collect(),
        };
        let mut shape = input.shape()[..2].to_vec();
        shape.extend_from_slice(&sizes);
        let mut given = vec![Given::Tensor(input.clone())];
        let is_opened = run.tape.lower().is_some();
        given.push(if is_opened || size.is_some() { Given::Ints(sizes) } else { Given::Plain(Argument::None) });
        if mode != "nearest" {
            given.push(boolean(align));
        }
        let scales = vec![if size.is_some() { Argument::None } else { Argument::Float(scale) }; dimensions];
        // Autocast has a rule for what is inside only.
        if is_opened {
            given.extend(scales.into_iter().map(Given::Plain));
            return Ok(run.one(&format!("aten.{kind}.default"), given, Made::contiguous(shape)));
        }
        given.push(Given::Plain(if size.is_some() { Argument::None } else { Argument::List(scales) }));
        Ok(run.one(&format!("aten.{kind}.vec"), given, Made::contiguous(shape)))
    }))
}

fn pixel_shuffle(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["upscale_factor"])?;
    let factor = arguments.count("upscale_factor")?;
    Ok(Node::new("PixelShuffle", move |run, input| {
        let channels = input.shape().get(1).and_then(Dimension::known);
        let Some(channels) = channels.filter(|count| input.shape().len() == 4 && count % (factor * factor) == 0) else {
            return Err(Fault::Needed(format!("[batch, a multiple of {}, height, width] is needed", factor * factor)));
        };
        let shape = vec![
            input.shape()[0].clone(),
            (channels / (factor * factor)).into(),
            input.shape()[2].times(&factor.into()),
            input.shape()[3].times(&factor.into()),
        ];
        Ok(run.one(
            "aten.pixel_shuffle.default",
            vec![Given::Tensor(input.clone()), int(factor)],
            Made::contiguous(shape),
        ))
    }))
}
