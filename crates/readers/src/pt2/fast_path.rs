//! The fused operators that `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` call in evaluation without gradients and
//! autocast. An export for training has the other branch of their `forward`.

use super::flatten::{Flat, FlatCall, Item};
use super::operators::Operators;
use vramfit_graph::model::{Argument, Size, TensorId};

const ATTENTION: &str = "MultiheadAttention";
const FUSED_ATTENTION: &str = "aten._native_multi_head_attention.default";
/// Weights and biases of the two projections.
const ATTENTION_WEIGHTS: usize = 4;
const LAYER: &str = "TransformerEncoderLayer";
const FUSED: &str = "aten._transformer_encoder_layer_fwd.default";
/// Weights and biases of the two projections of attention, of two linear layers and of two norms.
const WEIGHTS: usize = 12;

/// The call that replaces the encoder layer whose calls begin at `start`, and where they end. `None` where none begins there,
/// or it does not meet PyTorch's conditions: batch first, an even number of heads, all biases, ReLU or GELU, no mask (with a
/// mask the fused layer differs; such a layer is left as it is).
pub(super) fn fused_layer(flat: &Flat, operators: &mut Operators, start: usize) -> Option<(FlatCall, usize)> {
    let calls = calls_from(flat, LAYER, start)?;
    let count = calls.len();
    let named = |name: &str| calls.iter().find(|call| operators.name(call.operator) == name).copied();
    let attention = named("aten.scaled_dot_product_attention.default")?;
    if attention.arguments.get(3) != Some(&Argument::None) {
        return None;
    }
    let is_gelu = named("aten.gelu.default").is_some();
    if !is_gelu && named("aten.relu.default").is_none() {
        return None;
    }
    let weights = weights(flat, &calls, WEIGHTS)?;
    let source = first_tensor(calls.first()?)?;
    // torch's attention transposes its input to sequence first if the batch is first.
    let turned = calls.iter().find(|call| operators.name(call.operator) == "aten.transpose.int")?;
    let is_norm_first = rank(flat, weights[0]) == 1;
    let read = if is_norm_first { calls.first()?.results.first().copied().flatten()? } else { source };
    if first_tensor(turned) != Some(read) {
        return None;
    }
    let (heads, width) = (known_size(flat, first_tensor(attention)?, 1)?, known_size(flat, source, 2)?);
    if heads % 2 != 0 {
        return None;
    }
    let [input, output, first, second] = if is_norm_first { [2, 4, 8, 10] } else { [0, 2, 6, 8] };
    let [before, after] = if is_norm_first { [0, 6] } else { [4, 10] };
    let operator = operators.number(FUSED);
    let mut arguments = operators.defaults(operator);
    arguments[0] = Argument::Tensor(source);
    arguments[1] = Argument::Int(Size::Known(width));
    arguments[2] = Argument::Int(Size::Known(heads));
    arguments[7] = Argument::Bool(is_gelu);
    arguments[8] = Argument::Bool(is_norm_first);
    for (at, weight) in [(3, input), (5, output), (10, before), (12, after), (14, first), (16, second)] {
        arguments[at] = Argument::Tensor(weights[weight]);
        arguments[at + 1] = Argument::Tensor(weights[weight + 1]);
    }
    // The layer's own code adds, its submodules do not.
    let own = calls.iter().find(|call| operators.name(call.operator) == "aten.add.Tensor")?;
    let results = calls.last()?.results.clone();
    Some((FlatCall { operator, arguments, results, site: own.site, is_by_method: false }, start + count))
}

/// The call that replaces the self-attention whose calls begin at `start`, and where they end. `None` where none begins there, or
/// it does not meet PyTorch's conditions: batch first, an even number of heads, all biases, one source, no mask, no weights
/// returned.
pub(super) fn fused_attention(flat: &Flat, operators: &mut Operators, start: usize) -> Option<(FlatCall, usize)> {
    let calls = calls_from(flat, ATTENTION, start)?;
    let named = |call: &FlatCall, name: &str| operators.name(call.operator) == name;
    let attention = calls.iter().find(|call| named(call, "aten.scaled_dot_product_attention.default"))?;
    let (first, last) = (calls.first()?, calls.last()?);
    let is_turned = |call: &FlatCall| named(call, "aten.transpose.int");
    if attention.arguments.get(3) != Some(&Argument::None) || !is_turned(first) || !is_turned(last) {
        return None;
    }
    let weights = weights(flat, &calls, ATTENTION_WEIGHTS)?;
    let source = first_tensor(first)?;
    // With several sources the input projection is split.
    let is_one = |call: &&&FlatCall| call.arguments.get(1) == Some(&Argument::Tensor(weights[0]));
    if calls.iter().filter(is_one).count() != 1 {
        return None;
    }
    let (heads, width) = (known_size(flat, first_tensor(attention)?, 1)?, known_size(flat, source, 2)?);
    if heads % 2 != 0 {
        return None;
    }
    let operator = operators.number(FUSED_ATTENTION);
    let mut arguments = operators.defaults(operator);
    arguments[..3].fill(Argument::Tensor(source));
    arguments[3] = Argument::Int(Size::Known(width));
    arguments[4] = Argument::Int(Size::Known(heads));
    for (at, weight) in (5..).zip(&weights) {
        arguments[at] = Argument::Tensor(*weight);
    }
    arguments[10] = Argument::Bool(false);
    let results = vec![last.results.first().copied().flatten(), None];
    let call = FlatCall { operator, arguments, results, site: first.site, is_by_method: false };
    Some((call, start + calls.len()))
}

/// The calls in the module of this class that begins at `start`.
fn calls_from<'a>(flat: &'a Flat, class: &str, start: usize) -> Option<Vec<&'a FlatCall>> {
    let module = module_at(flat, &flat.items[start], class)?;
    if start > 0 && module_at(flat, &flat.items[start - 1], class) == Some(module) {
        return None;
    }
    let items = flat.items[start..].iter().take_while(|item| module_at(flat, item, class) == Some(module));
    Some(items.filter_map(call_of).collect())
}

fn known_size(flat: &Flat, tensor: TensorId, dim: usize) -> Option<i64> {
    match flat.values[tensor.0 as usize].shape.get(dim) {
        Some(Size::Known(size)) => Some(*size),
        _ => None,
    }
}

fn call_of(item: &Item) -> Option<&FlatCall> {
    match item {
        Item::Call(call) => Some(call),
        _ => None,
    }
}

/// The running call of a module of this class that a call is made in.
fn module_at(flat: &Flat, item: &Item, class: &str) -> Option<u32> {
    let sites = &flat.sites;
    let class_of = |call: u32| sites.modules[sites.calls[call as usize].module as usize].class.as_str();
    let running = &sites.get(call_of(item)?.site).calls;
    running.iter().copied().find(|&call| class_of(call) == class)
}

fn first_tensor(call: &FlatCall) -> Option<TensorId> {
    match call.arguments.first() {
        Some(Argument::Tensor(tensor)) => Some(*tensor),
        _ => None,
    }
}

fn rank(flat: &Flat, tensor: TensorId) -> usize {
    flat.values[tensor.0 as usize].shape.len()
}

/// The weights in the order of their use, each matrix or scale with its bias; `None` where they are not as many as this.
fn weights(flat: &Flat, calls: &[&FlatCall], count: usize) -> Option<Vec<TensorId>> {
    let mut found: Vec<TensorId> = Vec::with_capacity(count);
    for call in calls {
        call.each_tensor(&mut |tensor| {
            if (tensor.0 as usize) < flat.weights && !found.contains(&tensor) {
                found.push(tensor);
            }
        });
    }
    let has_biases = found.chunks(2).all(|pair| pair.len() == 2 && rank(flat, pair[1]) == 1);
    (found.len() == count && has_biases).then_some(found)
}
