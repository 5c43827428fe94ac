//! A loss for models that return none.

use smallvec::smallvec;
use vramfit_graph::bind::{BoundTensor, Value};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::TensorId;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Category;
use vramfit_eager::operators::{Call, MemoryRule, facts, find};
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::{Layout, contiguous_strides};

use crate::script::AddedLoss;

/// The loss of a model's first floating-point output; the operator's name as an error where it has no rule.
pub(super) fn added_loss<'a>(
    context: &mut Context,
    kind: AddedLoss,
    mut outputs: impl Iterator<Item = &'a Tensor>,
    classes: &mut Option<Tensor>,
) -> Result<Option<Tensor>, &'static str> {
    let Some(output) = outputs.find(|output| output.dtype().is_differentiable()) else { return Ok(None) };
    match kind {
        AddedLoss::None => Ok(None),
        AddedLoss::Mean => {
            call(context, "aten.mean.default", &[Some(output.clone())], &[Value::None], output.dtype(), &[]).map(Some)
        }
        AddedLoss::CrossEntropy => cross_entropy(context, output, classes).map(Some),
    }
}

fn cross_entropy(context: &mut Context, output: &Tensor, classes: &mut Option<Tensor>) -> Result<Tensor, &'static str> {
    let shape = output.shape();
    let Some(&last) = shape.last() else { return Err("aten.cross_entropy_loss.default") };
    let logits = if shape.len() == 3 {
        let flat = [shape[0] * shape[1], last];
        let wanted = Value::List(flat.iter().map(|&size| Value::Int(size)).collect());
        call(context, "aten.reshape.default", &[Some(output.clone())], &[wanted], output.dtype(), &flat)?
    } else {
        output.clone()
    };
    let target = classes.get_or_insert_with(|| {
        context.memory().borrow_mut().set_category(Category::Inputs);
        let shape: Dims =
            logits.shape().iter().enumerate().filter(|(dim, _)| *dim != 1).map(|(_, &size)| size).collect();
        let target = context.empty(Layout::contiguous(Dtype::Int64, &shape));
        context.memory().borrow_mut().set_category(Category::Activations);
        target
    });
    let tensors = [Some(logits.clone()), Some(target.clone())];
    let rest = [Value::None, Value::Int(1), Value::Int(-100), Value::Float(0.0)];
    call(context, "aten.cross_entropy_loss.default", &tensors, &rest, logits.dtype(), &[])
}

/// Calls an operator with tensors, then `rest`, as arguments.
fn call(
    context: &mut Context,
    name: &'static str,
    tensors: &[Option<Tensor>],
    rest: &[Value],
    dtype: Dtype,
    shape: &[i64],
) -> Result<Tensor, &'static str> {
    let mut arguments: Vec<Value> = (0..tensors.len() as u32).map(|id| Value::Tensor(TensorId(id))).collect();
    arguments.extend_from_slice(rest);
    let elements: i64 = shape.iter().product();
    let result = BoundTensor {
        dtype,
        shape: shape.into(),
        strides: contiguous_strides(shape),
        storage: 0,
        offset: 0,
        elements,
        bytes: elements.unsigned_abs() * dtype.bytes(),
        extent: elements.unsigned_abs() * dtype.bytes(),
        requires_grad: true,
        is_leaf: false,
        is_on_host: false,
        is_view: false,
    };
    let view = Call { arguments: &arguments, tensors, captured: smallvec![Some(&result)] };
    let MemoryRule::Modelled(rule) = facts(find(name)).memory else { return Err(name) };
    rule(context, &view).ok().and_then(|mut results| results.pop()).ok_or(name)
}
