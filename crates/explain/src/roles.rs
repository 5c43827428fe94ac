//! What an allocation was for, derived from when it was made and how long it lived.

use std::collections::HashMap;

use vramfit_trace::snapshot::StackId;

use crate::history::{History, Lifetime, OUTSIDE};
use crate::origin::Activity;
use crate::phases::Phases;
use crate::steps::Steps;

/// What an allocation was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// It is from before the recording.
    Earlier,
    /// Made before the first step: parameters, buffers, data kept on the GPU.
    Setup,
    /// Made by the optimizer and kept.
    OptimizerState,
    /// Made by autograd and held beyond the backward pass.
    Gradient,
    /// Made in a module and held beyond its call, for the backward pass or as an output.
    Activation,
    /// Made in a step outside modules: inputs, losses, metrics.
    Data,
    /// Made in a step and still held two steps later.
    Kept,
    /// Made between steps, as in an evaluation.
    BetweenSteps,
    /// Freed before the program went on to something else.
    Temporary,
    /// The same, in autograd.
    BackwardTemporary,
    /// The same, in the optimizer.
    OptimizerTemporary,
    /// A workspace that cuBLAS keeps from its first call on.
    Library,
    /// Made in a step; without frames no more is known.
    InStep,
    /// Nothing is known.
    Unknown,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 14] = [
        Role::Earlier,
        Role::Setup,
        Role::OptimizerState,
        Role::Gradient,
        Role::Activation,
        Role::Data,
        Role::Kept,
        Role::BetweenSteps,
        Role::Temporary,
        Role::BackwardTemporary,
        Role::OptimizerTemporary,
        Role::Library,
        Role::InStep,
        Role::Unknown,
    ];
}

/// Whether something made in step `born` outlived the whole of the next step.
pub fn is_carried(lifetime: &Lifetime, born: usize, steps: &Steps) -> bool {
    steps.begun_by(lifetime.death) >= born + 2
}

/// The role of every allocation.
pub fn roles(history: &History, phases: &Phases, steps: &Steps) -> Vec<Role> {
    let earlier = std::iter::repeat_n(Role::Earlier, history.earlier);
    let mut span = 0;
    let made = history.births().iter().enumerate().map(|(index, lifetime)| {
        while phases.spans[span].end as usize <= index {
            span += 1;
        }
        role(lifetime, phases.activities[index], phases.spans[span].end_event, steps)
    });
    let mut roles: Vec<Role> = earlier.chain(made).collect();
    for index in workspaces(history, phases, steps) {
        roles[index] = Role::Library;
    }
    roles
}

/// What PyTorch gives cuBLAS on its first call in each thread and stream: 8.125 MiB, on Hopper and later 32 MiB.
const WORKSPACES: [u64; 2] = [8_519_680, 33_554_432];
/// What cuBLASLt, which the same call uses, gets beside it.
const LT_WORKSPACE: u64 = 1 << 20;

/// The workspaces of cuBLAS: of that size, made in a network or in autograd, never freed, and the only such thing that their
/// line makes. A tensor of the same size would be made again in the next step. Autograd has no lines: there it is what outlives
/// whole steps.
fn workspaces(history: &History, phases: &Phases, steps: &Steps) -> Vec<usize> {
    let is_kept = |birth: usize, lifetime: &Lifetime| {
        lifetime.is_live_at_end() && matches!(phases.activities[birth], Activity::Forward | Activity::Backward)
    };
    let outlives_steps =
        |lifetime: &Lifetime| steps.number_at(lifetime.birth).is_some_and(|born| is_carried(lifetime, born, steps));
    let mut made: HashMap<(StackId, u64), usize> = HashMap::new();
    let mut found: Vec<usize> = Vec::new();
    let (mut by_autograd, mut carried) = (0, 0);
    for (birth, lifetime) in history.births().iter().enumerate() {
        if WORKSPACES.contains(&lifetime.requested) {
            by_autograd += usize::from(lifetime.stack.is_none());
            carried += usize::from(lifetime.stack.is_none() && outlives_steps(lifetime));
            if is_kept(birth, lifetime) {
                found.push(history.earlier + birth);
            }
        }
        if WORKSPACES.contains(&lifetime.requested) || lifetime.requested == LT_WORKSPACE {
            *made.entry((lifetime.stack, lifetime.requested)).or_default() += 1;
        }
    }
    found.retain(|index| {
        let lifetime = &history.lifetimes[*index];
        if lifetime.stack.is_none() {
            by_autograd <= 2 || carried <= 2 && outlives_steps(lifetime)
        } else {
            made[&(lifetime.stack, lifetime.requested)] == 1
        }
    });
    let stacks: Vec<StackId> =
        found.iter().map(|index| history.lifetimes[*index].stack).filter(|stack| !stack.is_none()).collect();
    for (birth, lifetime) in history.births().iter().enumerate() {
        let is_only = made.get(&(lifetime.stack, lifetime.requested)) == Some(&1);
        if lifetime.requested == LT_WORKSPACE && is_only && is_kept(birth, lifetime) && stacks.contains(&lifetime.stack)
        {
            found.push(history.earlier + birth);
        }
    }
    found
}

fn role(lifetime: &Lifetime, activity: Activity, span_end: u32, steps: &Steps) -> Role {
    let is_brief = lifetime.death != OUTSIDE && lifetime.death < span_end;
    let Some(born) = steps.number_at(lifetime.birth) else {
        return match steps.list.first() {
            None if activity == Activity::Unknown => Role::Unknown,
            _ if is_brief && activity != Activity::Unknown => Role::Temporary,
            None => Role::Unknown,
            Some(first) if lifetime.birth < first.first => Role::Setup,
            Some(_) => Role::BetweenSteps,
        };
    };
    let is_carried = is_carried(lifetime, born, steps);
    match activity {
        Activity::Unknown if is_carried => Role::Kept,
        Activity::Unknown => Role::InStep,
        Activity::Backward if is_brief => Role::BackwardTemporary,
        Activity::Backward if is_carried => Role::Kept,
        Activity::Backward => Role::Gradient,
        Activity::Optimizer if is_carried || lifetime.is_live_at_end() => Role::OptimizerState,
        Activity::Optimizer => Role::OptimizerTemporary,
        _ if is_brief => Role::Temporary,
        _ if is_carried => Role::Kept,
        Activity::Forward => Role::Activation,
        Activity::Other => Role::Data,
    }
}
