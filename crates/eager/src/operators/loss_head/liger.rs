//! `LigerFusedLinearCrossEntropyFunction` of liger-kernel: forward computes the loss and its gradients chunk by chunk, and
//! keeps the gradients; backward returns them. Triton's kernels take no memory from PyTorch.

use smallvec::smallvec;
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::super::call::Unmodelled;
use super::call;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::reduce::Reduction;

/// What the function is given: rows of hidden states, the weight and the bias.
pub(crate) struct Inputs<'a> {
    pub hidden: &'a Tensor,
    pub weight: &'a Tensor,
    pub bias: Option<&'a Tensor>,
    pub labels: &'a Tensor,
}

/// Saved: the gradients of hidden states, weight and bias.
#[derive(Debug)]
struct Fused;

impl Backward for Fused {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].as_ref() else { return smallvec![None, None, None] };
        // `torch.equal(grad_output, torch.tensor(1.0))`.
        let one = context.empty_contiguous(Dtype::Float32, &[]);
        let is_equal = context.empty(gradient.like(Dtype::Bool));
        let are_all = context.empty_contiguous(Dtype::Bool, &[]);
        drop(are_all);
        drop(is_equal);
        drop(one);
        let saved = node.saved.borrow();
        (0..3).map(|index| saved.get(index).cloned().flatten().filter(|_| node.wants(index))).collect()
    }

    fn saves_afterwards(&self) -> bool {
        true
    }
}

/// The loss. `cast_weight` is the cast of the weight that autocast keeps, which is made where it is first used.
pub(crate) fn fused_loss(
    context: &mut Context,
    inputs: &Inputs<'_>,
    cast_weight: &mut dyn FnMut(&mut Context) -> Option<Tensor>,
) -> Result<Tensor, Unmodelled> {
    let Inputs { hidden, weight, bias, labels } = *inputs;
    let (&[rows, width], &[classes, _]) = (hidden.shape(), weight.shape()) else { return Err(Unmodelled) };
    let was_grad_on = context.is_grad_on();
    let wants_any = was_grad_on && hidden.requires_grad();
    context.set_grad(false);
    let zeros_like = |context: &Context, tensor: &Tensor| context.empty(tensor.like(tensor.dtype()));
    let of_hidden = zeros_like(context, hidden);
    let of_weight = (wants_any && weight.requires_grad()).then(|| zeros_like(context, weight));
    let of_bias = bias.filter(|_| wants_any).map(|bias| zeros_like(context, bias));
    let losses = context.empty_contiguous(Dtype::Float32, &[rows]);
    let counted = call(context, "aten.ne.Scalar", &[labels], &[Value::Int(-100)], (Dtype::Bool, labels.shape()))?;
    drop(call(context, "aten.sum.default", &[&counted], &[Value::None], (Dtype::Int64, &[]))?);
    let amp = context.autocast();
    let multiplies_in_place = hidden.dtype() == weight.dtype() && amp.is_none_or(|amp| hidden.dtype() == amp);
    let length = chunk_length(rows, width, classes);
    let has_buffer = multiplies_in_place && bias.is_none_or(|bias| bias.dtype() == hidden.dtype());
    let buffer = has_buffer.then(|| context.empty_contiguous(hidden.dtype(), &[length, classes]));
    let mut done = 0;
    while done < rows {
        let count = length.min(rows - done);
        let chunk = Chunk { inputs, count, amp, multiplies_in_place };
        let logits = match &buffer {
            Some(_) => {
                context.use_blas();
                None
            }
            None => Some(chunk.logits(context)),
        };
        if wants_any {
            let dtype = logits.as_ref().map_or(hidden.dtype(), Tensor::dtype);
            chunk.gradients(context, dtype, (of_weight.as_ref(), of_bias.is_some()), cast_weight)?;
        }
        drop(logits);
        done += count;
    }
    drop(buffer);
    let loss = call(context, "aten.sum.default", &[&losses], &[Value::None], (Dtype::Float32, &[]))?;
    context.set_grad(was_grad_on);
    drop(losses);
    drop(counted);
    let saved = smallvec![Some(of_hidden), of_weight, of_bias];
    let edge = context.record(&[Some(hidden), Some(weight), bias], 1, |_| saved, Fused);
    Ok(loss.with_edge(edge))
}

/// Rows of a chunk: about as many logits as hidden states, rounded up to a power of two.
fn chunk_length(rows: i64, width: i64, classes: i64) -> i64 {
    let parts = (classes + width - 1) / width;
    let wanted = (rows + parts - 1) / parts.max(1);
    let power = u64::try_from(wanted).map_or(1, u64::next_power_of_two);
    i64::try_from(power).unwrap_or(rows).min(rows)
}

/// Some rows of the hidden states.
struct Chunk<'a> {
    inputs: &'a Inputs<'a>,
    count: i64,
    amp: Option<Dtype>,
    multiplies_in_place: bool,
}

impl Chunk<'_> {
    fn empty(&self, context: &Context, dtype: Dtype, columns: i64) -> Tensor {
        context.empty_contiguous(dtype, &[self.count, columns])
    }

    /// A copy in autocast's type, where autocast is on and the tensor is of another one.
    fn cast(&self, context: &Context, dtype: Dtype, shape: &[i64]) -> Option<Tensor> {
        self.amp.filter(|amp| *amp != dtype).map(|amp| context.empty_contiguous(amp, shape))
    }

    /// `hidden @ weight.t() + bias`: the transposed weight is no leaf, so autocast casts it for every chunk.
    fn logits(&self, context: &mut Context) -> Tensor {
        let Inputs { hidden, weight, bias, .. } = *self.inputs;
        let classes = weight.shape()[0];
        let turned = self.cast(context, weight.dtype(), weight.shape());
        let rows = self.cast(context, hidden.dtype(), &[self.count, hidden.shape()[1]]);
        let dtype = self.amp.unwrap_or(hidden.dtype());
        let logits = self.empty(context, dtype, classes);
        context.use_blas();
        drop(rows);
        drop(turned);
        let Some(bias) = bias else { return logits };
        let dtype = if bias.dtype().bytes() > dtype.bytes() { bias.dtype() } else { dtype };
        self.empty(context, dtype, classes)
    }

    /// The gradients of the chunk, whose logits are of this type.
    fn gradients(
        &self,
        context: &mut Context,
        dtype: Dtype,
        (of_weight, has_bias): (Option<&Tensor>, bool),
        cast_weight: &mut dyn FnMut(&mut Context) -> Option<Tensor>,
    ) -> Result<(), Unmodelled> {
        let Inputs { hidden, weight, .. } = *self.inputs;
        let (width, classes) = (hidden.shape()[1], weight.shape()[0]);
        if self.multiplies_in_place && dtype == hidden.dtype() {
            context.use_blas();
        } else {
            let kept = self.amp.filter(|amp| *amp != weight.dtype()).and_then(|_| cast_weight(context));
            let of_logits = self.cast(context, dtype, &[self.count, classes]);
            let product = self.empty(context, self.amp.unwrap_or(hidden.dtype()), width);
            context.use_blas();
            drop(of_logits);
            drop(kept);
            drop(product);
        }
        if let Some(of_weight) = of_weight {
            if dtype.is_half() {
                // `addmm` into the accumulator.
                let rows = (hidden.dtype() != dtype).then(|| self.empty(context, dtype, width));
                context.use_blas();
                drop(rows);
            } else {
                let rows = self.cast(context, hidden.dtype(), &[self.count, width]);
                let of_logits = self.cast(context, dtype, &[classes, self.count]);
                let product = context.empty_contiguous(self.amp.unwrap_or(dtype), of_weight.shape());
                context.use_blas();
                drop(of_logits);
                drop(rows);
                let single = (product.dtype() != Dtype::Float32)
                    .then(|| context.empty_contiguous(Dtype::Float32, of_weight.shape()));
                drop(product);
                drop(single);
            }
        }
        if has_bias {
            let summed = if self.amp.is_some() { Dtype::Float32 } else { dtype };
            let layout = Layout::contiguous(dtype, &[self.count, classes]);
            let result = context.empty_contiguous(summed, &[classes]);
            context.reduction_buffers(&layout, &[0], Reduction::summing(summed));
            drop(result);
        }
        Ok(())
    }
}
