//! Variance, standard deviation, norm, logsumexp.

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;

use super::over::{Over, reduced};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::accumulator::accumulator_dtype;
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::pointwise::{elementwise, promote};

/// Mean, sum of squares and two counts are kept for each partial result.
const WELFORD: Reduction = Reduction { partial_bytes: 16, input_vector: 2, max_threads: 512 };

/// `2 / N * grad * (self - mean)`.
#[derive(Debug)]
struct Variance {
    over: Over,
    is_root: bool,
}

impl Backward for Variance {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let gradient = gradients[0].clone();
        smallvec![gradient.map(|gradient| self.gradient(context, node, gradient))]
    }
}

impl Variance {
    fn gradient(&self, context: &mut Context, node: &Node, gradient: Tensor) -> Tensor {
        let source = node.saved(0);
        let dtype = gradient.dtype();
        let of_root = self.is_root.then(|| {
            let result = node.saved(1);
            let doubled = elementwise(context, &[&result], dtype);
            let quotient = elementwise(context, &[&gradient, &doubled], dtype);
            let is_zero = elementwise(context, &[&result], Dtype::Bool);
            drop(is_zero);
            drop(doubled);
            quotient
        });
        let gradient = of_root.as_ref().unwrap_or(&gradient);
        let is_whole = self.over.dims.len() == source.shape().len() && !self.over.keeps_dims;
        let over = if is_whole { self.over.clone() } else { self.over.keeping() };
        let mean = reduced(context, &source, &over, source.dtype(), Reduction::summing(source.dtype()));
        let centred = elementwise(context, &[&source, &mean], source.dtype());
        let seen = if is_whole { gradient.clone() } else { self.over.restored(gradient, source.shape()) };
        let scaled = elementwise(context, &[&seen], dtype);
        let result = elementwise(context, &[&scaled, &centred], dtype);
        drop(scaled);
        drop(centred);
        drop(mean);
        drop(of_root);
        result
    }
}

/// Variance or deviation together with the mean: both gradients are added.
#[derive(Debug)]
struct WithMean(Variance);

impl Backward for WithMean {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let source = node.saved(0);
        let of_spread = gradients[0].clone().map(|gradient| self.0.gradient(context, node, gradient));
        let of_mean = gradients.get(1).cloned().flatten().map(|gradient| {
            let wide = self.0.over.spread(&gradient, source.shape());
            elementwise(context, &[&wide], wide.dtype())
        });
        let (Some(one), Some(other)) = (&of_spread, &of_mean) else { return smallvec![of_spread.or(of_mean)] };
        let result = elementwise(context, &[one, other], one.dtype());
        drop(of_spread);
        drop(of_mean);
        smallvec![Some(result)]
    }
}

pub(super) fn with_mean(context: &mut Context, call: &Call<'_>, is_root: bool) -> Outcome {
    let source = call.tensor(0)?;
    let over = Over::at(call, 1, 3)?;
    let shape = over.shape(source.shape());
    let spread = context.empty_contiguous(source.dtype(), &shape);
    let mean = context.empty_contiguous(source.dtype(), &shape);
    context.reduction_buffers(source.layout(), &over.dims, WELFORD);
    let kept = spread.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone()), is_root.then_some(kept)];
    let edge = context.record(&[Some(source)], 2, saved, WithMean(Variance { over, is_root }));
    let of_mean = edge.clone().map(|edge| crate::autograd::Edge { output: 1, ..edge });
    Ok(smallvec![spread.with_edge(edge), mean.with_edge(of_mean)])
}

pub(super) fn variance(context: &mut Context, call: &Call<'_>, over: &Over, is_root: bool) -> Outcome {
    let source = call.tensor(0)?;
    let result = reduced(context, source, over, source.dtype(), WELFORD);
    let kept = result.detach();
    let edge = context.record(
        &[Some(source)],
        1,
        |_| smallvec![Some(source.clone()), is_root.then_some(kept)],
        Variance { over: over.clone(), is_root },
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    First,
    Second,
    /// Above two.
    Higher,
    Largest,
}

#[derive(Debug)]
struct Norm {
    over: Over,
    order: Order,
}

impl Backward for Norm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let (source, result) = (node.saved(0), node.saved(1));
        // Under autocast the norm is in single precision, of a source in half.
        let dtype = promote(&[&source, &result]);
        let gradient = self.over.restored(&gradient, source.shape());
        let result = self.over.restored(&result, source.shape());
        smallvec![Some(self.of(context, &source, &result, &gradient, dtype))]
    }
}

impl Norm {
    /// `norm_backward`, of results and gradients that have all dimensions.
    fn of(&self, context: &mut Context, source: &Tensor, result: &Tensor, gradient: &Tensor, dtype: Dtype) -> Tensor {
        match self.order {
            Order::First | Order::Second => {
                let direction = elementwise(context, &[source, result], dtype);
                let is_zero = (self.order == Order::Second).then(|| elementwise(context, &[result], Dtype::Bool));
                let answer = elementwise(context, &[gradient, &direction], dtype);
                drop(is_zero);
                drop(direction);
                answer
            }
            Order::Higher => {
                let absolute = elementwise(context, &[source], dtype);
                let scaled = elementwise(context, &[source, &absolute], dtype);
                drop(absolute);
                let power = elementwise(context, &[result], dtype);
                let scale = elementwise(context, &[gradient, &power], dtype);
                drop(power);
                drop(elementwise(context, &[result], Dtype::Bool));
                let answer = elementwise(context, &[&scaled, &scale], dtype);
                drop(scale);
                drop(scaled);
                answer
            }
            Order::Largest => self.of_largest(context, source, result, gradient),
        }
    }

    /// The gradient in equal shares to all elements that are as large as the norm.
    fn of_largest(&self, context: &mut Context, source: &Tensor, result: &Tensor, gradient: &Tensor) -> Tensor {
        let dtype = source.dtype();
        let absolute = elementwise(context, &[source], dtype);
        let is_equal = elementwise(context, &[&absolute, result], Dtype::Bool);
        let is_no_number = elementwise(context, &[&absolute], Dtype::Bool);
        let mask = elementwise(context, &[&is_equal, &is_no_number], Dtype::Bool);
        drop(is_no_number);
        drop(is_equal);
        let count = reduced(context, &mask, &self.over.keeping(), Dtype::Int64, Reduction::summing(Dtype::Int64));
        let share = elementwise(context, &[gradient, &count], dtype);
        let shares = elementwise(context, &[&share, &mask], dtype);
        let sign = elementwise(context, &[source], dtype);
        let answer = elementwise(context, &[&sign, &shares], dtype);
        drop((sign, shares));
        drop((share, count));
        drop(mask);
        drop(absolute);
        answer
    }
}

/// The norm that argument `index` names. Below one and between one and two the gradients take other steps.
fn order_of(call: &Call<'_>, index: usize, is_recorded: bool) -> Result<Order, Unmodelled> {
    let order = match call.arguments.get(index) {
        Some(Value::Float(order)) => *order,
        Some(Value::Int(order)) => *order as f64,
        _ => 2.0,
    };
    match order {
        1.0 => Ok(Order::First),
        2.0 => Ok(Order::Second),
        f64::INFINITY => Ok(Order::Largest),
        order if order > 2.0 => Ok(Order::Higher),
        _ if is_recorded => Err(Unmodelled),
        _ => Ok(Order::First),
    }
}

/// The norm of a difference. The second gradient is the first one's negative.
pub(super) fn dist(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Distance(Norm);
    impl Backward for Distance {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let (other, source, result) = (node.saved(0), node.saved(1), node.saved(2));
            let dtype = promote(&[&source, &other]);
            let of_source = |context: &mut Context, is_turned: bool| {
                let apart = elementwise(context, &[&source, &other], dtype);
                let answer = self.0.of(context, &apart, &result, &gradient, dtype);
                let turned = is_turned.then(|| elementwise(context, &[&answer], dtype));
                turned.unwrap_or(answer)
            };
            let second = node.wants(1).then(|| of_source(context, true));
            let first = node.wants(0).then(|| of_source(context, false));
            smallvec![first, second]
        }
    }
    let (source, other) = (call.tensor(0)?, call.tensor(1)?);
    let is_recorded = context.is_grad_on() && (source.requires_grad() || other.requires_grad());
    let order = order_of(call, 2, is_recorded)?;
    let dtype = call.result(0)?.dtype;
    let apart = elementwise(context, &[source, other], dtype);
    let over = Over { dims: (0..apart.shape().len() as i64).collect(), keeps_dims: false };
    let result = reduced(context, &apart, &over, dtype, Reduction::summing(dtype));
    drop(apart);
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(other.clone()), Some(source.clone()), Some(kept)];
    let edge = context.record(&[Some(source), Some(other)], 1, saved, Distance(Norm { over, order }));
    Ok(smallvec![result.with_edge(edge)])
}

/// Slices that are too long are scaled. Norms are found in the type in which sums are kept.
pub(super) fn renorm(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Renormed(Norm);
    impl Backward for Renormed {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let source = node.saved(0);
            let wide = accumulator_dtype(source.dtype());
            let summing = Reduction::summing(wide);
            let norm = reduced(context, &source, &self.0.over, wide, summing);
            let product = elementwise(context, &[&source, &gradient], gradient.dtype());
            let sums = reduced(context, &product, &self.0.over, wide, summing);
            drop(product);
            let of_norm = self.0.of(context, &source, &norm, &sums, wide);
            drop(sums);
            let shifted = elementwise(context, &[&norm], wide);
            let inverse = elementwise(context, &[&shifted], wide);
            drop(shifted);
            // C++ evaluates the right operand first.
            let scaled = elementwise(context, &[&inverse, &of_norm], wide);
            let apart = elementwise(context, &[&gradient, &scaled], wide);
            let factor = elementwise(context, &[&inverse], wide);
            let of_long = elementwise(context, &[&factor, &apart], wide);
            drop(factor);
            drop(apart);
            drop(scaled);
            let cast = (wide != gradient.dtype()).then(|| context.empty(of_long.like(gradient.dtype())));
            let is_long = elementwise(context, &[&norm], Dtype::Bool);
            let chosen = [&is_long, cast.as_ref().unwrap_or(&of_long), &gradient];
            let answer = elementwise(context, &chosen, gradient.dtype());
            drop(is_long);
            drop(cast);
            drop(of_long);
            drop(inverse);
            drop(of_norm);
            drop(norm);
            smallvec![Some(answer)]
        }
    }
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let kept = call.dim(2, rank)?;
    let over = Over { dims: (0..rank).filter(|&dim| dim != kept).map(|dim| dim as i64).collect(), keeps_dims: true };
    let order = order_of(call, 1, context.is_grad_on() && source.requires_grad())?;
    let wide = accumulator_dtype(source.dtype());
    let result = context.empty(source.like(source.dtype()));
    let norm = reduced(context, source, &over, wide, Reduction::summing(wide));
    let factor = (wide != source.dtype()).then(|| context.empty_contiguous(source.dtype(), norm.shape()));
    drop(factor);
    drop(norm);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Renormed(Norm { over, order }));
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let over = Over::at(call, 2, 3)?;
    let is_recorded = context.is_grad_on() && source.requires_grad();
    let order = order_of(call, 1, is_recorded)?;
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, source, &over, dtype, Reduction::summing(dtype));
    let kept = result.detach();
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone()), Some(kept)];
    let edge = context.record(&[Some(source)], 1, saved, Norm { over, order });
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn logsumexp(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Logsumexp(Over);
    impl Backward for Logsumexp {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
            let (source, result) = (node.saved(0), node.saved(1));
            let gradient = self.0.restored(&gradient, source.shape());
            let result = self.0.restored(&result, source.shape());
            let difference = elementwise(context, &[&source, &result], source.dtype());
            let power = elementwise(context, &[&difference], source.dtype());
            let answer = elementwise(context, &[&gradient, &power], source.dtype());
            drop(power);
            drop(difference);
            smallvec![Some(answer)]
        }
    }
    let source = call.tensor(0)?;
    let over = Over::listed(call)?;
    let dtype = source.dtype();
    if !dtype.is_differentiable() {
        return Err(Unmodelled);
    }
    let largest = reduced(context, source, &over.keeping(), dtype, Reduction::comparing(dtype));
    let absolute = elementwise(context, &[&largest], dtype);
    let is_infinite = elementwise(context, &[&absolute], Dtype::Bool);
    drop(is_infinite);
    drop(absolute);
    let powers: Tensor = elementwise(context, &[source, &largest], dtype);
    let result = reduced(context, &powers, &over, dtype, Reduction::summing(dtype));
    drop(powers);
    drop(largest);
    let kept = result.detach();
    let edge = context.record(&[Some(source)], 1, |_| smallvec![Some(source.clone()), Some(kept)], Logsumexp(over));
    Ok(smallvec![result.with_edge(edge)])
}
