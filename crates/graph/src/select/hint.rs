//! Hints for sizes that cannot be chosen: flags to give, or how to make the file again with the tool that made it.

use super::present::times;
use crate::model::{Input, Model, Origin, Size};

/// How to make the file again so that a dimension of an input can be `wanted`; `name` is a name for its size.
pub(super) fn opened(model: &Model, input: &Input, dim: usize, name: &str, wanted: i64) -> String {
    match model.origin {
        Origin::Script => model.origin.made_again().to_owned(),
        Origin::Capture => captured(input, &|at, size| (at == dim).then(|| name.to_owned()).or(named(model, size))),
        Origin::Archive => {
            let more = if model.inputs.len() > 1 { ", …" } else { "" };
            let size = exported(model, input, dim, name, wanted);
            format!(
                "export again with that size dynamic: torch.export.export(model, args, dynamic_shapes={{\"{}\": {{{dim}: {size}}}{more}}})",
                input.name
            )
        }
    }
}

/// How to give the shape of an input where a flag has no dimension to set.
pub(super) fn by_shape(model: &Model) -> String {
    match model.inputs.iter().find(|input| !input.shape.is_empty()) {
        Some(input) => {
            format!("give the whole shape of an input, such as --size {}={}", input.name, times(&input.example))
        }
        None => format!("no input has a size to choose; {} with other inputs", model.origin.made_again()),
    }
}

/// What to do about a name that does not exist.
pub(super) fn other_name(model: &Model, name: &str, wanted: i64) -> String {
    let is_fixed = |size: &Size| matches!(size, Size::Known(_));
    let fixed = model.inputs.iter().find_map(|input| Some((input, input.shape.iter().position(is_fixed)?)));
    match (model.origin, fixed) {
        (Origin::Archive, _) if !model.symbols.is_empty() => {
            format!("torch.export gives symbols names of its own; {}", by_shape(model))
        }
        (_, Some((input, dim))) => opened(model, input, dim, name, wanted),
        (_, None) => by_shape(model),
    }
}

/// How to make the file again with inputs of another shape.
pub(super) fn reshaped(origin: Origin) -> String {
    format!("{}, with an example of this shape", origin.made_again())
}

/// How to give sizes that the file does not have.
pub(super) fn given(symbols: &[&str]) -> String {
    let flags: Vec<String> = symbols.iter().map(|symbol| format!("--size {symbol}=N")).collect();
    format!("give the size your data leads to, or an upper bound, with {}", flags.join(" "))
}

fn captured(input: &Input, name: &dyn Fn(usize, Size) -> Option<String>) -> String {
    let sizes = input.shape.iter().zip(&input.example).enumerate();
    let texts: Vec<String> = sizes
        .map(|(at, (size, example))| name(at, *size).map_or(example.to_string(), |name| format!("\"{name}\"")))
        .collect();
    let comma = if texts.len() == 1 { "," } else { "" };
    format!(
        "name the sizes that may change when you capture: vramfit.capture(model, inputs, path, sizes={{\"{}\": ({}{comma})}})",
        input.name,
        texts.join(", ")
    )
}

fn named(model: &Model, size: Size) -> Option<String> {
    matches!(size, Size::Symbolic(_)).then(|| model.size_text(size))
}

/// A `Dim` of torch.export whose range includes `wanted`.
fn exported(model: &Model, input: &Input, dim: usize, name: &str, wanted: i64) -> String {
    let linear = input.shape.get(dim).and_then(|size| model.linear(*size));
    let Some(linear) = linear else {
        let most = wanted.max(input.example.get(dim).copied().unwrap_or(1));
        // A Dim of torch.export has at least two values, and its minimum is at least 2.
        return if most > 2 {
            format!("torch.export.Dim(\"{name}\", max={most})")
        } else {
            format!("torch.export.Dim(\"{name}\")")
        };
    };
    let value = linear.solve(wanted).unwrap_or(wanted);
    let least = model.symbols[linear.symbol() as usize].range.map_or(1, |range| range.least);
    let end = if value < least { "min" } else { "max" };
    let factor = if linear.factor() == 1 { String::new() } else { format!("{} * ", linear.factor()) };
    let offset = match linear.offset() {
        0 => String::new(),
        offset @ 1.. => format!(" + {offset}"),
        offset => format!(" - {}", offset.unsigned_abs()),
    };
    format!("{factor}torch.export.Dim(\"{name}\", {end}={value}){offset}")
}
