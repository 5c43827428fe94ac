//! Functions of two and three tensors.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::binary_formulas::{MASKED_FILL, POW_TENSOR, WHERE};
use super::formula::Formula::Steps;
use super::formula::Operand::Gradient as G;
use super::formula::Operand::{Made, Saved};
use super::formula::Step::Like;
use super::formula::{Elementwise, Save, elementwise, promote, rebased, record};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// Addition and subtraction: the other's gradient is multiplied by `alpha`, and turned round for a difference.
#[derive(Debug)]
struct Added {
    is_difference: bool,
    is_scaled: bool,
}

impl Backward for Added {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let other = node.wants(1).then(|| {
            let turned = if self.is_difference {
                elementwise(context, &[&gradient], gradient.dtype())
            } else {
                gradient.clone()
            };
            if self.is_scaled { elementwise(context, &[&turned], gradient.dtype()) } else { turned }
        });
        smallvec![node.wants(0).then_some(gradient), other]
    }
}

fn added(call: &Call<'_>, is_difference: bool) -> Added {
    let is_scaled = call.float(2).is_ok_and(|alpha| (alpha - 1.0).abs() > 0.0);
    Added { is_difference, is_scaled }
}

fn add_or_sub(context: &mut Context, call: &Call<'_>, is_difference: bool) -> Outcome {
    let (first, second) = (call.optional_tensor(0), call.optional_tensor(1));
    let operands: smallvec::SmallVec<[&Tensor; 2]> =
        [first, second].into_iter().flatten().filter(|tensor| !tensor.is_on_host()).collect();
    if operands.is_empty() {
        return Err(Unmodelled);
    }
    let result = elementwise(context, &operands, call.result(0)?.dtype);
    let edge = context.record(&[first, second], 1, |_| smallvec![], added(call, is_difference));
    Ok(smallvec![result.with_edge(edge)])
}

fn add_or_sub_in_place(context: &mut Context, call: &Call<'_>, is_difference: bool) -> Outcome {
    let target = call.tensor(0)?;
    let other = call.optional_tensor(1);
    let edge = context.record(&[Some(target), other], 1, |_| smallvec![], added(call, is_difference));
    if edge.is_none() { Ok(smallvec![target.clone()]) } else { rebased(target, edge) }
}

/// `self + alpha * other`.
pub fn add(context: &mut Context, call: &Call<'_>) -> Outcome {
    add_or_sub(context, call, false)
}

/// `self - alpha * other`.
pub fn sub(context: &mut Context, call: &Call<'_>) -> Outcome {
    add_or_sub(context, call, true)
}

/// `self += alpha * other`.
pub fn add_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    add_or_sub_in_place(context, call, false)
}

/// `self -= alpha * other`.
pub fn sub_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    add_or_sub_in_place(context, call, true)
}

/// `other - alpha * self`.
pub fn rsub(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (first, second) = (call.tensor(0)?, call.optional_tensor(1));
    let operands: smallvec::SmallVec<[&Tensor; 2]> =
        [Some(first), second].into_iter().flatten().filter(|tensor| !tensor.is_on_host()).collect();
    let result = elementwise(context, &operands, call.result(0)?.dtype);
    // The roles are swapped: the first argument's gradient is the one turned round.
    #[derive(Debug)]
    struct Swapped(Added);
    impl Backward for Swapped {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let first = node.wants(0).then(|| {
                let turned = elementwise(context, &[&gradient], gradient.dtype());
                if self.0.is_scaled { elementwise(context, &[&turned], gradient.dtype()) } else { turned }
            });
            smallvec![first, node.wants(1).then_some(gradient)]
        }
    }
    let edge = context.record(&[Some(first), second], 1, |_| smallvec![], Swapped(added(call, true)));
    Ok(smallvec![result.with_edge(edge)])
}

/// `self ** number`.
pub fn pow_number(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = elementwise(context, &[source], call.result(0)?.dtype);
    let edge = record(context, &[Some(source)], &[Some(source)], &result, pow_operator(call));
    Ok(smallvec![result.with_edge(edge)])
}

/// `self **= number`.
pub fn pow_number_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    super::formula::run_in_place(context, call, pow_operator(call))
}

fn pow_operator(call: &Call<'_>) -> &'static Elementwise {
    static POW: Elementwise =
        super::unary::of_input(&[(0, Steps(&[Like(&[Saved(0)]), Like(&[Made(0)]), Like(&[G, Made(1)])]))]);
    static POW_ZERO: Elementwise = super::unary::of_input(&[(0, Steps(&[Like(&[Saved(0)])]))]);
    if call.float(1).is_ok_and(|exponent| exponent == 0.0) { &POW_ZERO } else { &POW }
}

/// `self ** other`, both tensors.
pub fn pow_tensor(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (base, exponent) = (call.tensor(0)?, call.tensor(1)?);
    let result = elementwise(context, &[base, exponent], call.result(0)?.dtype);
    let kept = result.detach();
    let inputs = [Some(base), Some(exponent)];
    let saved = [Some(base), Some(exponent), None, Some(&kept)];
    let edge = record(context, &inputs, &saved, &result, &POW_TENSOR);
    drop(kept);
    Ok(smallvec![result.with_edge(edge)])
}

/// `where`, with numbers made into tensors of one element on the GPU.
pub fn choose(context: &mut Context, call: &Call<'_>) -> Outcome {
    let condition = call.tensor(0)?;
    let (first, second) = (call.optional_tensor(1), call.optional_tensor(2));
    let dtype = call.result(0)?.dtype;
    let as_tensor = |context: &Context, given: Option<&Tensor>| match given {
        Some(tensor) if tensor.dtype() != dtype && !tensor.is_on_host() => context.empty(tensor.like(dtype)),
        Some(tensor) => tensor.clone(),
        None => context.empty_contiguous(dtype, &[]),
    };
    let one = as_tensor(context, first);
    let other = as_tensor(context, second);
    let operands: smallvec::SmallVec<[&Tensor; 3]> =
        [condition, &one, &other].into_iter().filter(|tensor| !tensor.is_on_host()).collect();
    let result = elementwise(context, &operands, dtype);
    let inputs = [first, second, Some(condition)];
    let edge = record(context, &inputs, &inputs, &result, &WHERE);
    Ok(smallvec![result.with_edge(edge)])
}

/// `masked_fill`: a contiguous copy, filled.
pub fn masked_fill(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, mask) = (call.tensor(0)?, call.tensor(1)?);
    // The gradient of the value sums what the mask selects, and how much that is does not show.
    if context.is_grad_on() && call.optional_tensor(2).is_some_and(Tensor::requires_grad) {
        return Err(Unmodelled);
    }
    let layout = Layout::broadcast(&[source.layout(), mask.layout()], source.dtype());
    let result = context.empty_contiguous(source.dtype(), &layout.shape);
    let inputs = [Some(source), Some(mask)];
    let edge = record(context, &inputs, &inputs, &result, &MASKED_FILL);
    Ok(smallvec![result.with_edge(edge)])
}

/// `clamp` between tensors. Saved: the bounds, the upper one first, and the input. The bounds' gradients are found first.
#[derive(Debug)]
struct Clamped;

impl Backward for Clamped {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let saved: smallvec::SmallVec<[Option<Tensor>; 4]> = node.saved.borrow().iter().cloned().collect();
        let [Some(high), Some(low), Some(source)] = [saved.first(), saved.get(1), saved.get(2)] else {
            return smallvec![None, None, None];
        };
        let Some(source) = source else { return smallvec![None, None, None] };
        let truth = Dtype::Bool;
        // Where the input is beyond one bound, and the bounds are in order.
        let chosen = |context: &Context, pairs: &[[&Tensor; 2]], zero: &Tensor| {
            let mut masks: smallvec::SmallVec<[Tensor; 2]> =
                pairs.iter().map(|pair| elementwise(context, pair, truth)).collect();
            let result = elementwise(context, &[&masks[0], &gradient, zero], gradient.dtype());
            while masks.pop().is_some() {}
            result
        };
        let zero = |context: &Context| context.empty_contiguous(gradient.dtype(), &[]);
        let (mut of_low, mut of_high) = (None, None);
        if node.wants(1) || node.wants(2) {
            let zero = zero(context);
            let order: Option<[&Tensor; 2]> = low.as_ref().zip(high.as_ref()).map(|(low, high)| [low, high]);
            let of_bound = |context: &Context, bound: &Tensor| {
                let pairs: smallvec::SmallVec<[[&Tensor; 2]; 2]> =
                    [Some([source, bound]), order].into_iter().flatten().collect();
                chosen(context, &pairs, &zero)
            };
            of_low = low.as_ref().filter(|_| node.wants(1)).map(|low| of_bound(context, low));
            of_high = high.as_ref().filter(|_| node.wants(2)).map(|high| of_bound(context, high));
        }
        let of_source = node.wants(0).then(|| {
            let zero = zero(context);
            let pairs: smallvec::SmallVec<[[&Tensor; 2]; 2]> =
                [low, high].into_iter().flatten().map(|bound| [source, bound]).collect();
            chosen(context, &pairs, &zero)
        });
        smallvec![of_source, of_low, of_high]
    }
}

/// `clamp` between tensors.
pub fn clamp_tensors(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, low, high) = (call.tensor(0)?, call.optional_tensor(1), call.optional_tensor(2));
    let operands: smallvec::SmallVec<[&Tensor; 3]> =
        [Some(source), low, high].into_iter().flatten().filter(|tensor| !tensor.is_on_host()).collect();
    let result = elementwise(context, &operands, call.result(0)?.dtype);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![high.cloned(), low.cloned(), Some(source.clone())];
    let edge = context.record(&[Some(source), low, high], 1, saved, Clamped);
    Ok(smallvec![result.with_edge(edge)])
}

/// `first - second`, in the graph.
pub fn subtract(context: &mut Context, first: &Tensor, second: &Tensor) -> Tensor {
    let result = elementwise(context, &[first, second], promote(&[first, second]));
    let kind = Added { is_difference: true, is_scaled: false };
    let edge = context.record(&[Some(first), Some(second)], 1, |_| smallvec![], kind);
    result.with_edge(edge)
}

/// `target += other` on a temporary that nothing else knows.
pub fn add_into(context: &mut Context, target: &Tensor, other: &Tensor) -> Outcome {
    let kind = Added { is_difference: false, is_scaled: false };
    let edge = context.record(&[Some(target), Some(other)], 1, |_| smallvec![], kind);
    Ok(smallvec![target.detach().with_edge(edge)])
}

/// `number ** self`: the number goes to the GPU.
pub fn number_pow(context: &mut Context, call: &Call<'_>) -> Outcome {
    static POWER: Elementwise = Elementwise {
        inputs: &[1],
        saves: &[Save::Input(0), Save::Result],
        gradients: &[(0, Steps(&[Like(&[Saved(1)]), Like(&[G, Made(0)])]))],
    };
    let exponent = call.tensor(1)?;
    let result = elementwise(context, &[exponent], call.result(0)?.dtype);
    drop(context.scratch(8));
    let edge = record(context, &[Some(exponent)], &[Some(exponent)], &result, &POWER);
    Ok(smallvec![result.with_edge(edge)])
}

/// The angle of two coordinates: both gradients are found by one function.
pub fn atan2(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Angle;
    impl Backward for Angle {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let (other, source) = (node.saved(0), node.saved(1));
            let dtype = gradient.dtype();
            let one = elementwise(context, &[&source], dtype);
            let two = elementwise(context, &[&other], dtype);
            let squares = elementwise(context, &[&one, &two], dtype);
            drop(two);
            drop(one);
            let inverse = elementwise(context, &[&squares], dtype);
            drop(elementwise(context, &[&squares], Dtype::Bool));
            let mut first = None;
            let mut left = smallvec::SmallVec::<[Tensor; 4]>::new();
            if node.wants(0) {
                let product = elementwise(context, &[&gradient, &other], dtype);
                first = Some(elementwise(context, &[&product, &inverse], dtype));
                left.push(product);
            }
            let mut second = None;
            if node.wants(1) {
                let turned = elementwise(context, &[&source], dtype);
                let product = elementwise(context, &[&gradient, &turned], dtype);
                second = Some(elementwise(context, &[&product, &inverse], dtype));
                left.push(turned);
                left.push(product);
            }
            while left.pop().is_some() {}
            drop(inverse);
            drop(squares);
            smallvec![first, second]
        }
    }
    let (source, other) = (call.tensor(0)?, call.tensor(1)?);
    let result = elementwise(context, &[source, other], call.result(0)?.dtype);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(other.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source), Some(other)], 1, saved, Angle);
    Ok(smallvec![result.with_edge(edge)])
}
