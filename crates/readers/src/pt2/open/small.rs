//! Operators with a few calls inside.

use super::{Inside, Part, Workshop, int, list};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

/// `rms_norm` of a tensor whose type is not its weight's, for which there is no kernel: in single precision, step by step.
pub(super) fn rms_norm<W: Workshop>(mut inside: Inside<'_, W>) -> Option<Vec<Part>> {
    let (input, weight) = (inside.tensor("input")?, inside.tensor("weight")?);
    let dtype = inside.workshop.dtype(input);
    let is_fused = dtype == inside.workshop.dtype(weight);
    if is_fused || dtype == Dtype::Float64 {
        return None;
    }
    let Some(Argument::List(normalized)) = inside.argument("normalized_shape") else { return None };
    let shape = inside.shape(input);
    let dims = shape.len().checked_sub(normalized.len())?..shape.len();
    let wide = match dtype.is_half() {
        true => {
            let arguments = vec![Argument::Tensor(input), Argument::Dtype(Dtype::Float32)];
            inside.add("aten.to.dtype", arguments, shape.clone())
        }
        false => input,
    };
    let squares = inside.add("aten.pow.Tensor_Scalar", vec![Argument::Tensor(wide), int(2)], shape.clone());
    let mut narrow = shape.clone();
    narrow[dims.clone()].fill(Size::Known(1));
    let reduced = Argument::List(dims.map(|dim| int(dim as i64)).collect());
    let mean =
        inside.add("aten.mean.dim", vec![Argument::Tensor(squares), reduced, Argument::Bool(true)], narrow.clone());
    let least = match inside.argument("eps") {
        Some(Argument::Float(least)) => least,
        _ => f64::from(f32::EPSILON),
    };
    inside.write("aten.add_.Scalar", mean, &[Argument::Float(least)]);
    let scale = inside.add("aten.rsqrt.default", vec![Argument::Tensor(mean)], narrow);
    inside.drop(&[mean, squares]);
    let factors = |one: TensorId, other: TensorId| vec![Argument::Tensor(one), Argument::Tensor(other)];
    let scaled = inside.add("aten.mul.Tensor", factors(wide, scale), shape.clone());
    let weighted = inside.add("aten.mul.Tensor", factors(scaled, weight), shape);
    inside.drop(&[scaled, wide]);
    inside.end_as(dtype, "aten.type_as.default", factors(weighted, input))
}

/// `argsort` as `sort`, whose values are thrown away.
pub(super) fn argsort<W: Workshop>(mut inside: Inside<'_, W>) -> Option<Vec<Part>> {
    let source = inside.tensor("self")?;
    let stable = inside.argument("stable");
    let name = if stable.is_some() { "aten.sort.stable" } else { "aten.sort.default" };
    let mut arguments = vec![Argument::Tensor(source)];
    arguments.extend(stable);
    arguments.extend([inside.argument("dim")?, inside.argument("descending")?]);
    let (shape, dtype) = (inside.shape(source), inside.workshop.dtype(source));
    let values = inside.workshop.make(shape, dtype);
    inside.held.push(values);
    let [result] = inside.call.results[..] else { return None };
    inside.push(name, arguments, vec![Some(values), result]);
    Some(inside.finish())
}

/// A convolution with `padding="same"` or `"valid"` under autocast: the plain convolution inside is the one that is cast.
pub(super) fn padded_convolution<W: Workshop>(mut inside: Inside<'_, W>) -> Option<Vec<Part>> {
    inside.workshop.autocast()?;
    let (input, weight) = (inside.tensor("input")?, inside.tensor("weight")?);
    let (mut shape, kernel) = (inside.shape(input), inside.shape(weight));
    let dims = kernel.len().checked_sub(2).filter(|_| kernel.len() == shape.len())?;
    let wide = |inside: &Inside<'_, W>, name: &str| match inside.argument(name) {
        Some(Argument::List(items)) if items.len() == 1 => Some(vec![items[0].clone(); dims]),
        Some(Argument::List(items)) if items.len() == dims => Some(items),
        _ => None,
    };
    let (stride, dilation) = (wide(&inside, "stride")?, wide(&inside, "dilation")?);
    let Some(Argument::Text(mode)) = inside.argument("padding") else { return None };
    let (mut padding, mut source) = (vec![Size::Known(0)], input);
    if mode == "same" {
        padding.clear();
        let mut ends = vec![Size::Known(0); 2 * dims];
        for dim in 0..dims {
            let (Size::Known(size), Argument::Int(Size::Known(apart))) = (kernel[dim + 2], &dilation[dim]) else {
                return None;
            };
            let both = apart.checked_mul(size.checked_sub(1)?)?;
            padding.push(Size::Known(both / 2));
            if both % 2 == 1 {
                // The additional padding of one side is applied before.
                let Size::Known(size) = shape[dim + 2] else { return None };
                shape[dim + 2] = Size::Known(size.checked_add(1)?);
                ends[2 * (dims - 1 - dim) + 1] = Size::Known(1);
            }
        }
        if shape != inside.shape(input) {
            let arguments = vec![Argument::Tensor(input), list(&ends), int(0)];
            source = inside.add("aten.constant_pad_nd.default", arguments, shape);
        }
    }
    let none = list(&vec![Size::Known(0); padding.len()]);
    let arguments = vec![
        Argument::Tensor(source),
        Argument::Tensor(weight),
        inside.argument("bias")?,
        Argument::List(stride),
        list(&padding),
        Argument::List(dilation),
        Argument::Bool(false),
        none,
        inside.argument("groups")?,
    ];
    inside.end("aten.convolution.default", arguments)
}

/// `embedding_bag` as the operator that runs it, with gradients for the weights or without.
pub(super) fn embedding_bag<W: Workshop>(mut inside: Inside<'_, W>) -> Option<Vec<Part>> {
    let weight = inside.tensor("weight")?;
    let name = match inside.workshop.requires_grad(weight) {
        true => "aten._embedding_bag.default",
        false => "aten._embedding_bag_forward_only.default",
    };
    let rows = inside.shape(weight).first().copied();
    let padding = match (inside.argument("padding_idx"), rows) {
        (Some(Argument::Int(Size::Known(at @ ..0))), Some(Size::Known(rows))) => int(at.checked_add(rows)?),
        (Some(padding @ Argument::Int(_)), _) => padding,
        _ => int(-1),
    };
    let names = ["scale_grad_by_freq", "mode", "sparse", "per_sample_weights", "include_last_offset"];
    let mut arguments = vec![Argument::Tensor(weight), inside.argument("indices")?, inside.argument("offsets")?];
    for name in names {
        arguments.push(inside.argument(name)?);
    }
    arguments.push(padding);
    let results = inside.call.results.clone();
    if let Some(result) = results.first().copied().flatten() {
        let dtype = inside.workshop.dtype(weight);
        inside.workshop.set_dtype(result, dtype);
    }
    inside.push(name, arguments, results);
    Some(inside.finish())
}
