//! What a recorded script does beside calling operators: backward passes, assignments to `.grad` and `.data`, the ends of phases.
//!
//! `forward::script` carries out what changes more than the results of one call.

use smallvec::smallvec;

use super::call::{Call, Outcome};
use super::facts::*;
use super::view::leaf_with;
use crate::autograd::{Context, Tensor};
use crate::memory::SideEventKind;

/// What the family's entries have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Nothing, Time::WAIT, Keeps::Nothing, Autocast::Unchanged, Samples::Unknown);

const fn script(call: ScriptCall) -> Facts {
    Facts { memory: Modelled(nothing), effect: Effect::Script(call), ..FAMILY }
}

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(&["vramfit.backward"], script(ScriptCall::Backward)),
    Operator::new(&["vramfit.grad"], script(ScriptCall::Gradients)),
    Operator::new(&["vramfit.set_grad"], script(ScriptCall::SetGradient)),
    Operator::new(&["vramfit.category"], script(ScriptCall::Categorize)),
    Operator::new(&["vramfit.thread"], script(ScriptCall::SwitchThread)),
    Operator::new(&["vramfit.inner_result"], script(ScriptCall::FindResult)),
    Operator::new(&["vramfit.phase"], script(ScriptCall::EndPhase)),
    Operator::new(&["vramfit.empty_cache"], script(ScriptCall::EmptyCache)),
    Operator::new(&["vramfit.process_group"], script(ScriptCall::JoinGroup)),
    Operator::new(&["vramfit.set_data"], Facts { memory: Modelled(set_data), ..FAMILY }),
    Operator::new(&["vramfit.parameter"], Facts { memory: Modelled(parameter), ..FAMILY }),
    Operator::new(&["vramfit.read", "vramfit.retain_grad"], Facts { memory: Modelled(nothing), ..FAMILY }),
    Operator::new(&["vramfit.pinned"], Facts { memory: Modelled(pinned), ..FAMILY }),
    Operator::new(&["vramfit.host_keeps"], Facts { memory: Modelled(host_keeps), ..FAMILY }),
];

fn nothing(_context: &mut Context, _call: &Call<'_>) -> Outcome {
    Ok(smallvec![])
}

/// `cudaHostAlloc` of so many bytes.
fn pinned(context: &mut Context, call: &Call<'_>) -> Outcome {
    let bytes = call.int(0)?.unsigned_abs();
    context.memory().borrow_mut().add_side_event(SideEventKind::HostPins(bytes));
    Ok(smallvec![])
}

/// The C library keeps freed blocks of up to so many bytes.
fn host_keeps(context: &mut Context, call: &Call<'_>) -> Outcome {
    let bytes = call.int(0)?.unsigned_abs();
    context.memory().borrow_mut().host_keeps(bytes);
    Ok(smallvec![])
}

/// `tensor.data = data`: the tensor has the memory of `data` from now on, and keeps its gradient.
fn set_data(context: &mut Context, call: &Call<'_>) -> Outcome {
    let data = call.tensor(1)?;
    if call.optional_tensor(0).is_some_and(Tensor::is_on_host) && !data.is_on_host() {
        context.memory().borrow_mut().host_frees(data.memory_bytes());
    }
    if !call.captured.first().copied().flatten().is_some_and(|captured| captured.requires_grad) {
        return Ok(smallvec![data.detach()]);
    }
    let before = call.optional_tensor(0).and_then(|tensor| tensor.edge());
    let Some(edge) = before.filter(|edge| edge.node.backward.gradient().is_some()) else {
        return Ok(smallvec![leaf_with(data, Default::default())]);
    };
    // A graph that the tensor is part of holds the tensor, and with it no longer the memory that it had.
    edge.node.backward.leaf_has_data_of(data);
    let has_shape = call.optional_tensor(0).is_some_and(|tensor| tensor.layout() == data.layout());
    if has_shape {
        return Ok(smallvec![data.detach().with_edge(Some(edge.clone()))]);
    }
    let gradient = edge.node.backward.gradient().cloned().unwrap_or_default();
    Ok(smallvec![leaf_with(data, gradient)])
}

/// `Parameter(data)`: another tensor on the memory of `data`, which is a leaf.
fn parameter(_context: &mut Context, call: &Call<'_>) -> Outcome {
    let data = call.tensor(0)?;
    let is_trained = call.captured.first().copied().flatten().is_some_and(|captured| captured.requires_grad);
    Ok(smallvec![if is_trained { leaf_with(data, Default::default()) } else { data.detach() }])
}
