//! Samples of images at points of a grid, and the grids of affine maps.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::function::Function;
use crate::autograd::{Context, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Inputs, Autocast::Unchanged, Samples::First);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.grid_sampler.default"],
        Facts { memory: Modelled(grid_sampler), autocast: Autocast::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default"],
        Facts { memory: Modelled(|context, call| sampled(context, call, false)), ..FAMILY },
    ),
    Operator::new(
        &["aten.cudnn_grid_sampler.default"],
        Facts { memory: Modelled(|context, call| sampled(context, call, true)), library: Library::Cudnn, ..FAMILY },
    ),
    Operator::new(
        &["aten.affine_grid_generator.default"],
        Facts { memory: Modelled(affine_grid), keeps: Keeps::Nothing, ..FAMILY },
    ),
];

/// The most channels of an image that cuDNN samples.
const MOST_CHANNELS: i64 = 1024;

/// cuDNN samples images linearly, with zeros outside and aligned corners; PyTorch's own kernels do the rest.
fn grid_sampler(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let suits_cudnn = source.shape().len() == 4
        && source.shape()[1] <= MOST_CHANNELS
        && matches!(source.dtype(), Dtype::Float32 | Dtype::Float64 | Dtype::Float16)
        && (call.int(2)?, call.int(3)?, call.bool(4)?) == (0, 0, true);
    if suits_cudnn {
        context.use_dnn();
    }
    sampled(context, call, suits_cudnn)
}

fn sampled(context: &mut Context, call: &Call<'_>, is_by_cudnn: bool) -> Outcome {
    let (source, grid) = (call.tensor(0)?, call.tensor(1)?);
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    if is_by_cudnn {
        drop(context.contiguous(grid));
    }
    // cuDNN finds both gradients, whether they are wanted or not.
    let backward = Function(is_by_cudnn, |&is_by_cudnn, context, node, gradient| {
        let (grid, source) = (node.saved(0), node.saved(1));
        let of = |context: &Context, tensor: &Tensor| match is_by_cudnn {
            true => context.empty(tensor.like(gradient.dtype())),
            false => context.empty_contiguous(gradient.dtype(), tensor.shape()),
        };
        let of_source = (is_by_cudnn || node.wants(0)).then(|| of(context, &source));
        let of_grid = of(context, &grid);
        smallvec![of_source.filter(|_| node.wants(0)), node.wants(1).then_some(of_grid)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(grid.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source), Some(grid)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// Points from -1 to 1 along each side, and ones, to be multiplied by the map. Without aligned corners they are moved inwards in
/// two steps.
fn base_grid(context: &Context, dtype: Dtype, size: &[i64], is_aligned: bool) -> Tensor {
    let mut shape = Dims::from([size[0]]);
    shape.extend(size[2..].iter().copied());
    shape.push(size.len() as i64 - 1);
    let grid = context.empty_contiguous(dtype, &shape);
    for &side in size[2..].iter().rev() {
        let points = context.empty_contiguous(dtype, &[side]);
        if is_aligned || side <= 1 {
            continue;
        }
        let scaled = context.empty_contiguous(dtype, &[side]);
        let inner = context.empty_contiguous(dtype, &[side]);
        drop(points);
        drop(scaled);
        drop(inner);
    }
    grid
}

fn affine_grid(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (map, size, is_aligned) = (call.tensor(0)?, call.ints(1)?, call.bool(2)?);
    if !(4..=5).contains(&size.len()) {
        return Err(Unmodelled);
    }
    let points: i64 = size[2..].iter().product();
    let grid = base_grid(context, map.dtype(), &size, is_aligned);
    let dims = size.len() as i64 - 2;
    let product = context.empty_contiguous(map.dtype(), &[size[0], points, dims]);
    context.use_blas();
    drop(grid);
    let result = product.unsafe_view(Layout::contiguous(map.dtype(), &call.result(0)?.shape));
    drop(product);
    let backward = Function((size, is_aligned), |(size, is_aligned), context, _, gradient| {
        let (dtype, dims) = (gradient.dtype(), size.len() as i64 - 2);
        let grid = base_grid(context, dtype, size, *is_aligned);
        let product = context.empty_contiguous(dtype, &[size[0], dims + 1, dims]);
        context.use_blas();
        drop(grid);
        let strides = Dims::from([(dims + 1) * dims, 1, dims]);
        smallvec![Some(product.view(Layout { dtype, shape: Dims::from([size[0], dims, dims + 1]), strides }))]
    });
    let edge = context.record(&[Some(map)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}
