//! `cross_entropy_loss`.

use super::{Inside, ONE, Part, Workshop, int, list};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, Size, TensorId};

/// The dimension of the classes.
const CLASSES: usize = 1;

/// How a loss is reduced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    None,
    Mean,
    Sum,
}

/// `cross_entropy_loss` as the calls inside it, where autocast casts them or no rule covers the whole.
pub(super) fn cross_entropy<W: Workshop>(mut inside: Inside<'_, W>) -> Option<Vec<Part>> {
    let (logits, target) = (inside.tensor("self")?, inside.tensor("target")?);
    let weight = inside.tensor("weight");
    let Some(Argument::Float(smoothing)) = inside.argument("label_smoothing") else { return None };
    let reduction = match inside.argument("reduction") {
        Some(Argument::Int(Size::Known(0))) => Reduction::None,
        Some(Argument::Int(Size::Known(1))) => Reduction::Mean,
        Some(Argument::Int(Size::Known(2))) => Reduction::Sum,
        _ => return None,
    };
    let shape = inside.shape(logits);
    let Some(Size::Known(classes)) = shape.get(CLASSES).copied() else { return None };
    let is_smooth = smoothing != 0.0;
    let is_probable = !matches!(inside.workshop.dtype(target), Dtype::Int64 | Dtype::Uint8);
    let kinds = [weight.is_some(), is_smooth, is_probable];
    let is_open = inside.workshop.autocast().is_some() || kinds.into_iter().filter(|it| *it).count() > 1;
    // The classes that count depend on the data.
    let is_counted = kinds == [true, true, false] && reduction == Reduction::Mean;
    if !is_open || is_counted {
        return None;
    }
    let dtype = inside.workshop.dtype(logits);
    if !is_probable && !matches!(shape.len(), 2 | 4) && !inside.workshop.is_contiguous(target) {
        return None;
    }
    let arguments = vec![Argument::Tensor(logits), int(CLASSES as i64), Argument::Dtype(dtype)];
    let chances = inside.add("aten.log_softmax.int", arguments, shape);
    match (is_probable, is_smooth) {
        (true, _) => probable(inside, chances, smoothing / classes as f64, 1.0 - smoothing, reduction),
        (false, true) => smooth(inside, chances, smoothing / classes as f64, 1.0 - smoothing, reduction),
        (false, false) => {
            let (name, arguments, shape) = likelihood(&mut inside, chances, target)?;
            match shape {
                Some(shape) if reduction == Reduction::None => {
                    let loss = inside.add(name, arguments, shape);
                    let apart = apart(&inside, chances);
                    inside.end("aten.view.default", vec![Argument::Tensor(loss), list(&apart)])
                }
                _ => inside.end(name, arguments),
            }
        }
    }
}

/// Sizes without that of the classes.
fn apart<W: Workshop>(inside: &Inside<'_, W>, tensor: TensorId) -> Vec<Size> {
    let mut shape = inside.shape(tensor);
    shape.remove(CLASSES);
    shape
}

/// An operator, its arguments, and the shape of its unreduced result where that is not yet the loss's.
type Likelihood = (&'static str, Vec<Argument>, Option<Vec<Size>>);

/// `nll_loss_nd`.
fn likelihood<W: Workshop>(inside: &mut Inside<'_, W>, chances: TensorId, target: TensorId) -> Option<Likelihood> {
    let rest = ["weight", "reduction", "ignore_index"].map(|name| inside.argument(name));
    let shape = inside.shape(chances);
    let (name, chances, target, flat) = match shape.len() {
        2 => ("aten.nll_loss.default", chances, target, None),
        4 => ("aten.nll_loss2d.default", chances, target, None),
        _ => {
            let positions = inside.workshop.product(&shape[CLASSES + 1..])?;
            let any = Size::Known(-1);
            let (batch, classes) = (shape[0], shape[CLASSES]);
            let arguments = vec![Argument::Tensor(chances), list(&[batch, classes, ONE, any])];
            let chances = inside.add("aten.view.default", arguments, vec![batch, classes, ONE, positions]);
            let dtype = inside.workshop.dtype(target);
            let arguments = vec![Argument::Tensor(target), list(&[batch, ONE, any])];
            let target = inside.add_as(dtype, "aten.view.default", arguments, vec![batch, ONE, positions]);
            ("aten.nll_loss2d.default", chances, target, Some(vec![batch, ONE, positions]))
        }
    };
    let mut arguments = vec![Argument::Tensor(chances), Argument::Tensor(target)];
    for argument in rest {
        arguments.push(argument?);
    }
    Some((name, arguments, flat))
}

/// The weights, as many dimensions as the chances have.
fn weights<W: Workshop>(inside: &mut Inside<'_, W>, chances: TensorId) -> Option<TensorId> {
    let weight = inside.tensor("weight")?;
    let mut shape = vec![ONE; inside.shape(chances).len()];
    shape[CLASSES] = inside.shape(weight)[0];
    Some(inside.add("aten.view.default", vec![Argument::Tensor(weight), list(&shape)], shape))
}

fn multiplied<W: Workshop>(inside: &mut Inside<'_, W>, one: TensorId, other: TensorId) -> TensorId {
    let shape = inside.shape(one);
    inside.add("aten.mul.Tensor", vec![Argument::Tensor(one), Argument::Tensor(other)], shape)
}

/// The loss where the target is a probability of each class.
fn probable<W: Workshop>(
    mut inside: Inside<'_, W>,
    chances: TensorId,
    share: f64,
    kept: f64,
    reduction: Reduction,
) -> Option<Vec<Part>> {
    let mut target = inside.tensor("target")?;
    let shape = inside.shape(chances);
    if share != 0.0 {
        let scaled =
            inside.add("aten.mul.Scalar", vec![Argument::Tensor(target), Argument::Float(kept)], shape.clone());
        target = inside.add("aten.add.Scalar", vec![Argument::Tensor(scaled), Argument::Float(share)], shape.clone());
        inside.drop(&[scaled]);
    }
    let weight = weights(&mut inside, chances);
    let mut products = multiplied(&mut inside, chances, target);
    if let Some(weight) = weight {
        products = multiplied(&mut inside, products, weight);
    }
    let apart = apart(&inside, chances);
    let sum = match reduction {
        Reduction::None => {
            let arguments = vec![Argument::Tensor(products), Argument::List(vec![int(CLASSES as i64)])];
            inside.add("aten.sum.dim_IntList", arguments, apart.clone())
        }
        _ => inside.add("aten.sum.default", vec![Argument::Tensor(products)], Vec::new()),
    };
    if reduction != Reduction::Mean {
        return inside.end("aten.neg.default", vec![Argument::Tensor(sum)]);
    }
    let negative = inside.add("aten.neg.default", vec![Argument::Tensor(sum)], Vec::new());
    let count = inside.workshop.product(&apart)?;
    inside.end("aten.div.Scalar", vec![Argument::Tensor(negative), Argument::Int(count)])
}

/// The loss with label smoothing.
fn smooth<W: Workshop>(
    mut inside: Inside<'_, W>,
    chances: TensorId,
    share: f64,
    kept: f64,
    reduction: Reduction,
) -> Option<Vec<Part>> {
    let target = inside.tensor("target")?;
    let apart = apart(&inside, chances);
    let reduced = if reduction == Reduction::None { apart.clone() } else { Vec::new() };
    let before = inside.held.len();
    let (name, arguments, flat) = likelihood(&mut inside, chances, target)?;
    let views: Vec<TensorId> = inside.held[before..].to_vec();
    let is_flat = flat.is_some() && reduction == Reduction::None;
    let mut likely = inside.add(name, arguments, flat.filter(|_| is_flat).unwrap_or_else(|| reduced.clone()));
    if is_flat {
        likely = inside.add("aten.view.default", vec![Argument::Tensor(likely), list(&apart)], apart.clone());
    }
    inside.drop(&views);
    let over_classes = |tensor: TensorId| vec![Argument::Tensor(tensor), Argument::List(vec![int(CLASSES as i64)])];
    let weight = weights(&mut inside, chances);
    let read = match weight {
        Some(weight) => multiplied(&mut inside, chances, weight),
        None => chances,
    };
    let sum = inside.add("aten.sum.dim_IntList", over_classes(read), apart.clone());
    let even = inside.add("aten.neg.default", vec![Argument::Tensor(sum)], apart.clone());
    inside.drop(&[Some(sum), weight, weight.map(|_| read)].into_iter().flatten().collect::<Vec<_>>());
    let ignored = vec![Argument::Tensor(target), inside.argument("ignore_index")?];
    let ignored = inside.add_as(Dtype::Bool, "aten.eq.Scalar", ignored, apart.clone());
    inside.write("aten.masked_fill_.Scalar", even, &[Argument::Tensor(ignored), Argument::Float(0.0)]);
    let total = match reduction {
        Reduction::None => even,
        Reduction::Sum => inside.add("aten.sum.default", vec![Argument::Tensor(even)], Vec::new()),
        Reduction::Mean => {
            let counted =
                inside.add_as(Dtype::Bool, "aten.bitwise_not.default", vec![Argument::Tensor(ignored)], apart);
            let count = vec![Argument::Tensor(counted)];
            let count = inside.add_as(Dtype::Int64, "aten.sum.default", count, Vec::new());
            let sum = inside.add("aten.sum.default", vec![Argument::Tensor(even)], Vec::new());
            let arguments = vec![Argument::Tensor(sum), Argument::Tensor(count)];
            let mean = inside.add("aten.div.Tensor", arguments, Vec::new());
            inside.drop(&[sum, count, counted]);
            mean
        }
    };
    let scaled = |tensor: TensorId, by: f64| vec![Argument::Tensor(tensor), Argument::Float(by)];
    let spread = inside.add("aten.mul.Scalar", scaled(total, share), reduced.clone());
    let exact = inside.add("aten.mul.Scalar", scaled(likely, kept), reduced);
    inside.end("aten.add.Tensor", vec![Argument::Tensor(exact), Argument::Tensor(spread)])
}
