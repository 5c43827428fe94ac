//! `MultiheadAttention` of a sequence to itself, and `TransformerEncoderLayer`.

use super::super::arguments::{Given, Made, boolean, contiguous, float, int, ints, maybe};
use super::super::call::{Arguments, LayerCall};
use super::super::dimension::{Dimension, product, row_major};
use super::super::error::{Fault, SketchError};
use super::super::node::{Node, Run, parameter_of};
use super::super::tensor::{Tensor, drop_in_order};
use super::{activation, linear, norm};
use vramfit_graph::model::Argument;

pub(super) const NAMES: [&str; 2] = ["MultiheadAttention", "TransformerEncoderLayer"];

pub(super) fn build(call: &LayerCall, location: &str) -> Option<Result<Node, SketchError>> {
    Some(match call.class.as_str() {
        "MultiheadAttention" => attention(call, location),
        _ => encoder(call, location),
    })
}

/// An attention's numbers.
#[derive(Clone, Copy)]
struct Heads {
    width: i64,
    count: i64,
    dropout: f64,
    has_bias: bool,
    is_batch_first: bool,
}

fn heads(arguments: &Arguments<'_>, width: &str, count: &str, dropout: f64) -> Result<Heads, SketchError> {
    let heads = Heads {
        width: arguments.count(width)?,
        count: arguments.count(count)?,
        dropout: arguments.float_or("dropout", dropout)?,
        has_bias: arguments.bool_or("bias", true)?,
        is_batch_first: arguments.bool_or("batch_first", false)?,
    };
    if heads.width % heads.count != 0 {
        return Err(arguments.unfit(count, &format!("a divisor of {width}, which is {}", heads.width)));
    }
    Ok(heads)
}

fn attention(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let arguments = Arguments::new(call, location, &["embed_dim", "num_heads", "dropout", "bias", "batch_first"])?;
    Ok(attention_node(heads(&arguments, "embed_dim", "num_heads", 0.0)?))
}

fn attention_node(heads: Heads) -> Node {
    let width = heads.width;
    let node = Node::new("MultiheadAttention", move |run, input| {
        check_sequence(input, heads)?;
        let is_fast = run.is_plain_inference() && heads.is_batch_first && heads.has_bias && heads.count % 2 == 0;
        Ok(if is_fast { native(run, input, heads) } else { step_by_step(run, input, heads) })
    });
    let projection = linear::linear_node("NonDynamicallyQuantizableLinear", width, width, heads.has_bias);
    node.with_parameter("in_proj_weight", &[3 * width, width])
        .with_parameter_if(heads.has_bias, "in_proj_bias", &[3 * width])
        .with_child("out_proj", projection)
}

fn check_sequence(input: &Tensor, heads: Heads) -> Result<(), Fault> {
    let last = input.shape().last().and_then(Dimension::known);
    if input.shape().len() == 3 && last == Some(heads.width) {
        return Ok(());
    }
    let sizes = if heads.is_batch_first { "batch, seq" } else { "seq, batch" };
    Err(Fault::Needed(format!("[{sizes}, {}] is needed", heads.width)))
}

fn out_projection(run: &Run<'_>) -> (Option<Tensor>, Option<Tensor>) {
    let child = &run.node.children[0];
    (parameter_of(run.tape, child, "weight"), parameter_of(run.tape, child, "bias"))
}

/// The fused kernel of inference.
fn native(run: &Run<'_>, input: &Tensor, heads: Heads) -> Tensor {
    let (weight, bias) = out_projection(run);
    let none = || Given::Plain(Argument::None);
    let mut given = vec![Given::Tensor(input.clone()); 3];
    given.extend([int(heads.width), int(heads.count)]);
    given.extend([maybe(run.parameter("in_proj_weight")), maybe(run.parameter("in_proj_bias"))]);
    given.extend([maybe(weight), maybe(bias), none(), boolean(false), boolean(true), none()]);
    let made = Made::contiguous(input.shape().to_vec());
    run.tape.call_with_undefined("aten._native_multi_head_attention.default", given, made)
}

/// As `torch.nn.functional.multi_head_attention_forward` goes about it.
fn step_by_step(run: &Run<'_>, input: &Tensor, heads: Heads) -> Tensor {
    let tape = run.tape;
    let first = if heads.is_batch_first { swap(run, input) } else { input.clone() };
    let (seq, batch) = (first.shape()[0].clone(), first.shape()[1].clone());
    let width = Dimension::Known(heads.width);
    let head = Dimension::Known(heads.width / heads.count);
    let (weight, bias) = (run.parameter("in_proj_weight"), run.parameter("in_proj_bias"));
    let projected = linear::apply(run, &first, weight, bias, 3 * heads.width);
    let parts = split(run, projected, &seq, &batch, heads.width);
    let all_heads = batch.times(&heads.count.into());
    let mut turned = Vec::new();
    for part in parts {
        let shape = vec![seq.clone(), all_heads.clone(), head.clone()];
        let viewed =
            tape.view("aten.view.default", &part, vec![Given::Ints(shape.clone())], shape, None, part.offset());
        turned.push(transpose(run, &viewed, 0, 1));
        drop_in_order([viewed, part]);
    }
    let row = width.times(&batch);
    let mut shaped = Vec::new();
    for part in turned {
        let shape = vec![batch.clone(), heads.count.into(), seq.clone(), head.clone()];
        let strides = vec![width.clone(), head.clone(), row.clone(), 1.into()];
        let given = vec![Given::Ints(shape.clone())];
        shaped.push(tape.view("aten.view.default", &part, given, shape, Some(strides), part.offset()));
    }
    let attended = attend(run, &shaped, heads);
    let strides = row_major(attended.shape());
    let order = [2, 0, 1, 3];
    let pick = |list: &[Dimension]| order.map(|at: usize| list[at].clone()).to_vec();
    let (shape, strides) = (pick(attended.shape()), pick(&strides));
    let given = vec![ints(&order.map(|at| at as i64))];
    let permuted = tape.view("aten.permute.default", &attended, given, shape.clone(), Some(strides), 0.into());
    let given = vec![Given::Tensor(permuted.clone()), contiguous()];
    let copied = run.one("aten.contiguous.default", given, Made::contiguous(shape));
    drop(permuted);
    let shape = vec![seq.times(&batch), width.clone()];
    let flat = tape.view("aten.view.default", &copied, vec![Given::Ints(shape.clone())], shape, None, 0.into());
    drop_in_order([copied, attended]);
    let (weight, bias) = out_projection(run);
    let output = linear::apply(run, &flat, weight, bias, heads.width);
    drop(flat);
    let shape = vec![seq, batch, width];
    let result = tape.view("aten.view.default", &output, vec![Given::Ints(shape.clone())], shape, None, 0.into());
    drop(output);
    drop_in_order(shaped);
    if !heads.is_batch_first {
        return result;
    }
    let swapped = swap(run, &result);
    drop_in_order([first, result]);
    swapped
}

/// Queries, keys and values of a projection that made them at once.
fn split(run: &Run<'_>, projected: Tensor, seq: &Dimension, batch: &Dimension, width: i64) -> Vec<Tensor> {
    let tape = run.tape;
    let dim = |value: i64| Dimension::Known(value);
    let shape = vec![seq.clone(), batch.clone(), dim(3), dim(width)];
    let given = vec![int(-1), ints(&[3, width])];
    let unflattened = tape.view("aten.unflatten.int", &projected, given, shape, None, 0.into());
    let shape = vec![dim(1), seq.clone(), batch.clone(), dim(3), dim(width)];
    let unsqueezed = tape.view("aten.unsqueeze.default", &unflattened, vec![int(0)], shape, None, 0.into());
    drop(unflattened);
    let shape = vec![dim(3), seq.clone(), batch.clone(), dim(1), dim(width)];
    let row = batch.times(&dim(3 * width));
    let strides = vec![dim(width), row.clone(), dim(3 * width), row.times(seq), dim(1)];
    let given = vec![int(0), int(-2)];
    let turned = tape.view("aten.transpose.int", &unsqueezed, given, shape, Some(strides), 0.into());
    drop(unsqueezed);
    let shape = vec![dim(3), seq.clone(), batch.clone(), dim(width)];
    let strides = vec![dim(width), row, dim(3 * width), dim(1)];
    let squeezed = tape.view("aten.squeeze.dim", &turned, vec![int(-2)], shape.clone(), Some(strides), 0.into());
    drop(turned);
    let given = vec![Given::Tensor(squeezed.clone()), contiguous()];
    let copied = run.one("aten.contiguous.default", given, Made::contiguous(shape));
    drop_in_order([squeezed, projected]);
    let shape = vec![seq.clone(), batch.clone(), dim(width)];
    let size = product(&shape);
    (0..3)
        .map(|at| {
            let given = vec![int(0), int(at)];
            tape.view("aten.select.int", &copied, given, shape.clone(), None, size.times(&dim(at)))
        })
        .collect()
}

fn attend(run: &Run<'_>, parts: &[Tensor], heads: Heads) -> Tensor {
    let mut given: Vec<Given> = parts.iter().cloned().map(Given::Tensor).collect();
    let share = if run.is_training() { heads.dropout } else { 0.0 };
    given.extend([Given::Plain(Argument::None), float(share), boolean(false)]);
    run.one("aten.scaled_dot_product_attention.default", given, Made::contiguous(parts[0].shape().to_vec()))
}

fn transpose(run: &Run<'_>, tensor: &Tensor, left: usize, right: usize) -> Tensor {
    let (mut shape, mut strides) = (tensor.shape().to_vec(), tensor.strides_or_row_major());
    shape.swap(left, right);
    strides.swap(left, right);
    let given = vec![int(left as i64), int(right as i64)];
    run.tape.view("aten.transpose.int", tensor, given, shape, Some(strides), tensor.offset())
}

/// `transpose(1, 0)`: batch and sequence are swapped.
fn swap(run: &Run<'_>, tensor: &Tensor) -> Tensor {
    let (mut shape, mut strides) = (tensor.shape().to_vec(), tensor.strides_or_row_major());
    shape.swap(0, 1);
    strides.swap(0, 1);
    run.tape.view("aten.transpose.int", tensor, vec![int(1), int(0)], shape, Some(strides), tensor.offset())
}

fn encoder(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    let names = [
        "d_model",
        "nhead",
        "dim_feedforward",
        "dropout",
        "activation",
        "layer_norm_eps",
        "batch_first",
        "norm_first",
        "bias",
    ];
    let arguments = Arguments::new(call, location, &names)?;
    let heads = heads(&arguments, "d_model", "nhead", 0.1)?;
    let (width, inner) = (heads.width, arguments.count_or("dim_feedforward", 2048)?);
    let gelu = match arguments.text_or("activation", "relu")?.as_str() {
        "relu" => false,
        "gelu" => true,
        _ => return Err(arguments.unfit("activation", "'relu' or 'gelu'")),
    };
    let norm_first = arguments.bool_or("norm_first", false)?;
    let (eps, bias) = (arguments.float_or("layer_norm_eps", 1e-5)?, heads.has_bias);
    let node = Node::new("TransformerEncoderLayer", move |run, input| {
        check_sequence(input, heads)?;
        if run.is_plain_inference() && heads.is_batch_first && bias && heads.count % 2 == 0 {
            return Ok(fused_encoder(run, input, heads, gelu, norm_first, eps));
        }
        let (norm1, norm2) = (child(run, "norm1")?, child(run, "norm2")?);
        if norm_first {
            let normed = run.call(norm1, input)?;
            let attended = self_attention(run, normed)?;
            let sum = run.add_to(input, &attended);
            drop(attended);
            let normed = run.call(norm2, &sum)?;
            let fed = feed_forward(run, Feed::Owned(normed), gelu)?;
            let result = run.add_to(&sum, &fed);
            drop_in_order([fed, sum]);
            return Ok(result);
        }
        let attended = self_attention(run, input.clone())?;
        let sum = run.add_to(input, &attended);
        drop(attended);
        let middle = run.call(norm1, &sum)?;
        drop(sum);
        let fed = feed_forward(run, Feed::Held(&middle), gelu)?;
        let sum = run.add_to(&middle, &fed);
        drop(fed);
        let result = run.call(norm2, &sum)?;
        drop_in_order([sum, middle]);
        Ok(result)
    });
    let norm = || norm::layer_norm_node(vec![width], eps, true, bias);
    let dropout = || activation::dropout_node("Dropout", heads.dropout, false);
    Ok(node
        .with_child("self_attn", attention_node(heads))
        .with_child("linear1", linear::linear_node("Linear", width, inner, bias))
        .with_child("dropout", dropout())
        .with_child("linear2", linear::linear_node("Linear", inner, width, bias))
        .with_child("norm1", norm())
        .with_child("norm2", norm())
        .with_child("dropout1", dropout())
        .with_child("dropout2", dropout()))
}

fn child<'a>(run: &Run<'a>, name: &str) -> Result<&'a Node, Fault> {
    let found = run.node.children.iter().find(|child| child.name == name);
    found.ok_or_else(|| Fault::Needed(format!("it has no {name}")))
}

fn self_attention(run: &Run<'_>, input: Tensor) -> Result<Tensor, Fault> {
    let inputs = [input.clone(), input.clone(), input.clone()];
    let attended = run.call_with(child(run, "self_attn")?, &inputs)?;
    drop(inputs);
    drop(input);
    run.call(child(run, "dropout1")?, &attended)
}

/// The input of the feed-forward part: owned, and dropped when it is no longer needed, or one that is needed afterwards.
enum Feed<'a> {
    Owned(Tensor),
    Held(&'a Tensor),
}

fn feed_forward(run: &Run<'_>, feed: Feed<'_>, gelu: bool) -> Result<Tensor, Fault> {
    let input = match &feed {
        Feed::Owned(tensor) => tensor,
        Feed::Held(tensor) => tensor,
    };
    let wide = run.call(child(run, "linear1")?, input)?;
    let active = if gelu {
        run.pointwise("aten.gelu.default", &wide, vec![Given::Plain(Argument::Text("none".to_owned()))])
    } else {
        run.pointwise("aten.relu.default", &wide, Vec::new())
    };
    drop(wide);
    let dropped = run.call(child(run, "dropout")?, &active)?;
    drop(active);
    let narrow = run.call(child(run, "linear2")?, &dropped)?;
    drop(dropped);
    drop(feed);
    run.call(child(run, "dropout2")?, &narrow)
}

/// The fused kernel of inference.
fn fused_encoder(run: &Run<'_>, input: &Tensor, heads: Heads, gelu: bool, norm_first: bool, eps: f64) -> Tensor {
    let attention = &run.node.children[0];
    let weight = |node: &Node, name: &str| maybe(parameter_of(run.tape, node, name));
    let both = |name: &str| {
        let node = run.node.children.iter().find(|child| child.name == name).unwrap_or(run.node);
        [weight(node, "weight"), weight(node, "bias")]
    };
    let mut given = vec![Given::Tensor(input.clone()), int(heads.width), int(heads.count)];
    given.extend([weight(attention, "in_proj_weight"), weight(attention, "in_proj_bias")]);
    given.extend([weight(&attention.children[0], "weight"), weight(&attention.children[0], "bias")]);
    given.extend([boolean(gelu), boolean(norm_first), float(eps)]);
    given.extend(["norm1", "norm2", "linear1", "linear2"].into_iter().flat_map(both));
    run.one("aten._transformer_encoder_layer_fwd.default", given, Made::contiguous(input.shape().to_vec()))
}
